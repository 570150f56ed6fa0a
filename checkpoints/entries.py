"""The store: values under names, for longer than a thread lasts.

    entries.put(principal, Scope.USER, name(["travellers", "marsh"], "seat"), "aisle")

Whose entries these are is the principal's to say: its workspace, and there the person's
own, everyone's or a board's (`owners.py`). No argument names a workspace or a person. A name is looked for by keyed
hashes that are bound to its owner (`pure/names.py`), so another's are not found, whatever
they are called. Names and values are sealed under the workspace's key, and opened by the
gate, which records it.

A value is put by compare-and-set on its version. Each version is kept, also when the entry
is deleted, which is a version without a value. What has expired is not there any more from
that moment; `entries_care` removes it later. On a board a name can be locked
(`entry_locks.py`): then its holder alone writes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from checkpoints import audit, entry_locks, entry_vectors, gate
from checkpoints.access import Board, RunPrincipal, UserPrincipal
from checkpoints.clock import ClockTimestamp, now
from checkpoints.entry_vectors import Embedder, Meaning, Text
from checkpoints.errors import (
    CheckpointsError,
    DecryptionError,
    EntryConflict,
    InvalidEntry,
    NotPermitted,
    NotStorable,
)
from checkpoints.ids import short
from checkpoints.keys.hierarchy import workspace_mac
from checkpoints.models import DataKey, Entry, EntryVersion
from checkpoints.models.entries import EntryQuerySet, EntryVersionQuerySet
from checkpoints.owners import (
    By,
    Owner,
    Whose,
    owner_as_stored,
    owner_of,
    whose,
)
from checkpoints.pure import names
from checkpoints.pure.codec import canonical
from checkpoints.pure.names import Name, Namespace
from checkpoints.pure.rank import said, scored
from checkpoints.pure.vectors import blend

Scope = Entry.Scope

MOST = 10_000  # entries of one owner, with those that are deleted and not removed yet
LARGEST = 64 * 1024  # bytes of a value, as JSON
LISTED = 500  # entries that a list opens; those written last
SEARCHED = 2_000  # entries that a search opens; those written last

READERS = "Your role reads the audit log, not what agents remember."
VIEWER = "Viewers read. An operator of the workspace can change what is remembered."


@dataclass(frozen=True)
class Found:
    """A version, opened. Without a name where it does not open: `damage` says why."""

    entry: Entry
    row: EntryVersion
    name: Name | None = field(default=None, repr=False)
    value: Any = field(default=None, repr=False)
    damage: CheckpointsError | None = None


@dataclass(frozen=True)
class Listed:
    """Entries, and how many there are with those that were too many to open."""

    found: list[Found]
    total: int
    meaning: Meaning | None = None  # of a search that knows meanings: how far it did

    @property
    def is_whole(self) -> bool:
        return self.total <= len(self.found)


def put(
    by: By,
    of: Whose,
    name: Name,
    value: Any,
    *,
    expected: int = 0,
    expires_at: datetime | None = None,
    request_key: UUID | None = None,
    fence: int | None = None,
) -> EntryVersion:
    """Write a value as the next version. A repeated `request_key` gives the first call's.

    `expected` is the version that whoever writes has seen; 0: there is none, or it is
    gone. Raises EntryConflict where it is another, InvalidEntry for a value that is too
    large, an end that has passed or an entry too many, NotPermitted. Of a board: LockLost
    where it is to be written under the lock with this `fence` and that is not held any
    more, EntryLocked where another run holds it.
    """
    _require_value(value)
    if expires_at is not None and expires_at <= now():
        raise InvalidEntry("That it ends has passed already. Choose a later time.")
    content = {"value": value}
    return _write(by, of, name, content, expected, expires_at, request_key, fence=fence)


def delete(
    by: By,
    of: Whose,
    name: Name,
    *,
    expected: int | None = None,
    request_key: UUID | None = None,
) -> EntryVersion:
    """Say that it is gone, as a version without a value. `restore` brings it back.

    `expected` as for `put`; None: whichever is there. Raises EntryConflict, InvalidEntry
    where there is no such entry, EntryLocked, NotPermitted.
    """
    return _write(by, of, name, None, expected, None, request_key)


def restore(
    by: By,
    entry: Entry,
    version: int,
    *,
    expected: int,
    request_key: UUID | None = None,
) -> EntryVersion:
    """Write what a version held as the newest. It ends when that one does, if it is to come.

    Raises as `put`, and InvalidEntry where that version has no value.
    """
    _require_writer(by)
    at = next((one for one in history(by, entry) if one.row.version == version), None)
    if at is None or at.name is None or at.row.deleted:
        raise InvalidEntry(f"Version {version} has no value that could be restored.")
    ends = at.row.expires_at
    if ends is not None and ends <= now():
        ends = None
    return _write(
        by,
        whose(entry),
        at.name,
        {"value": at.value},
        expected,
        ends,
        request_key,
        restored=version,
    )


def get(by: By, of: Whose, name: Name) -> Found | None:
    """What is there under this name. That it is read is recorded. Raises NotPermitted."""
    rows = _newest(by, _named(by, owner_of(by, of), name).live())
    return next(iter(_opened(by, rows, _purpose(of))), None)


def listed(by: By, of: Whose, prefix: Namespace = (), *, gone: bool = False) -> Listed:
    """The entries below a namespace, LISTED at most, by name; or those that are `gone`,
    deleted or expired, and can be restored. Raises NotPermitted."""
    below = _below(by, of, prefix, gone=gone)
    found = _opened(by, _newest(by, below)[:LISTED], _purpose(of))
    found.sort(key=lambda one: (*one.name.namespace, one.name.key) if one.name else ())
    return Listed(found, below.count() if len(found) == LISTED else len(found))


def search(
    by: By,
    of: Whose,
    query: str,
    prefix: Namespace = (),
    *,
    most: int,
    embedder: Embedder | None = None,
) -> Listed:
    """The entries below a namespace that fit these words, best first (`pure/rank.py`).

    With an `embedder` also those that fit by their meaning (`entry_vectors.py`); a run's
    search keeps the vectors that it has made. Of the SEARCHED that were written last;
    `total` is how many there are to search. Raises NotPermitted.
    """
    below = _below(by, of, prefix)
    total = below.count()
    rows = list(_newest(by, below)[:SEARCHED])
    opener = gate.admit(by, purpose=f"search {_purpose(of)}")
    readable = [(one, one.name) for one in _read(opener, rows) if one.name]
    texts = [
        f"{' '.join(name.namespace)} {name.key} {said(one.value)}"
        for one, name in readable
    ]
    by_words = scored(query, texts)
    if embedder is None or not texts or not query.strip():
        best, meaning = blend(by_words, {}, most=most), None
    else:
        of_entries = [
            Text(one.entry, one.row.version, text)
            for (one, _), text in zip(readable, texts, strict=True)
        ]
        near, meaning = entry_vectors.near(by, opener, query, of_entries, embedder)
        best = blend(by_words, near, most=most)
    return Listed([readable[place][0] for place in best], total, meaning)


def history(by: By, entry: Entry) -> list[Found]:
    """Every version of an entry that `by` can see, newest first. Raises NotPermitted."""
    rows = _versions(by).filter(entry=entry.pk).order_by("-version")
    rows = rows.select_related("by", "entry")
    return _opened(by, rows, _purpose(whose(entry)))


def who(row: EntryVersion) -> str:
    """Who wrote a version: a person's name, or a run's."""
    if row.by is None:
        return f"run {short(row.run)}" if row.run else "nobody"
    return row.by.get_full_name() or row.by.get_username()


def seen(by: By) -> EntryQuerySet:
    """The entries that are theirs to see, whether they are there or gone."""
    _require_reader(by)
    if isinstance(by, RunPrincipal):
        return Entry.objects.for_run(by)
    return Entry.objects.for_user(by)


def _versions(by: By) -> EntryVersionQuerySet:
    _require_reader(by)
    if isinstance(by, RunPrincipal):
        return EntryVersion.objects.for_run(by)
    return EntryVersion.objects.for_user(by)


def _require_reader(by: By) -> None:
    if isinstance(by, UserPrincipal) and not by.may_read:
        raise NotPermitted(READERS)


def _require_writer(by: By) -> None:
    _require_reader(by)
    if isinstance(by, UserPrincipal) and not by.may_operate:
        raise NotPermitted(VIEWER)
    gate.require_right(by)


def _require_value(value: Any) -> None:
    try:
        canonical(value, most=LARGEST)
    except NotStorable as wrong:
        raise InvalidEntry(
            f"The value cannot be kept: {wrong} It is JSON of {LARGEST:,} bytes at most."
        ) from None


def _purpose(of: Whose) -> str:
    return "board" if isinstance(of, Board) else "memory"


def _below(
    by: By, of: Whose, prefix: Namespace, *, gone: bool = False
) -> EntryQuerySet:
    owner = owner_of(by, of)
    key = workspace_mac(by.workspace_id, DataKey.Purpose.INDEX)
    mine = seen(by).filter(**owner.columns)
    below = mine.below(names.beginnings(key, owner.hashed, prefix))
    return below.exclude(pk__in=below.live().values("pk")) if gone else below.live()


def _named(by: By, owner: Owner, name: Name) -> EntryQuerySet:
    key = workspace_mac(by.workspace_id, DataKey.Purpose.INDEX)
    index = names.whole(key, owner.hashed, name)
    return seen(by).filter(**owner.columns, blind_index=index)


def _newest(by: By, of: EntryQuerySet) -> EntryVersionQuerySet:
    rows = _versions(by).newest().filter(entry__in=of.values("pk"))
    return rows.select_related("by", "entry").order_by("-entry__updated_at", "-pk")


def _opened(by: By, rows: Iterable[EntryVersion], purpose: str) -> list[Found]:
    return _read(gate.admit(by, purpose=purpose), list(rows))


def _read(opener: gate.Pass, rows: list[EntryVersion]) -> list[Found]:
    opened = opener.open_each(rows, "content")
    return [_checked(row, content) for row, content in zip(rows, opened, strict=True)]


def _checked(row: EntryVersion, content: Any) -> Found:
    """A version that stands where it was written: its name is the entry's own."""
    entry = row.entry
    if isinstance(content, CheckpointsError):
        return Found(entry, row, damage=content)
    name = Name(tuple(content["namespace"]), content["key"])
    key = workspace_mac(row.workspace_id, DataKey.Purpose.INDEX)
    stands = (
        names.whole(key, owner_as_stored(entry).hashed, name)
        == bytes(entry.blind_index)
        and content["version"] == row.version
    )
    if not stands:
        moved = DecryptionError(f"{row} is of another entry, or another version.")
        return Found(entry, row, damage=moved)
    return Found(entry, row, name, content.get("value"))


