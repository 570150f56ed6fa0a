from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints.access import Role, ScopedManager
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import uuid7


class Workspace(models.Model):
    """A tenant: everything else belongs to one, and no row is seen from another."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=100)
    approvals_made = models.PositiveIntegerField(
        default=2000, help_text="Last number given to an approval: APR-2041."
    )
    halted_at = models.DateTimeField(
        null=True, editable=False, help_text="Nothing acts in the workspace since then."
    )
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A person's place in a workspace: a role and, apart from it, the right to approve."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="memberships")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships"
    )
    role = models.CharField(max_length=10, choices=Role, default=Role.VIEWER)
    can_approve = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = ScopedManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "user"], name="membership_once_per_workspace"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.workspace_id} as {self.role}"


class Group(models.Model):
    """Members of a workspace who share threads and may be asked to approve together."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="groups")
    name = models.CharField(max_length=60)
    members = models.ManyToManyField(Membership, related_name="groups", blank=True)

    objects = ScopedManager()

    same_by = ("workspace_id", "name")  # of a restored row: the one that is here

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="group_name_unique_in_workspace"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Grant(models.Model):
    """Lets a run open one thread for a person, for as long as that person may.

    Made by the session that started or approved the run. Each use re-checks that it
    is not revoked, the person active and still a member. A run that a program started
    acts for the program's token, for as long as that is live.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    thread = models.ForeignKey(
        "checkpoints.Thread", models.PROTECT, related_name="grants"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )
    token = models.ForeignKey(
        "checkpoints.ApiToken", models.PROTECT, null=True, related_name="+"
    )
    session = models.CharField(max_length=64, blank=True, help_text="Keyed hash.")
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ScopedManager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False, token__isnull=True)
                | Q(user__isnull=True, token__isnull=False),
                name="grant_for_a_person_or_a_token",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id or self.token_id} for thread {self.thread_id}"
