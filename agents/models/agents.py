from __future__ import annotations

from django.db import models

from checkpoints.access import ScopedManager
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import uuid7
from checkpoints.models import Workspace
from checkpoints.models.fields import SealedField


class Agent(models.Model):
    """An agent that code registers under this name, as this workspace knows it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="agents")
    name = models.SlugField(max_length=60)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = ScopedManager()

    same_by = ("workspace_id", "name")  # of a restored row: the one that is here

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="agent_name_unique_in_workspace"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class AgentVersion(models.Model):
    """What an agent was: prompt, model, parameters, tools and rules, sealed.

    A change of any of them makes a new version; every checkpoint names the one that
    ran. `digest` is keyed (the workspace's index key), so equal specs are found
    without storing anything that can be guessed.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    agent = models.ForeignKey(Agent, models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    digest = models.BinaryField()
    spec = SealedField(kept=True)
    schema_version = models.PositiveSmallIntegerField(default=1)
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = ScopedManager()

    # Of a restored row: the one that is here; else it takes the next number.
    same_by = ("agent_id", "digest")
    counted = ("agent_id", "number")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "number"], name="agent_version_number_unique"
            ),
            models.UniqueConstraint(
                fields=["agent", "digest"], name="agent_version_spec_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.agent} v{self.number}"
