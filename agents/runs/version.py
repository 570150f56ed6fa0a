"""As which version of its agent a run goes on: the one that this worker has.

A run begins as its agent was then, and may be taken on after a deploy, by other code. Its
row names the version that works on it, each step the one that made it.
"""

from __future__ import annotations

from agents.models import Run
from agents.runs.claim import Claim
from agents.tools.versions import agent_version, digest_of
from checkpoints.errors import Fenced
from checkpoints.models import Workspace


def go_on_as_here(claim: Claim) -> None:
    """Before the run's first step: nothing to do where its agent is as it was.

    Raises Fenced, UnknownKey and KeysUnavailable.
    """
    run = claim.run
    if digest_of(run.workspace_id, claim.agent) == claim.version:
        return
    version = agent_version(Workspace.objects.get(pk=run.workspace_id), claim.agent)
    held = Run.objects.for_run(claim.principal).filter(
        pk=run.pk, status=Run.Status.RUNNING, branch__fence=claim.branch.fence
    )
    if not held.update(agent_version=version):
        raise Fenced("Another worker holds the branch.")
    run.agent_version = version
