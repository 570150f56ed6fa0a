"""The arguments of a request as a table: typed, nothing hidden, the long ones folded.

What does not fit into a few lines is folded, and has to be opened before the call can be
approved. That it was is known by a token which stands only below the whole value: the
form gives it back, with script and without.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

from django.utils.crypto import salted_hmac

from agents.errors import InvalidDecision
from agents.models import Approval
from agents.pure.visible import misleading
from agents.tools.schema import Schema, resolve
from checkpoints.access import UserPrincipal
from checkpoints.pure import codec

LINES = 12  # of a value; more are folded
CHARACTERS = 600
START = 160  # characters of a folded value that can be read without opening it
INLINE = 20_000  # characters that the page itself holds; the rest has its own
ROWS = 100  # arguments; more are folded into one

_FORMATS = {
    "decimal": "exact number",
    "date": "date",
    "date-time": "date and time",
    "time": "time",
}


@dataclass(frozen=True)
class Argument:
    """One row of the arguments' table. `was` is what the agent had proposed."""

    name: str
    value: Any = field(repr=False)
    was: Any = field(default=None, repr=False)
    edited: bool = False
    kind: str = ""  # "exact number", "text", "list of 3"
    number: int = 0  # its place, for addresses
    token: str = ""  # what the form gives back once it was opened
    is_read: bool = False
    is_rest: bool = False  # many arguments as one: `value` has them by name
    is_preview: bool = False  # no argument: what is shown of what the call would do

    @property
    def anchor(self) -> str:
        """Its id on the page, where it is folded."""
        return "apr-preview-all" if self.is_preview else f"arg-{self.number}"

    @property
    def plain(self) -> str | None:
        """The value as a line of text, or None where it has a structure."""
        return plain(self.value)

    @cached_property
    def text(self) -> str:
        """The whole value, as it is read."""
        shown = plain(self.value)
        return as_json(self.value) if shown is None else shown

    @property
    def plain_was(self) -> str | None:
        return plain(self.was)

    @property
    def lines(self) -> int:
        return self.text.count("\n") + 1

    @property
    def is_long(self) -> bool:
        return len(self.text) > CHARACTERS or self.lines > LINES

    @property
    def start(self) -> str:
        """What can be read of a folded value without opening it."""
        return " ".join(self.text[:START].split("\n")[:2]) + "…"

    @property
    def more(self) -> str:
        """How much is folded: "312 more lines"."""
        shown = self.text[:START].split("\n")[:2]
        if self.lines > len(shown) + 1:
            return f"{self.lines - len(shown):,} more lines"
        return f"{len(self.text) - START:,} more characters"

    @property
    def is_huge(self) -> bool:
        """Whether the page of the request holds its beginning only."""
        return len(self.text) > INLINE

    @property
    def beginning(self) -> str:
        return self.text[:INLINE]

    @property
    def size(self) -> str:
        return f"{len(self.text):,} characters"

    @cached_property
    def warnings(self) -> list[str]:
        """What in it looks different from what it is."""
        return misleading(self.name) + misleading(self.text)


def table(
    proposed: Mapping[str, Any],
    effective: Mapping[str, Any] | None,
    schema: Schema | None,
) -> list[Argument]:
    """The rows, in the order in which the tool declares its arguments."""
    values = proposed if effective is None else effective
    known = (schema or {}).get("properties", {})
    names = list(dict.fromkeys([*known, *proposed, *values]))
    names = [name for name in names if name in proposed or name in values]
    rows = [
        Argument(
            name,
            values.get(name),
            was=proposed.get(name),
            edited=name not in values
            or name not in proposed
            or not codec.same(proposed[name], values[name]),
            kind=_kind(known.get(name), schema, values.get(name)),
        )
        for name in names
    ]
    if len(rows) > ROWS:
        rest = {row.name: row.value for row in rows[ROWS - 1 :]}
        edited = any(row.edited for row in rows[ROWS - 1 :])
        left = f"{len(rest):,} more arguments"
        rows = [
            *rows[: ROWS - 1],
            Argument(left, rest, edited=edited, kind="object", is_rest=True),
        ]
    return [replace(row, number=number) for number, row in enumerate(rows)]


def marked(
    rows: list[Argument],
    approval: Approval,
    reader: UserPrincipal,
    read: Collection[str],
) -> list[Argument]:
    """The rows with their tokens; `read`: the tokens that came back."""
    marked = []
    for row in rows:
        token = _token(approval, reader, row) if row.is_long else ""
        marked.append(replace(row, token=token, is_read=token in read))
    return marked


def left_by(edited: Mapping[str, Any], rows: list[Argument]) -> list[Argument]:
    """The rows of which an edit leaves something that its form does not show at a glance.

    What it takes away, or makes short, is seen there whole.
    """
    return [
        row
        for row in rows
        if (now := _in_edit(edited, row)) is not None and now.is_long
    ]


def _in_edit(edited: Mapping[str, Any], row: Argument) -> Argument | None:
    if row.is_rest:
        rest = {name: edited[name] for name in row.value if name in edited}
        return replace(row, value=rest)
    return replace(row, value=edited[row.name]) if row.name in edited else None


def require_read(rows: list[Argument]) -> None:
    """Raises InvalidDecision, which names what was not opened."""
    if unread := [row.name for row in rows if row.is_long and not row.is_read]:
        names = ", ".join(unread[:5])
        raise InvalidDecision(
            {"read": f"Open {names} first: it is longer than what you can see here."}
        )


def _token(approval: Approval, reader: UserPrincipal, row: Argument) -> str:
    """Proof that this person was shown the whole of this value, as it is now."""
    # No digest of the request binds its preview.
    which = sha256(row.text.encode()).hexdigest() if row.is_preview else row.number
    what = (
        f"{reader.user_id} {approval.pk} {approval.revision} "
        f"{bytes(approval.digest).hex()} {which}"
    )
    return salted_hmac("holdpoint.read", what, algorithm="sha256").hexdigest()[:40]


def _kind(declared: Any, schema: Schema | None, value: Any) -> str:
    """What it is, in a word or two: by the schema where the value fits it."""
    match value:
        case bool():
            return "yes or no"
        case int() | float():
            return "number"
        case None:
            return "nothing"
        case list():
            return f"list of {len(value):,}"
        case dict():
            return f"object of {len(value):,}"
    shape = resolve(declared, schema or {}) if isinstance(declared, dict) else {}
    if "enum" in shape or "const" in shape:
        return "choice"
    return _FORMATS.get(str(shape.get("format")), "text")


def plain(value: Any) -> str | None:
    match value:
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case None:
            return "none"
        case int() | float():
            return codec.canonical(value).decode()
    return None


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
