from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Case, F, IntegerField, Q, Value, When
from django.db.models.functions import Coalesce

from agents.models.policies import Policy
from agents.models.runs import Run, ToolCall
from checkpoints.access import ThreadScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import uuid7
from checkpoints.models import Branch, Checkpoint, Thread, Workspace
from checkpoints.models.fields import SealedField

# The order of the queue, as its index has it (`approval_queue`): no deadline is far away.
FAR = datetime(9999, 12, 31, tzinfo=UTC)
DUE = Coalesce(F("due_at"), Value(FAR), output_field=models.DateTimeField())
RISKS = {"critical": 0, "high": 1, "medium": 2, "low": 3}
RANK = Case(
    *(When(risk=risk, then=Value(rank)) for risk, rank in RISKS.items()),
    default=Value(len(RISKS)),
    output_field=IntegerField(),
)


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

    class Guard(models.TextChoices):
        SAME = "same", "unchanged"
        CHANGED = "changed", "changed"
        INVALID = "invalid", "no longer valid"
        FAILED = "failed", "could not be checked"

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
    # What the rule demands: `agents/pure/policies.py`, Terms. The digest binds it.
    terms = models.JSONField(default=dict)
    policy = models.ForeignKey(
        Policy,
        models.PROTECT,
        null=True,
        related_name="+",
        help_text="None: the tool's own rule asks.",
    )
    approvers = models.PositiveSmallIntegerField(
        default=1, help_text="How many people have to approve."
    )
    final_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="Until then the decision can be undone, and nothing runs.",
    )
    overdue_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="When its deadline had passed and was acted upon, once.",
    )
    # Who looks after it
    priority = models.SmallIntegerField(default=0, help_text="Higher comes first.")
    level = models.PositiveSmallIntegerField(
        default=0, help_text="Steps of the escalation that were taken."
    )
    next_step_at = models.DateTimeField(
        null=True, editable=False, help_text="When the next one is due."
    )
    claimed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    claimed_at = models.DateTimeField(null=True, editable=False)
    assigned_to = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    # What its tool's guard saw when it was asked, and what it found since
    guard = models.CharField(max_length=10, choices=Guard, blank=True)
    guard_seen = SealedField(null=True)
    guard_found = SealedField(null=True, help_text="Where that is something else.")
    guard_asked_at = models.DateTimeField(
        null=True, editable=False, help_text="A check is under way since then."
    )
    guard_checked_at = models.DateTimeField(null=True, editable=False)
    preview = SealedField(null=True, help_text="What the call would do, as text.")
    alike = models.BinaryField(
        null=True, help_text="Keyed hash of tool and arguments: equal requests."
    )
    changed_at = models.DateTimeField(
        db_default=ClockTimestamp(),
        editable=False,
        help_text="A trigger's: pages that are open ask what changed last.",
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
                F("workspace"),
                DUE,
                F("priority") * -1,
                RANK,
                F("asked_at"),
                F("id"),
                name="approval_queue",
                condition=Q(status="pending"),
            ),
            models.Index(fields=["workspace", "-changed_at"], name="approval_changed"),
            models.Index(fields=["workspace", "-decided_at"], name="approval_decided"),
            models.Index(
                fields=["due_at"],
                name="approval_overdue",
                condition=Q(
                    status="pending", due_at__isnull=False, overdue_at__isnull=True
                ),
            ),
            models.Index(
                fields=["workspace", "due_at"],
                name="approval_expired",
                condition=Q(status="expired"),
            ),
            models.Index(
                fields=["next_step_at"],
                name="approval_escalates",
                condition=Q(status="pending", next_step_at__isnull=False),
            ),
            models.Index(
                fields=["guard_asked_at"],
                name="approval_checked",
                condition=Q(status="pending", guard_asked_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"APR-{self.number}"

    @property
    def is_pending(self) -> bool:
        return self.status == self.Status.PENDING

    @property
    def is_being_checked(self) -> bool:
        return self.is_pending and self.guard_asked_at is not None

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
    shown = models.BinaryField(
        null=True, help_text="Keyed hash of the fragment of the page that was shown."
    )
    confirmed = models.CharField(
        max_length=40,
        blank=True,
        default="",
        db_default="",
        help_text="What the person was asked for and gave: password, typed.",
    )
    break_glass = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Given alone by an admin, against the terms of the request.",
    )
    mac = models.BinaryField()
    at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = models.Manager.from_queryset(ThreadScopedQuerySet)()

    class Meta:
        constraints = [
            # Who approved may still reject, or edit, while others are waited for.
            models.UniqueConstraint(
                fields=["approval", "revision", "by", "verdict"],
                name="decision_once_per_revision_and_person",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} {self.approval_id}"


class ApprovalNote(models.Model):
    """What a person wrote on a request without deciding it. Written once."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="+")
    approval = models.ForeignKey(Approval, models.PROTECT, related_name="notes")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    text = SealedField(null=True, kept=True)
    at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = models.Manager.from_queryset(ThreadScopedQuerySet)()

    def __str__(self) -> str:
        return f"note on {self.approval_id}"


class Snooze(models.Model):
    """A person does not want to see a request until then. Its deadline stays."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="+")
    approval = models.ForeignKey(Approval, models.PROTECT, related_name="snoozes")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    until = models.DateTimeField()

    objects = models.Manager.from_queryset(ThreadScopedQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["approval", "by"], name="snooze_once_per_person"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.approval_id} until {self.until:%Y-%m-%d %H:%M}"
