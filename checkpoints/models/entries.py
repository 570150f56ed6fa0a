from __future__ import annotations

from typing import Any, Self, TypeVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q, QuerySet

from checkpoints.access import Actor, Reason, RunPrincipal, ScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import short, uuid7
from checkpoints.models.fields import BlindIndexField, SealedField
from checkpoints.models.threads import Branch
from checkpoints.models.workspaces import Grant, Workspace

M = TypeVar("M", bound=models.Model)


class EntryScope(models.TextChoices):
    """Whose an entry is."""

    USER = "user"
    GROUP = "group"
    WORKSPACE = "workspace"
    BOARD = "board"  # of the agents that work on one thing


def _seen_by(prefix: str, principal: Actor) -> Q:
    """What a person has in the store: their own, the workspace's, and the boards of what
    they see; of those, what an agent keeps for itself where they see its branch, too."""
    branches = Branch.objects.for_user(principal).values("pk")
    shared = Q(**{f"{prefix}line": None}) | Q(**{f"{prefix}line__in": branches})
    return _of_memory(prefix, [principal.user_id]) | shared & Q(
        **{f"{prefix}scope": EntryScope.BOARD, f"{prefix}owner__in": branches}
    )


def _seen_in(prefix: str, principal: RunPrincipal) -> Q:
    """What a run has: what its person has of memory, and of its board what all share and
    what its own line keeps."""
    seen = _of_memory(prefix, _granted(principal))
    if (board := principal.board) is None:
        return seen
    shared = Q(**{f"{prefix}line": None}) | Q(**{f"{prefix}line": board.line})
    return seen | shared & Q(
        **{f"{prefix}scope": EntryScope.BOARD, f"{prefix}owner": board.of}
    )


def _of_memory(prefix: str, user: object) -> Q:
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
        return super().for_user(principal).filter(_seen_by("", principal))

    def for_run(self, principal: RunPrincipal) -> Self:
        here = self._scoped("run").filter(workspace_id=principal.workspace_id)
        return here.filter(_seen_in("", principal))

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
    what it is called, and to count but by one (migrations 0033 and 0035).
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
        null=True,
        editable=False,
        help_text="The group or the board whose it is: a board's is a branch.",
    )
    line = models.UUIDField(
        null=True,
        editable=False,
        help_text="On a board: the branch whose runs alone have it; null: all that share"
        " the board.",
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
            models.CheckConstraint(
                condition=Q(line=None) | Q(scope=EntryScope.BOARD),
                name="entry_line_is_of_a_board",
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


class OfEntryQuerySet(ScopedQuerySet[M]):
    """Rows of entries: who sees the entry sees them."""

    def for_user(self, principal: Actor) -> Self:
        return super().for_user(principal).filter(_seen_by("entry__", principal))

    def for_run(self, principal: RunPrincipal) -> Self:
        here = self._scoped("run").filter(workspace_id=principal.workspace_id)
        return here.filter(_seen_in("entry__", principal))


class EntryVersionQuerySet(OfEntryQuerySet["EntryVersion"]):
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


class EntryVectorQuerySet(OfEntryQuerySet["EntryVector"]):
    pass


class EntryVector(models.Model):
    """Where an entry's newest version lies by its meaning, as far as that was asked for.

    Derived: it names the version and the model that it is of, and is made anew where
    either is another by now. It has its entry's key, so that a record moved to another
    entry does not open, and goes with it.
    """

    entry = models.OneToOneField(
        Entry,
        models.PROTECT,
        primary_key=True,
        related_name="+",
    )
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="+", db_index=False
    )
    vector = SealedField(help_text="Version, model and vector.")

    objects = models.Manager.from_queryset(EntryVectorQuerySet)()

    def __str__(self) -> str:
        return f"vector of entry {short(self.entry_id)}"


class EntryLockQuerySet(ScopedQuerySet["EntryLock"]):
    def for_user(self, principal: Actor) -> Self:
        branches = Branch.objects.for_user(principal).values("pk")
        return super().for_user(principal).filter(owner__in=branches)

    def for_run(self, principal: RunPrincipal) -> Self:
        here = self._scoped("run").filter(workspace_id=principal.workspace_id)
        return here.filter(owner=principal.board.of) if principal.board else here.none()

    def held(self) -> Self:
        """Those that a run holds, until the moment they end."""
        return self.filter(run__isnull=False, until__gt=ClockTimestamp())


class EntryLock(models.Model):
    """The lease of a name on a board: while a run holds it, it alone writes there.

    `fence` grows with every holder; a write under the lock names the one that it was
    given, so a holder that was replaced, or whose time is up, writes nothing. The database
    refuses to count down, and to make it another name's (migration 0035).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="+", db_index=False
    )
    owner = models.UUIDField(editable=False, help_text="The board: a branch.")
    blind_index = BlindIndexField(help_text="Of the board, namespace and key.")
    name = SealedField(help_text="Namespace and key.")
    fence = models.BigIntegerField(default=0, help_text="How many have held it.")
    run = models.UUIDField(null=True, editable=False, help_text="Null: it is free.")
    until = models.DateTimeField(null=True, help_text="When its holder loses it.")
    request_key = models.UUIDField(
        null=True, editable=False, help_text="The call that took it."
    )
    updated_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = models.Manager.from_queryset(EntryLockQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "blind_index"], name="entry_lock_name_unique"
            ),
            models.CheckConstraint(
                condition=Q(run=None, until=None)
                | Q(run__isnull=False, until__isnull=False),
                name="entry_lock_ends",
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "owner"], name="entry_lock_of_board"),
            models.Index(fields=["updated_at"], name="entry_lock_moved"),
            models.Index(
                fields=["run"],
                name="entry_lock_held",
                condition=Q(run__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"lock {short(self.pk)}"
