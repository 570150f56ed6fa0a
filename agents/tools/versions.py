"""Which version of an agent this is: found by a keyed digest of all that makes it."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from agents import models
from agents.tools.agent import Agent
from checkpoints import gate
from checkpoints.access import Reason, unscoped
from checkpoints.keys.hierarchy import workspace_mac
from checkpoints.models import DataKey, Workspace
from checkpoints.pure.chain import keyed_digest


def digest_of(workspace_id: UUID, agent: Agent) -> bytes:
    """32 bytes that are equal where the agent is the same version, in one workspace.

    Raises UnknownKey.
    """
    key = workspace_mac(workspace_id, DataKey.Purpose.INDEX)
    return keyed_digest(key, "agent spec 1", agent.spec())


def agent_version(workspace: Workspace, agent: Agent) -> models.AgentVersion:
    """The workspace's row for the agent as it is now; a new one when anything changed."""
    digest = digest_of(workspace.pk, agent)
    with unscoped(Reason.WORKER):
        known = models.AgentVersion.objects.select_related("agent").filter(
            workspace=workspace, agent__name=agent.name, digest=digest
        )
        if (found := known.first()) is not None:
            return found
        with transaction.atomic():
            row, _ = models.Agent.objects.get_or_create(
                workspace=workspace, name=agent.name
            )
            # Numbers without gaps: one new version of an agent at a time.
            row = models.Agent.objects.select_for_update(no_key=True).get(pk=row.pk)
            if (found := known.first()) is not None:
                return found
            version = models.AgentVersion(
                workspace=workspace,
                agent=row,
                number=models.AgentVersion.objects.filter(agent=row).count() + 1,
                digest=digest,
                schema_version=agent.schema_version,
            )
            version.spec = gate.seal(version, "spec", agent.spec())
            version.save(force_insert=True)
            return version
