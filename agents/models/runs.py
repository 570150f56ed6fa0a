from __future__ import annotations

from datetime import timedelta
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Case, F, Q, When

from agents.models.agents import AgentVersion
from agents.pure.queues import QUEUE
from checkpoints.access import ThreadScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import short, uuid7
from checkpoints.models import Branch, Checkpoint, Grant, Thread, Workspace
from checkpoints.models.fields import SealedField


class RunQuerySet(ThreadScopedQuerySet["Run"]):
    def due(self) -> Self:
        """Ready, and nothing holds them: no time to come, no person, no halt."""
        return self.filter(
            Q(wake_at=None) | Q(wake_at__lte=ClockTimestamp()),
            status=Run.Status.READY,
            paused_at=None,
            workspace__halted_at=None,
        )

    def in_line(self) -> Self:
        """In the order in which they are to be taken: by priority, then by age.

        One that was ready for as long as `YIELDS` lets nobody go first any more.
        """
        now = ClockTimestamp()
        waits = Q(ready_at__lt=now - Run.YIELDS)
        place = Case(
            When(waits, then=Run.Priority.HIGH),
            default=F("priority"),
            output_field=models.IntegerField(),
        )
        return self.order_by(place, "ready_at", "created_at")


class Run(models.Model):
    """An agent at work on a branch, from a message to an answer, through waits.

    Each edge of `status` is one conditional UPDATE whose row count decides who won
    (`agents/runs/`). Lease and fence are columns of the branch that it holds.
    """

    class Status(models.TextChoices):
        READY = "ready"
        RUNNING = "running"
        WAITING = "waiting"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CANCELLED = "cancelled"

    class Resume(models.TextChoices):
        FACTUAL = "factual", "from the facts"
        AS_IS = "as_is", "from the whole conversation"

    class Priority(models.IntegerChoices):
        HIGH = 0
        NORMAL = 1
        LOW = 2

    YIELDS = timedelta(minutes=5)  # to runs of a higher priority, while it is ready
    LIVE = (Status.READY, Status.RUNNING, Status.WAITING)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="runs")
    branch = models.ForeignKey(Branch, models.PROTECT, related_name="runs")
    # That works on it, or did last: each step names the one that made it.
    agent_version = models.ForeignKey(AgentVersion, models.PROTECT, related_name="runs")
    grant = models.ForeignKey(Grant, models.PROTECT, related_name="+")
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )
    retry_of = models.ForeignKey(
        "self", models.PROTECT, null=True, related_name="retries"
    )
    asks = models.ForeignKey(
        Checkpoint,
        models.PROTECT,
        null=True,
        related_name="asked_again",
        db_constraint=False,
        db_index=False,
        editable=False,
        help_text="The model's step whose request it sends once more. It does nothing "
        "else: no call of the answer is begun.",
    )
    parent = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        related_name="children",
        db_constraint=False,
        db_index=False,
        editable=False,
        help_text="The run that had this one started, and waits for it.",
    )
    parent_call = models.ForeignKey(
        "agents.ToolCall",
        models.PROTECT,
        null=True,
        related_name="children",
        db_constraint=False,
        db_index=False,
        editable=False,
        help_text="Its call, of which this run's answer is the result.",
    )
    status = models.CharField(max_length=10, choices=Status, default=Status.READY)
    queue = models.CharField(
        max_length=60, default=QUEUE, help_text="Whose workers take it."
    )
    priority = models.PositiveSmallIntegerField(
        choices=Priority,
        default=Priority.NORMAL,
        help_text="What is ready is taken in this order.",
    )
    cancel_requested = models.BooleanField(default=False)
    interrupted = models.BooleanField(
        default=False,
        help_text="A message asked for the cancelling: the next run answers it.",
    )
    attempts = models.PositiveIntegerField(
        default=0, help_text="Claims since the last committed step."
    )
    rings = models.PositiveIntegerField(default=0)
    rung_at = models.DateTimeField(null=True, editable=False)
    ready_at = models.DateTimeField(
        null=True,
        db_default=ClockTimestamp(),
        editable=False,
        help_text="When it last became ready: how long it has been waiting for a worker.",
    )
    wake_at = models.DateTimeField(
        null=True, blank=True, help_text="Not to be claimed before this time."
    )
    paused_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="By a person: not to be claimed until it is resumed.",
    )
    resume = models.CharField(
        max_length=10,
        choices=Resume,
        blank=True,
        default="",
        db_default="",
        help_text="What a person chose that it goes on from; empty: as its agent says.",
    )
    worker = models.CharField(max_length=100, blank=True)
    steps = models.PositiveIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(
        max_digits=12,
        decimal_places=6,
        null=True,
        help_text="US dollars, of what has a known price; null: of nothing.",
    )
    max_cost = models.DecimalField(
        max_digits=12,
        decimal_places=6,
        null=True,
        help_text="US dollars that a person lets it use; null: as its agent says.",
    )
    unpriced = models.PositiveIntegerField(
        default=0, help_text="Model calls whose price is not known."
    )
    worked = models.DurationField(
        default=timedelta, help_text="At work; waiting for people is not."
    )
    answering = models.JSONField(
        null=True,
        editable=False,
        help_text="While a model answers: the step, the attempt, characters so far. "
        "Never its words.",
    )
    error_class = models.CharField(max_length=60, blank=True)
    error = SealedField(null=True)
    failed_step = models.IntegerField(null=True)
    request_key = models.UUIDField(null=True, editable=False)
    external_id = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001  # absent ids must not collide
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    finished_at = models.DateTimeField(null=True, editable=False)

    objects = models.Manager.from_queryset(RunQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "request_key"], name="run_request_key_unique"
            ),
            models.UniqueConstraint(
                fields=["workspace", "external_id"], name="run_external_id_unique"
            ),
            # A branch may have one writer, so one run that is not over.
            models.UniqueConstraint(
                fields=["branch"],
                name="run_one_live_per_branch",
                condition=Q(status__in=["ready", "running", "waiting"]),
            ),
        ]
        indexes = [
            models.Index(
                fields=["status", "wake_at"],
                name="run_live",
                condition=Q(status__in=["ready", "running", "waiting"]),
            ),
            models.Index(
                fields=["queue", "priority", "ready_at"],
                name="run_in_line",
                condition=Q(status="ready"),
            ),
            models.Index(fields=["workspace", "-created_at"], name="run_recent"),
            models.Index(
                fields=["asks", "-created_at"],
                name="run_asking",
                condition=Q(asks__isnull=False),
            ),
            models.Index(
                fields=["parent", "parent_call"],
                name="run_child",
                condition=Q(parent__isnull=False),
            ),
            models.Index(
                fields=["workspace", "failed_step", "-finished_at"],
                name="run_failed_at",
                condition=Q(status="failed"),
            ),
            models.Index(
                fields=["workspace", "error_class", "-finished_at"],
                name="run_failed_by_class",
                condition=Q(status="failed"),
            ),
            models.Index(
                fields=["workspace", "-finished_at"],
                include=["error_class"],
                name="run_failed_recently",
                condition=Q(status="failed"),
            ),
        ]

    def __str__(self) -> str:
        return f"run {short(self.pk)}"

    @property
    def priority_name(self) -> str:
        """high, normal or low."""
        return Run.Priority(self.priority).name.lower()

    @property
    def is_live(self) -> bool:
        return self.status in self.LIVE

    @property
    def needs_owner(self) -> bool:
        """Whether whom it acted for may no longer. It waits for somebody else."""
        return self.is_live and self.grant.revoked_at is not None

    @property
    def is_paused(self) -> bool:
        """Ready, but something must get better first: `error` says what."""
        waits = self.status == self.Status.READY and self.paused_at is None
        return waits and bool(self.error_class)

    @property
    def is_held(self) -> bool:
        """Whether it is paused until a person resumes it: by one, or because people said
        no again and again (then `error` says so)."""
        return self.is_live and self.paused_at is not None

    @property
    def shown_status(self) -> str:
        """The status as pages call it."""
        held = self.is_held and self.status == self.Status.READY
        return "paused" if self.is_paused or held else self.status