def _write(
    by: By,
    of: Whose,
    name: Name,
    content: dict[str, Any] | None,
    expected: int | None,
    expires_at: datetime | None,
    request_key: UUID | None,
    restored: int | None = None,
    fence: int | None = None,
) -> EntryVersion:
    """The next version; no content: from here on it is gone. One who writes the same
    entry waits for the other here, and then finds it at another version."""
    _require_writer(by)
    owner = owner_of(by, of)
    with transaction.atomic():
        entry = _locked(by, owner, name, create=content is not None)
        if again := _written_before(by, request_key, entry):
            return again
        entry_locks.require(by, owner, name, fence=fence)
        _require_expected(by, entry, expected, deletes=content is None)
        assert entry is not None  # expected, so it is there
        row = EntryVersion(
            workspace_id=entry.workspace_id,
            entry=entry,
            version=entry.version + 1,
            deleted=content is None,
            expires_at=expires_at,
            by_id=by.user_id if isinstance(by, UserPrincipal) else None,
            run=by.run_id if isinstance(by, RunPrincipal) else None,
            request_key=request_key,
        )
        sealed = {
            "namespace": list(name.namespace),
            "key": name.key,
            "version": row.version,
            **(content or {}),
        }
        row.content = gate.seal(row, "content", sealed)
        row.save(force_insert=True)
        seen(by).filter(pk=entry.pk, version=entry.version).update(
            version=F("version") + 1,
            deleted=row.deleted,
            expires_at=expires_at,
            updated_at=ClockTimestamp(),
        )
        action = "memory_delete" if content is None else "memory_put"
        via = "web" if isinstance(by, UserPrincipal) else "worker"
        audit.record(
            by,
            action,
            obj=entry,
            via=via,
            scope=owner.scope,
            version=row.version,
            restored=restored,
        )
    return row


