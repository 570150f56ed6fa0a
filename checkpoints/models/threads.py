from __future__ import annotations

from datetime import timedelta
from typing import Self
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Max, Q

from checkpoints.access import (
    Actor,
    RunPrincipal,
    ScopedQuerySet,
    ThreadScopedQuerySet,
    UserPrincipal,
)
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import short, uuid7
from checkpoints.models.fields import NextPosition, SealedField
from checkpoints.models.workspaces import Group, Workspace


class ThreadQuerySet(ScopedQuerySet["Thread"]):
    def for_user(self, principal: Actor) -> Self:
        """Threads open to the workspace, the principal's own, and its groups'."""
        visible = Q(visibility=Thread.Visibility.WORKSPACE)
        if isinstance(principal, UserPrincipal):  # a program has no own
            visible |= Q(owner_id=principal.user_id)
            visible |= Q(
                visibility=Thread.Visibility.GROUP, group_id__in=principal.groups
            )
        return super().for_user(principal).filter(visible)

    def for_run(self, principal: RunPrincipal) -> Self:
        return self._scoped("run").filter(
            workspace_id=principal.workspace_id, pk=principal.thread_id
        )

    def by_activity(self) -> Self:
        """The thread whose branches moved last comes first; adds `active_at`.

        The time is the branches': a step that also wrote the thread's row would make
        the thread's branches wait for one another.
        """
        return self.annotate(active_at=Max("branches__updated_at")).order_by(
            "-active_at"
        )


# What `for_user` filters by for a person, in a statement of our own that calls the
# threads `thread` and knows `user` and `groups`.
VISIBLE = """(
    thread.visibility = 'workspace'
    OR thread.owner_id = %(user)s
    OR (thread.visibility = 'group' AND thread.group_id = ANY(%(groups)s::uuid[]))
)"""


class Thread(models.Model):
    """A tree of checkpoints: one task, its branches, and who may see it."""

    class Visibility(models.TextChoices):
        PRIVATE = "private"
        GROUP = "group"
        WORKSPACE = "workspace"

    class Origin(models.TextChoices):
        RUN = "run"
        IMPORT = "import"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="threads")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )
    visibility = models.CharField(
        max_length=10, choices=Visibility, default=Visibility.WORKSPACE
    )
    group = models.ForeignKey(
        Group, models.PROTECT, null=True, blank=True, related_name="+"
    )
    origin = models.CharField(max_length=10, choices=Origin, default=Origin.RUN)
    title = SealedField(kept=True)
    external_id = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001  # absent ids must not collide
    request_key = models.UUIDField(
        null=True,
        editable=False,
        help_text="The form that asked; makes a double click one.",
    )
    pinned = models.BooleanField(default=False, help_text="Retention leaves it alone.")
    legal_hold = models.BooleanField(
        default=False, help_text="Nothing and nobody removes it, an admin lifts it."
    )
    hold_reason = SealedField(null=True, kept=True, help_text="An admin's words.")
    pruned_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="When its content went, by the deletion journal; null: it is here.",
    )
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = models.Manager.from_queryset(ThreadQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "external_id"], name="thread_external_id_unique"
            ),
            models.UniqueConstraint(
                fields=["workspace", "request_key"], name="thread_request_key_unique"
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "-created_at"], name="thread_recent"),
        ]

    def __str__(self) -> str:
        return f"thread {short(self.pk)}"

    @property
    def thread_id(self) -> object:
        """The thread that this row's sealed columns belong to: itself."""
        return self.pk


class BranchQuerySet(ThreadScopedQuerySet["Branch"]):
    def renew(self, pk: UUID, *, fence: int, lease: timedelta) -> bool:
        """Hold the branch for `lease` from now. False: another holder has it."""
        return bool(
            self.filter(pk=pk, fence=fence, holder__isnull=False).update(
                lease_until=ClockTimestamp() + lease
            )
        )

    def release(self, pk: UUID, *, fence: int) -> bool:
        """Let go of the branch. False: another holder has it, which is left alone."""
        return bool(
            self.filter(pk=pk, fence=fence, holder__isnull=False).update(
                holder=None, worker="", lease_until=None
            )
        )