class ToolCall(models.Model):
    """One call that a model asked for: intent ledger, result cache and fork replay.

    Its id is our key, `uuid5(checkpoint of the model's reply, ordinal)`: providers
    repeat theirs. The key is passed to the tool.
    """

    class Status(models.TextChoices):
        PROPOSED = "proposed"
        WAITING = "waiting"  # for a decision
        APPROVED = "approved"
        EXECUTING = "executing"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        REJECTED = "rejected"
        RESPONDED = "responded"
        UNKNOWN = "unknown"  # outcome unknown
        SUPERSEDED = "superseded"
        SIMULATED = "simulated"  # not made: a fork pretends

    class Effect(models.TextChoices):
        NONE = "none"
        READ = "read"
        WRITE = "write"
        EXTERNAL = "external"

    id = models.UUIDField(primary_key=True, editable=False)
    # As the branch has them whose holder writes the row, with the step; the database need
    # not look them up again and lock them at each call. Indexes below lead with the first
    # two.
    workspace = models.ForeignKey(
        Workspace,
        models.PROTECT,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="+", db_constraint=False, db_index=False
    )
    branch = models.ForeignKey(
        Branch, models.PROTECT, related_name="+", db_constraint=False
    )
    run = models.ForeignKey(Run, models.PROTECT, related_name="calls")
    reply = models.ForeignKey(
        Checkpoint,
        models.PROTECT,
        related_name="calls",
        db_constraint=False,
        db_index=False,
        help_text="The model's reply.",
    )
    ordinal = models.PositiveSmallIntegerField()
    tool = models.CharField(
        max_length=100, blank=True, help_text="Empty when no such tool is registered."
    )
    tool_version = models.CharField(max_length=64, blank=True)
    effect = models.CharField(max_length=10, choices=Effect, default=Effect.EXTERNAL)
    status = models.CharField(max_length=10, choices=Status, default=Status.PROPOSED)
    # Both are null once the thread's content went.
    title = SealedField(null=True)
    arguments = SealedField(null=True, help_text="As proposed, without the reason.")
    arguments_digest = models.BinaryField(
        help_text="Keyed hash of tool, version and arguments: finds recorded results."
    )
    reason = SealedField(null=True)
    effective = SealedField(null=True, help_text="As edited; null: as proposed.")
    result = SealedField(null=True)
    result_checkpoint = models.ForeignKey(
        Checkpoint,
        models.PROTECT,
        null=True,
        related_name="+",
        db_constraint=False,
        db_index=False,  # so that to settle a call changes no index
    )
    recorded_from = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        related_name="+",
        help_text="In a fork: the call whose recorded result was used.",
    )
    error_class = models.CharField(max_length=60, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    worker = models.CharField(
        max_length=100,
        blank=True,
        db_default="",
        editable=False,
        help_text="While it is executing: whose process may be at it; empty: none.",
    )
    waits_for = models.UUIDField(
        null=True,
        editable=False,
        help_text="The lock that it has to have first, where another run held it.",
    )
    waits_until = models.DateTimeField(
        null=True, editable=False, help_text="Then it is told who holds the lock."
    )
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    finished_at = models.DateTimeField(null=True, editable=False)

    objects = models.Manager.from_queryset(ThreadScopedQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "reply", "ordinal", "branch"],
                name="call_ordinal_unique_in_reply",
            ),
        ]
        indexes = [
            models.Index(
                fields=["workspace", "tool", "-created_at"], name="call_by_tool"
            ),
            models.Index(
                fields=["workspace", "-created_at"],
                include=["tool", "effect"],
                name="call_reused",
                condition=Q(recorded_from__isnull=False),
            ),
            models.Index(
                fields=["waits_for"],
                name="call_waits_for",
                condition=Q(waits_for__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool or 'unregistered tool'} {short(self.pk)}"

    @property
    def awaits_lock(self) -> bool:
        """Whether it was held back for a lock, and not made since."""
        return self.waits_for is not None and self.status in (
            self.Status.PROPOSED,
            self.Status.APPROVED,
        )