def _locked(by: By, owner: Owner, name: Name, *, create: bool) -> Entry | None:
    """The entry of this name, locked until the transaction ends; a new one at version 0."""
    rows = _named(by, owner, name).select_for_update(no_key=True)
    if (there := rows.first()) or not create:
        return there
    if seen(by).filter(**owner.columns).count() >= MOST:
        raise InvalidEntry(
            f"There are {MOST:,} entries here already, which is the most. Delete some."
        )
    key = workspace_mac(by.workspace_id, DataKey.Purpose.INDEX)
    new = Entry(
        workspace_id=by.workspace_id,
        namespace=names.beginnings(key, owner.hashed, name.namespace),
        blind_index=names.whole(key, owner.hashed, name),
        **owner.columns,
    )
    # Another may write one of this name now: then it is theirs that we wait for.
    Entry.objects.bulk_create([new], ignore_conflicts=True)
    return rows.get()


def _written_before(
    by: By, request_key: UUID | None, entry: Entry | None
) -> EntryVersion | None:
    """What a form or a call that was sent again has written when it came first."""
    if request_key is None:
        return None
    again = _versions(by).filter(request_key=request_key).first()
    if again is None:
        return None
    if entry is None or again.entry_id != entry.pk:
        raise NotPermitted("This request key was used for something else.")
    return again


def _require_expected(
    by: By, entry: Entry | None, expected: int | None, *, deletes: bool
) -> None:
    """Raises EntryConflict, or InvalidEntry where what is to be deleted is gone."""
    version = entry.version if entry else 0
    gone = entry is None or not seen(by).live().filter(pk=entry.pk, version__gt=0)
    if deletes and gone:
        raise InvalidEntry("There is no such entry, or it is deleted already.")
    meets = expected == version if expected else gone
    if meets or expected is None:
        return
    last = _versions(by).filter(entry=entry, version=version).first()
    raise EntryConflict(
        expected=expected,
        version=version,
        who=who(last) if last else "nobody",
        gone=bool(entry and entry.deleted),
    )
