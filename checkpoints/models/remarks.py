from __future__ import annotations

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints.access import ThreadScopedQuerySet, UserPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import short, uuid7
from checkpoints.models.fields import BlindIndexField, SealedField
from checkpoints.models.log import Checkpoint
from checkpoints.models.threads import Branch, Thread
from checkpoints.models.workspaces import Workspace


class RemarkQuerySet(ThreadScopedQuerySet["Remark"]):
    def standing(self) -> Self:
        """Those that nobody took back."""
        return self.filter(removed_at=None)

    def stars_of(self, principal: UserPrincipal) -> Self:
        """The person's own stars."""
        return self.standing().filter(kind=Remark.Kind.STAR, by=principal.user_id)

    def verdicts(self) -> Self:
        """The newest comes last, and counts."""
        return (
            self.standing()
            .filter(kind__in=[Remark.Kind.GOOD, Remark.Kind.BAD])
            .order_by("created_at", "pk")
        )


class Remark(models.Model):
    """What a person says about a thread, a branch or a step, beside the work itself.

    Without a branch it is about the thread, without a checkpoint about the branch. It is
    written once and can be taken back once: then the row stays, and its text goes. The
    database refuses every other change (migration 0024).
    """

    class Kind(models.TextChoices):
        NOTE = "note"
        LABEL = "label"
        STAR = "star"  # one person's own
        GOOD = "good"
        BAD = "bad"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="+", db_index=False
    )
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="remarks")
    branch = models.ForeignKey(
        Branch, models.PROTECT, null=True, related_name="+", db_index=False
    )
    checkpoint = models.ForeignKey(
        Checkpoint, models.PROTECT, null=True, related_name="+", db_index=False
    )
    kind = models.CharField(max_length=10, choices=Kind)
    text = SealedField(
        null=True, help_text="A note, a label's words, the reason of a verdict."
    )
    blind_index = BlindIndexField(null=True, help_text="Of a label's words.")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False
    )
    request_key = models.UUIDField(
        null=True,
        editable=False,
        help_text="The form that asked; makes a double click one.",
    )
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    removed_at = models.DateTimeField(null=True, editable=False)
    removed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="+",
        db_index=False,
    )

    objects = models.Manager.from_queryset(RemarkQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "request_key"], name="remark_request_key_unique"
            ),
            models.UniqueConstraint(
                fields=["thread", "branch", "checkpoint", "by"],
                name="remark_star_once",
                condition=Q(kind="star", removed_at__isnull=True),
                nulls_distinct=False,
            ),
            # An archived thread's labels have no index.
            models.UniqueConstraint(
                fields=["thread", "branch", "checkpoint", "blind_index"],
                name="remark_label_once",
                condition=Q(
                    kind="label", removed_at__isnull=True, blind_index__isnull=False
                ),
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(checkpoint__isnull=True) | Q(branch__isnull=False),
                name="remark_step_has_branch",
            ),
            models.CheckConstraint(
                condition=Q(removed_at__isnull=True, removed_by__isnull=True)
                | Q(
                    removed_at__isnull=False,
                    removed_by__isnull=False,
                    text__isnull=True,
                    blind_index__isnull=True,
                ),
                name="remark_removed_has_no_text",
            ),
        ]
        indexes = [
            # Threads by label, and one's own starred threads.
            models.Index(
                fields=["workspace", "blind_index", "thread"],
                name="remark_by_label",
                condition=Q(blind_index__isnull=False),
            ),
            models.Index(
                fields=["by", "workspace", "thread"],
                name="remark_stars",
                condition=Q(kind="star", removed_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {short(self.pk)}"

    @property
    def is_verdict(self) -> bool:
        return self.kind in {self.Kind.GOOD, self.Kind.BAD}

    @property
    def about(self) -> str:
        """ "thread", "branch" or "step"."""
        if self.checkpoint_id:
            return "step"
        return "branch" if self.branch_id else "thread"