class Branch(models.Model):
    """A line of checkpoints with one head and, at any time, at most one holder.

    `fence` grows with every holder; a commit names the fence that it was given, so a
    holder that was replaced cannot append. A fork is one row that points at the
    checkpoint where it leaves its parent.
    """

    class Calls(models.TextChoices):
        RECORDED = "recorded", "recorded results"  # a person is asked on a miss
        SIMULATE = "simulate", "simulated"  # recorded results, else made up
        LIVE = "live", "live"  # each asks a person

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="branches")
    name = SealedField(kept=True)
    namespace = models.CharField(
        max_length=200, blank=True, help_text="Empty for the main line."
    )
    parent = models.ForeignKey(
        "self", models.PROTECT, null=True, related_name="children"
    )
    forked_from = models.ForeignKey(
        "checkpoints.Checkpoint", models.PROTECT, null=True, related_name="forks"
    )
    fork_step = models.IntegerField(
        default=-1,
        help_text="Step of the checkpoint it leaves its parent at; -1: none.",
    )
    # Set by the statement that writes the checkpoint, so the database need not look it
    # up; without an index, a step rewrites no index of this table.
    head = models.ForeignKey(
        "checkpoints.Checkpoint",
        models.PROTECT,
        null=True,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    head_step = models.IntegerField(default=-1, help_text="-1: no step yet.")
    head_mac = models.BinaryField(default=b"", editable=False)
    fence = models.BigIntegerField(default=0)
    holder = models.UUIDField(
        null=True, editable=False, help_text="The run that appends."
    )
    worker = models.CharField(max_length=100, blank=True, editable=False)
    lease_until = models.DateTimeField(null=True, editable=False)
    calls = models.CharField(
        max_length=10,
        choices=Calls,
        default=Calls.RECORDED,
        db_default=Calls.RECORDED,
        help_text="What a fork does with calls that have effects.",
    )
    call_choices = models.JSONField(
        null=True,
        editable=False,
        help_text="In a fork: what becomes of single calls of its source instead, by id.",
    )
    request_key = models.UUIDField(null=True, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    updated_at = models.DateTimeField(
        db_default=ClockTimestamp(), editable=False, help_text="Time of its last step."
    )

    objects = models.Manager.from_queryset(BranchQuerySet)()

    class Meta:
        verbose_name_plural = "branches"
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "request_key"], name="branch_request_key_unique"
            ),
        ]
        indexes = [
            # Of the few that are held, the reaper looks at each lease. An index on
            # the lease itself would be rewritten by every step.
            models.Index(
                fields=["holder"],
                name="branch_held",
                condition=Q(holder__isnull=False),
            ),
        ]

    # The namespace of a branch that a bundle brought: it stays as it came.
    IMPORTED = "imported"

    def __str__(self) -> str:
        return f"branch {short(self.pk)}"

    @property
    def is_imported(self) -> bool:
        """Whether a bundle brought it: nothing is appended to it, what goes on is a fork."""
        return self.namespace == self.IMPORTED


class ThreadInputQuerySet(ThreadScopedQuerySet["ThreadInput"]):
    def undelivered(self) -> Self:
        """Messages that no checkpoint holds yet, oldest first."""
        return self.filter(checkpoint=None).order_by("position")


class ThreadInput(models.Model):
    """A message to a branch, kept until a run makes a checkpoint of it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    position = models.BigIntegerField(
        db_default=NextPosition("checkpoints_input_position"), editable=False
    )
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="inputs")
    branch = models.ForeignKey(Branch, models.PROTECT, related_name="inputs")
    content = SealedField(null=True, help_text="Null once the thread's content went.")
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )
    token = models.ForeignKey(
        "checkpoints.ApiToken",
        models.PROTECT,
        null=True,
        related_name="+",
        help_text="Of the program that said it, where no person did.",
    )
    request_key = models.UUIDField(null=True, editable=False)
    checkpoint = models.ForeignKey(
        "checkpoints.Checkpoint", models.PROTECT, null=True, related_name="+"
    )
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = models.Manager.from_queryset(ThreadInputQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "request_key"], name="input_request_key_unique"
            ),
        ]
        indexes = [
            models.Index(
                fields=["branch", "position"],
                name="input_undelivered",
                condition=Q(checkpoint__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"input {self.position}"
