from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents.models.runs import Run, ToolCall
from checkpoints.access import ThreadScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import uuid7
from checkpoints.models import Branch, Checkpoint, Thread, Workspace
from checkpoints.models.fields import SealedField


@dataclass(frozen=True)
class Seen:
    """What a page showed: a decision counts for these bytes only."""

    revision: int
    digest: bytes


class ApprovalQuerySet(ThreadScopedQuerySet["Approval"]):
    def pending(self) -> Self:
        return self.filter(status=Approval.Status.PENDING)


class Approval(models.Model):
    """A request that a person lets one tool call go ahead, or answers it.

    `digest` binds it to exact bytes (`agents/pure/digest.py`); `revision` grows with
    every change. A decision names both, so nobody decides what they did not see.
    """

    class Kind(models.TextChoices):
        APPROVAL = "approval"
        QUESTION = "question"
        UNKNOWN = "unknown", "outcome unknown"

    class Status(models.TextChoices):
        PENDING = "pending"
        APPROVED = "approved"
        REJECTED = "rejected"
        RESPONDED = "responded"
        EXPIRED = "expired"
        SUPERSEDED = "superseded"
        CANCELLED = "cancelled"

    class Risk(models.TextChoices):
        LOW = "low"
        MEDIUM = "medium"
        HIGH = "high"
        CRITICAL = "critical"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    number = models.PositiveIntegerField(help_text="APR-2041; unique in its workspace.")
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="approvals")
    branch = models.ForeignKey(Branch, models.PROTECT, related_name="+")
    run = models.ForeignKey(Run, models.PROTECT, related_name="approvals")
    call = models.OneToOneField(ToolCall, models.PROTECT, related_name="approval")
    checkpoint = models.ForeignKey(
        Checkpoint, models.PROTECT, related_name="+", help_text="The model's reply."
    )
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.APPROVAL)
    status = models.CharField(max_length=10, choices=Status, default=Status.PENDING)
    risk = models.CharField(max_length=10, choices=Risk, default=Risk.MEDIUM)
    rule = models.CharField(max_length=200, help_text="Name of the rule that asks.")
    allowed = models.JSONField(help_text="Verdicts that may be given.")
    revision = models.PositiveIntegerField(default=1)
    digest = models.BinaryField(help_text="32 bytes, keyed.")
    asked_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    due_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, editable=False)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )

    objects = models.Manager.from_queryset(ApprovalQuerySet)()

    # Restored where the number was given to another one, it takes the next (`restore`).
    counted = ("workspace_id", "number")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "number"], name="approval_number_unique"
            ),
        ]
        indexes = [
            models.Index(
                fields=["workspace", "due_at", "asked_at"],
                name="approval_pending",
                condition=Q(status="pending"),
            ),
            models.Index(fields=["workspace", "-decided_at"], name="approval_decided"),
        ]

    def __str__(self) -> str:
        return f"APR-{self.number}"

    @property
    def is_pending(self) -> bool:
        return self.status == self.Status.PENDING

    def as_shown(self) -> Seen:
        """What the form carries, and the decision gives back."""
        return Seen(self.revision, bytes(self.digest))


class Decision(models.Model):
    """What a person said to one revision of an approval. Written once.

    Bound by `mac` (the workspace's decision key) to the digest that was shown.
    """

    class Verdict(models.TextChoices):
        APPROVE = "approve"
        EDIT = "edit"
        REJECT = "reject"
        RESPOND = "respond"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="+")
    approval = models.ForeignKey(Approval, models.PROTECT, related_name="decisions")
    revision = models.PositiveIntegerField()
    verdict = models.CharField(max_length=10, choices=Verdict)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    role = models.CharField(max_length=10)
    session = models.CharField(max_length=64, blank=True)
    digest = models.BinaryField(help_text="What was shown, as the form carried it.")
    content = SealedField(
        null=True, kept=True, help_text="Reason, response or edited arguments, as JSON."
    )
    mac = models.BinaryField()
    at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = models.Manager.from_queryset(ThreadScopedQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["approval", "revision", "by"],
                name="decision_once_per_revision_and_person",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} {self.approval_id}"
