"""Proves an audit log: that no row of it was altered, removed, added or moved.

Holdpoint chains the rows of each workspace's audit log with this module. With
`audit_file` it is also a program of its own, which needs nothing but Python 3.10.

A row's hash is SHA-256 over the hash of the row before it (32 zero bytes for the first)
and the event, which enters as the line "holdpoint audit event 1" and then as JSON with
sorted keys, no spaces, and every character beyond ASCII escaped.

Whoever can write the whole log can also write a whole new one. Against that, keep the
number and hash of the last row (the head) outside from time to time: an anchor.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Any

HASH_BYTES = 32
START = bytes(HASH_BYTES)  # what the first row follows
ANY = "any"  # workspace; their ids are UUIDs
FIELDS = (
    "position",
    "id",
    "at",
    "workspace",
    "actor",
    "via",
    "session",
    "address",
    "action",
    "object_type",
    "object_id",
    "purpose",
    "outcome",
    "detail",
)

_DOMAIN = b"holdpoint audit event 1\n"


@dataclass(frozen=True)
class Row:
    """One link of the chain and its event, a JSON object with `FIELDS` for keys."""

    number: int
    previous: bytes
    hash: bytes
    event: Mapping[str, Any]


@dataclass(frozen=True)
class Head:
    """A row's number and hash. Kept outside, it is an anchor."""

    number: int = 0
    hash: bytes = START

    def __str__(self) -> str:
        return f"{self.number}:{self.hash.hex()}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """From `number:hash`. Raises ValueError, which says what was expected."""
        number, _, digest = text.strip().partition(":")
        try:
            head = cls(int(number), bytes.fromhex(digest))
        except ValueError:
            head = cls()
        if head.number < 1 or len(head.hash) != HASH_BYTES:
            raise ValueError(
                f"{text!r} is not an anchor; one is a row's number, a colon and the 64"
                " hexadecimal digits of its hash."
            )
        return head


@dataclass(frozen=True)
class Fault:
    """The first bad row. `what`: altered, missing, inserted, reordered, foreign,
    rewritten, unreadable, or (of the database only) unlinked."""

    number: int
    what: str
    why: str
    event: str = ""  # its id

    def __str__(self) -> str:
        return f"row {self.number} ({self.what}): {self.why}"


@dataclass(frozen=True)
class Verdict:
    """How far the chain holds, from `start` (that row is taken for granted)."""

    start: Head
    head: Head
    fault: Fault | None = None


# The chain


def event_bytes(event: Mapping[str, Any]) -> bytes:
    """What of an event its row's hash covers."""
    text = json.dumps(
        {field: event[field] for field in FIELDS},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
    )
    return _DOMAIN + text.encode("ascii")


def link(previous: bytes, event: Mapping[str, Any]) -> bytes:
    """The hash of the row that holds the event and follows `previous`."""
    return sha256(previous + event_bytes(event)).digest()


def verify(
    rows: Iterable[Row],
    *,
    start: Head | None = None,
    anchors: Iterable[Head] = (),
    workspace: str | None = ANY,
) -> Verdict:
    """Follow the rows, which come in the order of their numbers, to the first bad one.

    Without `start` the first row says what it follows: 1 follows nothing, and a part
    of a log is proven as a part only. Without `workspace` all must be of the first
    row's. Anchors before the start prove nothing, and are faults, as those after the
    end are. Reads the rows once and keeps none.
    """
    stream = iter(rows)
    wanted: dict[int, set[bytes]] = {}
    for anchor in anchors:
        wanted.setdefault(anchor.number, set()).add(anchor.hash)
    first = next(stream, None)
    if first is not None:
        stream = chain([first], stream)
        if start is None and first.number > 1:
            start = Head(first.number - 1, first.previous)
    start = start or Head()
    head, before = start, None
    fault = _against_anchor(start, wanted)
    if workspace == ANY and first is not None:
        workspace = first.event["workspace"]
    for row in stream if fault is None else ():
        fault = _next(row, head, before, workspace, stream)
        if fault is None:
            head, before = Head(row.number, row.hash), head
            fault = _against_anchor(head, wanted)
        if fault is not None:
            break
    if fault is None and wanted:
        number = min(wanted)
        fault = Fault(
            number,
            "missing",
            f"it was anchored, and the log that is here has rows {start.number + 1} to"
            f" {head.number}: it was cut off or set back, or is the log of something"
            " else.",
        )
    return Verdict(start, head, fault)


def _next(
    row: Row, head: Head, before: Head | None, workspace: object, rest: Iterator[Row]
) -> Fault | None:
    """What is wrong with the row after `head`, or with `head` as it shows only now."""
    event = str(row.event["id"])
    if row.number > head.number + 1:
        gone = head.number + 1
        through = (
            f"rows {gone} to {row.number - 1} are" if row.number > gone + 1 else ""
        )
        return Fault(gone, "missing", f"{through or 'it is'} not there.")
    if row.number <= head.number:
        why = f"it stands after row {head.number}."
        return Fault(row.number, "reordered", why, event)
    if row.event["workspace"] != workspace:
        return Fault(row.number, "foreign", "it is of another workspace's log.", event)
    holds = link(row.previous, row.event) == row.hash
    if row.previous == head.hash:
        if holds:
            return None
        why = "its event or its hash is not what it was when it was chained."
        return Fault(row.number, "altered", why, event)
    if not holds:
        why = "neither its hash nor the one before it is what it was."
        return Fault(row.number, "altered", why, event)
    # The row is in itself as it was, but was chained to another row than stands there.
    if before is not None and row.previous == before.hash:
        why = f"row {row.number} was chained to the row before it."
        return Fault(head.number, "inserted", why)
    moved = next((one for one in rest if one.previous == head.hash), None)
    if moved is not None:
        why = f"row {moved.number} was chained in its place."
        return Fault(row.number, "reordered", why, event)
    if head.number == 0:
        why = "the log began with another row, which is not there."
        return Fault(row.number, "missing", why, event)
    why = (
        f"row {row.number} was chained to another one: this one was changed or"
        " replaced, or one between them was taken out."
    )
    return Fault(head.number, "altered", why)


def _against_anchor(head: Head, wanted: dict[int, set[bytes]]) -> Fault | None:
    others = wanted.pop(head.number, set()) - {head.hash}
    if not others:
        return None
    why = (
        f"its hash is {head.hash.hex()}, the anchor says {min(others).hex()}: the log up"
        " to there was written anew, or is the log of something else."
    )
    return Fault(head.number, "rewritten", why)
