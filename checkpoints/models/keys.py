from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints.access import ScopedManager
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import short, uuid7
from checkpoints.models.threads import Thread
from checkpoints.models.workspaces import Workspace


class WorkspaceKey(models.Model):
    """A workspace's key, wrapped by a key-encryption key. It wraps the data keys."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="keys")
    version = models.PositiveIntegerField(default=1)
    kek = models.CharField(
        max_length=200, help_text="kek:<provider>:<name>:<version> of what wraps it."
    )
    wrapped = models.BinaryField()
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    rewrapped_at = models.DateTimeField(null=True, editable=False)

    objects = ScopedManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "version"], name="workspace_key_version_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"workspace key {short(self.pk)} v{self.version}"


class DataKey(models.Model):
    """A key that seals or authenticates, wrapped by its workspace's key."""

    class Purpose(models.TextChoices):
        DATA = "data", "data key of a thread"
        MAC = "mac", "MAC key of a thread"
        DETAIL = "detail", "agent specs, audit details"
        INDEX = "index", "digests and blind index of a workspace"
        DECISION = "decision", "decision MACs; outlives threads"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="data_keys")
    thread = models.ForeignKey(
        Thread, models.PROTECT, null=True, related_name="data_keys"
    )
    purpose = models.CharField(max_length=10, choices=Purpose)
    version = models.PositiveIntegerField(default=1)
    workspace_key = models.ForeignKey(
        WorkspaceKey, models.PROTECT, related_name="data_keys"
    )
    wrapped = models.BinaryField(null=True, help_text="Null once destroyed.")
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    destroyed_at = models.DateTimeField(null=True, editable=False)
    destroyed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="+",
        editable=False,
        help_text="Null where a policy or a command did.",
    )

    objects = ScopedManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "thread", "purpose", "version"],
                name="data_key_version_unique",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(wrapped__isnull=False) | Q(destroyed_at__isnull=False),
                name="data_key_is_there_or_destroyed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.purpose} key {short(self.pk)} v{self.version}"
