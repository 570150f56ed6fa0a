from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints.access import ScopedManager, ThreadScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import short, uuid7
from checkpoints.models.fields import SealedField
from checkpoints.models.threads import Thread
from checkpoints.models.workspaces import Workspace


class RetentionPolicy(models.Model):
    """How long a workspace keeps the content of threads, for all or for one agent.

    The agent's own policy wins over the workspace's. Counted from a thread's last step.
    """

    class Then(models.TextChoices):
        ARCHIVE = "archive", "archive it"
        DELETE = "delete", "destroy its keys"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="retention_policies"
    )
    agent = models.CharField(max_length=60, blank=True, help_text="Empty: every agent.")
    keep_days = models.PositiveIntegerField(
        null=True, blank=True, help_text="Days after the last step; empty: for ever."
    )
    then = models.CharField(max_length=10, choices=Then, default=Then.ARCHIVE)
    archive_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Days that an archive is kept; empty: for ever.",
    )
    max_steps = models.PositiveIntegerField(
        null=True, blank=True, help_text="Steps of one thread before its runs pause."
    )
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = ScopedManager()

    class Meta:
        verbose_name_plural = "retention policies"
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "agent"], name="retention_policy_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"retention of {self.agent or 'every agent'}"


class Archive(models.Model):
    """A thread's content as one object of ciphertext in the blob store.

    Written, read back and verified; then, after a grace period, the hot rows go.
    """

    class Status(models.TextChoices):
        WRITING = "writing"
        VERIFIED = "verified"
        PRUNED = "pruned", "verified, hot rows gone"
        RESTORED = "restored"
        DELETED = "deleted", "the object is gone"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="archives")
    status = models.CharField(max_length=10, choices=Status, default=Status.WRITING)
    store = models.CharField(max_length=20, help_text="local, s3")
    object_name = models.CharField(max_length=100, unique=True)
    size = models.PositiveBigIntegerField(default=0, help_text="Bytes.")
    digest = models.BinaryField(default=b"", help_text="SHA-256 of the object.")
    steps = models.PositiveIntegerField(default=0)
    policy = models.ForeignKey(
        RetentionPolicy, models.PROTECT, null=True, related_name="+"
    )
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    verified_at = models.DateTimeField(null=True, editable=False)
    pruned_at = models.DateTimeField(null=True, editable=False)
    restored_at = models.DateTimeField(null=True, editable=False)

    objects = models.Manager.from_queryset(ThreadScopedQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["thread"],
                name="archive_one_in_work_per_thread",
                condition=Q(status__in=["writing", "verified"]),
            ),
        ]

    def __str__(self) -> str:
        return f"archive {short(self.pk)}"


class Deletion(models.Model):
    """The deletion journal: whose content went, when, why. Append-only.

    The database lets no checkpoint or segment of a thread go that is not in here.
    """

    class What(models.TextChoices):
        ARCHIVED = "archived", "moved to an archive"
        SHREDDED = "shredded", "keys destroyed"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    # No constraint: the journal outlives every row that it speaks of.
    thread = models.ForeignKey(
        Thread, models.DO_NOTHING, related_name="deletions", db_constraint=False
    )
    what = models.CharField(max_length=10, choices=What)
    policy = models.ForeignKey(
        RetentionPolicy, models.PROTECT, null=True, related_name="+"
    )
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )
    reason = SealedField(null=True, outlives=True, help_text="A person's words.")
    steps = models.PositiveIntegerField(default=0)
    at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = ScopedManager()

    def __str__(self) -> str:
        return f"{self.what} {short(self.thread_id)}"


class RetentionTask(models.Model):
    """What a person asked for, and a worker does: the web may remove no content.

    It stays open until it was done or refused, so a worker that dies loses none.
    """

    class What(models.TextChoices):
        ARCHIVE = "archive", "archive it now"
        RESTORE = "restore", "restore it"
        SHRED = "shred", "delete it for good"
        SWEEP = "sweep", "run retention now"

    class Outcome(models.TextChoices):
        OPEN = "open"
        DONE = "done"
        REFUSED = "refused"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    thread = models.ForeignKey(
        Thread, models.PROTECT, null=True, related_name="retention_tasks"
    )
    what = models.CharField(max_length=10, choices=What)
    reason = SealedField(null=True, outlives=True, help_text="A person's words.")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    outcome = models.CharField(max_length=10, choices=Outcome, default=Outcome.OPEN)
    answer = models.CharField(
        max_length=400, blank=True, help_text="What was done, or why not; ids only."
    )
    asked_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    done_at = models.DateTimeField(null=True, editable=False)

    objects = ScopedManager()

    class Meta:
        constraints = [
            # Asked twice, it is done once.
            models.UniqueConstraint(
                fields=["workspace", "thread"],
                name="retention_task_open_once",
                condition=Q(outcome="open"),
                nulls_distinct=False,
            ),
        ]
        indexes = [
            models.Index(
                fields=["asked_at"],
                name="retention_task_open",
                condition=Q(outcome="open"),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.what} {short(self.thread_id) if self.thread_id else ''}".strip()
