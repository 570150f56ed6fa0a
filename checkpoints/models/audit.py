from __future__ import annotations

from django.conf import settings
from django.db import models

from checkpoints.access import ScopedManager
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import uuid7
from checkpoints.models.fields import NextPosition
from checkpoints.models.workspaces import Workspace


class AuditEvent(models.Model):
    """Who did what to which row, when, and how it ended. Ids, never content.

    Append-only: a database trigger refuses UPDATE and DELETE. A link (`AuditLink`)
    follows within about a second, and chains it to what was linked before; until then
    another trigger keeps its id among the pending ones (`AuditPending`).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    position = models.BigIntegerField(
        db_default=NextPosition("checkpoints_audit_position"), editable=False
    )
    workspace = models.ForeignKey(
        Workspace,
        models.PROTECT,
        null=True,
        related_name="audit_events",
        db_index=False,  # the two below begin with it
    )
    at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )
    via = models.CharField(max_length=20, help_text="web, api, worker, command, admin")
    session = models.CharField(max_length=64, blank=True)
    address = models.GenericIPAddressField(null=True, blank=True)
    action = models.CharField(max_length=40)
    object_type = models.CharField(max_length=40, blank=True)
    object_id = models.UUIDField(null=True)
    purpose = models.CharField(max_length=60, blank=True)
    outcome = models.CharField(max_length=20, default="ok")
    detail = models.JSONField(default=dict, blank=True)

    objects = ScopedManager()

    class Meta:
        indexes = [
            models.Index(fields=["workspace", "-position"], name="audit_recent"),
            models.Index(fields=["workspace", "at"], name="audit_when"),
            models.Index(fields=["object_type", "object_id"], name="audit_object"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.object_type} {self.object_id}"


class AuditLink(models.Model):
    """One link of a workspace's chain of events: it covers its event and the link before.

    Links are numbered 1, 2, 3, … in each workspace; events that belong to no workspace
    have a chain of their own. Append-only, as events are.
    """

    event = models.OneToOneField(
        AuditEvent, models.PROTECT, primary_key=True, related_name="link"
    )
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, null=True, related_name="+", db_index=False
    )
    number = models.PositiveBigIntegerField()
    previous = models.BinaryField(help_text="32 bytes: the hash of the link before.")
    hash = models.BinaryField(help_text="32 bytes: SHA-256 over `previous` and event.")
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = ScopedManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "number"],
                name="audit_link_number_unique",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        return f"link {self.number}"


class AuditPending(models.Model):
    """An event that is not linked yet. A database trigger writes it with the event.

    Positions are given when a row is inserted, so an event may become visible after
    others with greater positions were linked. Here it is found all the same, and a
    sweep costs what waits, not what there is.
    """

    event = models.OneToOneField(
        AuditEvent, models.PROTECT, primary_key=True, related_name="pending"
    )
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, null=True, related_name="+", db_index=False
    )
    position = models.BigIntegerField()

    objects = ScopedManager()

    class Meta:
        indexes = [
            models.Index(fields=["workspace", "position"], name="audit_pending_next"),
        ]

    def __str__(self) -> str:
        return f"{self.event_id} at {self.position}"
