from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

from checkpoints.access import ThreadScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import short, uuid7
from checkpoints.models.fields import SealedField
from checkpoints.models.threads import Branch, Thread
from checkpoints.models.workspaces import Workspace


class Checkpoint(models.Model):
    """The state of a branch after one step. Written once, never changed.

    The row is what SQL may ask about; what the step did is sealed in its delta.

    Workspace, thread and branch are copied from the branch's row in the statement that
    writes this one (`log/append.py`), and the parent is the head that it moves, so the
    database need not look them up again and lock them at each step; indexes that a
    constraint below leads are not made twice.
    """

    class Kind(models.TextChoices):
        INPUT = "input"
        MODEL = "model"
        TOOL = "tool"
        INTERRUPT = "interrupt"
        DECISION = "decision"
        EDIT = "edit"
        SUMMARY = "summary"
        SNAPSHOT = "snapshot"
        MIGRATE = "migrate"
        PROGRESS = "progress"
        RESUME = "resume"
        ERROR = "error"
        CODE = "code"

    class Status(models.TextChoices):
        OK = "ok"
        FAILED = "failed"
        WAITING = "waiting"

    # What an agent says, and calls, is said in a step of these: by a model, or by code.
    REPLIES: ClassVar = (Kind.MODEL, Kind.CODE)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(
        Workspace,
        models.PROTECT,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    thread = models.ForeignKey(
        Thread,
        models.PROTECT,
        related_name="checkpoints",
        db_constraint=False,
        db_index=False,
    )
    branch = models.ForeignKey(
        Branch,
        models.PROTECT,
        related_name="checkpoints",
        db_constraint=False,
        db_index=False,
    )
    parent = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        related_name="children",
        db_constraint=False,
        db_index=False,
    )
    step = models.PositiveIntegerField(
        help_text="Steps from the start of the thread, through any forks."
    )
    kind = models.CharField(max_length=10, choices=Kind)
    status = models.CharField(max_length=10, choices=Status, default=Status.OK)
    name = models.CharField(
        max_length=100, blank=True, help_text="The node, or a tool that is registered."
    )
    run = models.UUIDField(null=True, help_text="The run that took the step.")
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="+",
        db_index=False,
        help_text="The person, where a person took it.",
    )
    agent_version = models.UUIDField(null=True)
    # Of the state after the step: its `_schema`.
    schema_version = models.PositiveSmallIntegerField(default=1)
    model_requested = models.CharField(max_length=100, blank=True)
    model_returned = models.CharField(max_length=100, blank=True)
    temperature = models.FloatField(null=True)
    top_p = models.FloatField(null=True)
    seed = models.BigIntegerField(null=True)
    fingerprint = models.CharField(max_length=100, blank=True)
    tokens_in = models.PositiveIntegerField(null=True)
    tokens_out = models.PositiveIntegerField(null=True)
    tokens_cached = models.PositiveIntegerField(null=True)
    cost = models.DecimalField(
        max_digits=12,
        decimal_places=6,
        null=True,
        help_text="US dollars; null: unknown.",
    )
    latency_ms = models.PositiveIntegerField(null=True)
    error_class = models.CharField(max_length=60, blank=True)
    data_key = models.UUIDField(help_text="The data key its delta is sealed with.")
    state_mac = models.BinaryField(
        help_text="32 bytes; chains this step to its parent."
    )
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = models.Manager.from_queryset(ThreadScopedQuerySet)()

    class Meta:
        constraints = [
            # Two workers that both believe they own a branch cannot both write its next step.
            models.UniqueConstraint(
                fields=["thread", "branch", "step"],
                name="checkpoint_step_unique_in_branch",
            ),
        ]
        indexes = [
            models.Index(
                fields=["workspace", "error_class", "-created_at"],
                name="checkpoint_failures",
                condition=~models.Q(error_class=""),
            ),
        ]

    def __str__(self) -> str:
        return f"step {self.step} of branch {short(self.branch_id)}"


class CheckpointDelta(models.Model):
    """What one step did: its operations, label and context manifest, sealed.

    The sealed text is canonical JSON
    `{"context": object or null, "label": str, "ops": [operation, ...]}`, with `"blobs"`,
    a list of ids, where values of the step were put away. A partial index (migration
    0004) finds the steps that fill a segment and wait to be packed.
    """

    # Written by the statement that writes the checkpoint.
    checkpoint = models.OneToOneField(
        Checkpoint,
        models.PROTECT,
        primary_key=True,
        related_name="delta",
        db_constraint=False,
    )
    # As its checkpoint has them: whole runs of a branch are packed by these.
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
        Branch, models.PROTECT, related_name="+", db_constraint=False, db_index=False
    )
    step = models.PositiveIntegerField()
    record = SealedField()

    objects = models.Manager.from_queryset(ThreadScopedQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "branch", "step"], name="delta_step_unique_in_branch"
            ),
        ]

    def __str__(self) -> str:
        return f"operations of step {self.step}"


class Segment(models.Model):
    """A run of steps of one branch, packed and sealed as one; their deltas are gone.

    Packing keeps each step's sealed text verbatim (`pure/segment.py`), so the state
    chain over it stays as it is. The steps' rows stay.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
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
        Branch, models.PROTECT, related_name="segments", db_index=False
    )
    first_step = models.PositiveIntegerField()
    last_step = models.PositiveIntegerField()
    data_key = models.UUIDField(help_text="The data key it is sealed with.")
    record = SealedField()
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = models.Manager.from_queryset(ThreadScopedQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "branch", "first_step"],
                name="segment_start_unique_in_branch",
            ),
            models.CheckConstraint(
                condition=models.Q(last_step__gte=models.F("first_step")),
                name="segment_has_steps",
            ),
        ]

    def __str__(self) -> str:
        return f"steps {self.first_step}-{self.last_step}"

    @property
    def step(self) -> int:
        """The step that its record is bound to: its first."""
        return self.first_step
