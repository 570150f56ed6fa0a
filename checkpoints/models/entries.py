from __future__ import annotations

from typing import Any, Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q, QuerySet

from checkpoints.access import Actor, Reason, RunPrincipal, ScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import short, uuid7
from checkpoints.models.fields import BlindIndexField, SealedField
from checkpoints.models.workspaces import Grant, Workspace


class EntryScope(models.TextChoices):
    """Whose an entry is."""

    USER = "user"
    GROUP = "group"
    WORKSPACE = "workspace"
    BOARD = "board"  # of the agents that work on one thing


def _seen(prefix: str, user: object) -> Q:
    """What a person has in the store: their own, and the workspace's."""
    own = Q(**{f"{prefix}scope": EntryScope.USER, f"{prefix}user__in": user})
    return own | Q(**{f"{prefix}scope": EntryScope.WORKSPACE})


def _granted(principal: RunPrincipal) -> QuerySet[Any, Any]:
    """Whom the run acts for, as long as it may; nobody for a program."""
    live = Grant.objects.unscoped(Reason.GATE).filter(
        pk=principal.grant_id, workspace_id=principal.workspace_id, revoked_at=None
    )
    return live.exclude(user=None).values("user")


class EntryQuerySet(ScopedQuerySet["Entry"]):
    def for_user(self, principal: Actor) -> Self:
        return super().for_user(principal).filter(_seen("", [principal.user_id]))

    def for_run(self, principal: RunPrincipal) -> Self:
        """A run has in the store what its person has."""
        here = self._scoped("run").filter(workspace_id=principal.workspace_id)
        return here.filter(_seen("", _granted(principal)))

    def live(self) -> Self:
        """Those that are there: neither deleted nor expired, from the moment they are."""
        lasts = Q(expires_at=None) | Q(expires_at__gt=ClockTimestamp())
        return self.filter(lasts, deleted=False)

    def below(self, beginnings: list[bytes]) -> Self:
        """Those whose namespace begins with these parts, of which it holds the hashes."""
        if not beginnings:
            return self
        return self.filter(**{f"namespace__0_{len(beginnings)}": beginnings})


class Entry(models.Model):
    """A name in the store, and the number of its newest version, which has the value.

    Neither its name nor its value is here. The database refuses to change whose it is and
    what it is called, and to count but by one (migration 0033).
    """

    Scope = EntryScope

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="+", db_index=False
    )
    scope = models.CharField(max_length=10, choices=EntryScope)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="+",
        db_index=False,
        help_text="Whose it is, where it is a person's.",
    )
    owner = models.UUIDField(
        null=True, editable=False, help_text="The group or the board whose it is."
    )
    namespace = ArrayField(
        models.BinaryField(),
        editable=False,
        default=list,
        help_text="A keyed hash of each beginning of the namespace.",
    )
    blind_index = BlindIndexField(help_text="Of whose it is, its namespace and key.")
    version = models.PositiveIntegerField(default=0, help_text="The newest.")
    deleted = models.BooleanField(
        default=False, help_text="The newest version says so."
    )
    expires_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = models.Manager.from_queryset(EntryQuerySet)()

    class Meta:
        verbose_name_plural = "entries"
        constraints = [
            # Two that put a new entry of one name: the second finds the first's.
            models.UniqueConstraint(
                fields=["workspace", "blind_index"], name="entry_name_unique"
            ),
            models.CheckConstraint(
                condition=Q(scope=EntryScope.USER, user__isnull=False, owner=None)
                | Q(scope=EntryScope.WORKSPACE, user=None, owner=None)
                | Q(
                    scope__in=[EntryScope.GROUP, EntryScope.BOARD],
                    user=None,
                    owner__isnull=False,
                ),
                name="entry_has_its_owner",
            ),
        ]
        indexes = [
            models.Index(
                fields=["workspace", "scope", "user", "owner", "-updated_at"],
                name="entry_of_owner",
            ),
            models.Index(
                fields=["expires_at"],
                name="entry_expires",
                condition=Q(expires_at__isnull=False),
            ),
            models.Index(
                fields=["updated_at"], name="entry_deleted", condition=Q(deleted=True)
            ),
        ]

    def __str__(self) -> str:
        return f"entry {short(self.pk)}"


class EntryVersionQuerySet(ScopedQuerySet["EntryVersion"]):
    def for_user(self, principal: Actor) -> Self:
        seen = super().for_user(principal)
        return seen.filter(_seen("entry__", [principal.user_id]))

    def for_run(self, principal: RunPrincipal) -> Self:
        here = self._scoped("run").filter(workspace_id=principal.workspace_id)
        return here.filter(_seen("entry__", _granted(principal)))

    def newest(self) -> Self:
        """Of each entry, the version that counts."""
        return self.filter(version=F("entry__version"))


class EntryVersion(models.Model):
    """What an entry held from then on, and who wrote it. Written once, never changed."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="+", db_index=False
    )
    entry = models.ForeignKey(
        Entry, models.PROTECT, related_name="versions", db_index=False
    )
    version = models.PositiveIntegerField(help_text="Counted from 1.")
    content = SealedField(help_text="Namespace, key, value and version.")
    deleted = models.BooleanField(default=False, help_text="From here on it is gone.")
    expires_at = models.DateTimeField(null=True)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="+",
        db_index=False,
        help_text="Null where a run wrote it.",
    )
    run = models.UUIDField(null=True, editable=False, help_text="Null: a person did.")
    request_key = models.UUIDField(
        null=True,
        editable=False,
        help_text="The form, or the run's call, that asked: it writes once.",
    )
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = models.Manager.from_queryset(EntryVersionQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["entry", "version"], name="entry_version_unique"
            ),
            models.UniqueConstraint(
                fields=["workspace", "request_key"], name="entry_request_key_unique"
            ),
            models.CheckConstraint(
                condition=Q(by__isnull=True) ^ Q(run__isnull=True),
                name="entry_version_has_a_writer",
            ),
        ]

    def __str__(self) -> str:
        return f"version {self.version} of entry {short(self.entry_id)}"
