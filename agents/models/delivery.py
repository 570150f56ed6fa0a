from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents.models.approvals import Approval
from checkpoints.access import ScopedManager
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import uuid7
from checkpoints.models import Workspace
from checkpoints.models.fields import SealedField


class Event(models.TextChoices):
    """What happens to a request, and is told."""

    ASKED = "asked"
    DECIDED = "decided"
    EXECUTED = "executed"
    EXPIRED = "expired"
    ESCALATED = "escalated"
    TEST = "test"  # of a channel, by an admin


class Channel(models.Model):
    """Where people and programs are told of requests: e-mail, or a webhook.

    Address and secret are sealed under the workspace's key. An e-mail channel without an
    address writes to those who may decide the request, each at their own.
    """

    class Kind(models.TextChoices):
        EMAIL = "email", "e-mail"
        WEBHOOK = "webhook"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    kind = models.CharField(max_length=10, choices=Kind)
    name = models.CharField(max_length=60)
    address = SealedField(null=True, help_text="None: those who may decide, by e-mail.")
    secret = SealedField(null=True, help_text="What a webhook is signed with.")
    events = models.JSONField(default=list, help_text="Of which it tells.")
    groups = models.JSONField(
        default=list, help_text="Only of requests to one of these; none: of all."
    )
    include_title = models.BooleanField(
        default=False, help_text="Titles are state: they leave with the message."
    )
    active = models.BooleanField(default=True)
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )
    made_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = ScopedManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="channel_name_unique"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_to_people(self) -> bool:
        """Whether each message goes to a person, not to an address of the channel's."""
        return self.kind == self.Kind.EMAIL and self.address is None


class Delivery(models.Model):
    """One message that is to go out: a row of the outbox. Its id is the message's.

    Written with the change that it tells of, sent by workers, at least once. Until
    `next_at` no worker takes it: a lease while one sends it, a rest after a try that
    failed. It speaks of this installation, so no thread's archive has it.
    """

    class Status(models.TextChoices):
        QUEUED = "queued"
        SENT = "sent"
        UNDELIVERED = "undelivered"  # given up, until a person tries it again
        SKIPPED = "skipped"  # nobody needs it any more

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    channel = models.ForeignKey(Channel, models.PROTECT, related_name="deliveries")
    approval = models.ForeignKey(
        Approval, models.PROTECT, null=True, related_name="deliveries"
    )
    recipient = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )
    event = models.CharField(max_length=10, choices=Event)
    revision = models.PositiveIntegerField(default=0)
    level = models.PositiveSmallIntegerField(
        default=0, help_text="Of an escalation: which step."
    )
    outcome = models.CharField(
        max_length=10, blank=True, help_text="The status that it tells."
    )
    status = models.CharField(max_length=12, choices=Status, default=Status.QUEUED)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    error_class = models.CharField(max_length=60, blank=True)
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    sent_at = models.DateTimeField(null=True, editable=False)

    objects = ScopedManager()

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(
                fields=[
                    *("approval", "revision", "event", "level"),
                    *("channel", "recipient"),
                ],
                name="delivery_told_once",
                condition=Q(approval__isnull=False),
                nulls_distinct=False,
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_at"], name="delivery_due", condition=Q(status="queued")
            ),
            models.Index(
                fields=["workspace", "approval"],
                name="delivery_undelivered",
                condition=Q(status="undelivered"),
            ),
            models.Index(fields=["workspace", "-created_at"], name="delivery_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.approval_id or ''}".strip()
