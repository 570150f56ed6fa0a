from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents.models.agents import Agent
from agents.models.runs import Run, ToolCall
from checkpoints.access import ScopedManager, ThreadScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import uuid7
from checkpoints.models import Thread, Workspace
from checkpoints.models.fields import SealedField


class Policy(models.Model):
    """Ordered rules: which calls wait for people, of all agents or of one. Written once.

    A change is a new version; the highest is in force. `rules` is data as
    `agents/pure/policies.py` reads it, first match wins.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="policies")
    agent = models.ForeignKey(
        Agent,
        models.PROTECT,
        null=True,
        related_name="policies",
        help_text="None: every agent.",
    )
    version = models.PositiveIntegerField()
    rules = models.JSONField()
    note = models.CharField(max_length=200, blank=True, help_text="What was changed.")
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )
    made_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = ScopedManager()

    class Meta:
        verbose_name_plural = "policies"
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "agent", "version"],
                name="policy_version_unique",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        return f"policy of {self.agent or 'every agent'} v{self.version}"


class PolicyUse(models.Model):
    """A call that was let go under a rule that counts or sums: what the window adds up.

    `amount` is sealed under the workspace's key, as it comes from the arguments; so is
    `total`, what it and all before it come to. One follows the other by `at`, which is
    never the same twice in one window.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    window = models.CharField(
        max_length=64, help_text="Keyed hash of rule, path and agent."
    )
    call = models.ForeignKey(ToolCall, models.PROTECT, related_name="+")
    amount = SealedField(null=True, outlives=True)
    total = SealedField(null=True, outlives=True)
    at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = ScopedManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "window", "call"], name="policy_use_once_per_call"
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "window", "at"], name="policy_use_at"),
            models.Index(
                fields=["workspace", "window", "at"],
                name="policy_use_alone",
                condition=Q(total=None, amount__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.window} {self.call_id}"


class StickyRule(models.Model):
    """What a person approved and wants remembered, until a day, for calls that are alike.

    `predicate` (`agents/pure/policy.py`) begins as the exact arguments, so it is sealed.
    """

    class Scope(models.TextChoices):
        ONCE = "once", "the next such call"
        RUN = "run", "this run"
        THREAD = "thread", "this thread"
        AGENT = "agent", "this agent"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    agent = models.ForeignKey(Agent, models.PROTECT, related_name="+")
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="+")
    run = models.ForeignKey(Run, models.PROTECT, related_name="+")
    approval = models.ForeignKey(
        "agents.Approval",
        models.PROTECT,
        related_name="+",
        help_text="The request that it was made from.",
    )
    tool = models.CharField(max_length=64)
    scope = models.CharField(max_length=10, choices=Scope)
    predicate = SealedField(null=True)
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+"
    )
    made_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    expires_at = models.DateTimeField()
    hits = models.PositiveIntegerField(default=0)
    last_hit_at = models.DateTimeField(null=True, editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False)
    revoked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )

    objects = models.Manager.from_queryset(ThreadScopedQuerySet)()

    class Meta:
        indexes = [
            models.Index(
                fields=["workspace", "agent", "tool"],
                name="sticky_in_force",
                condition=Q(revoked_at=None),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool} for {self.get_scope_display()}"
