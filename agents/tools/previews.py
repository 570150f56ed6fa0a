"""What a call would do, as text that people read before they approve it.

    return Preview.email(to=to, subject=subject, body=body)
    return Preview.diff("prices.csv", before, after)
    return Preview.rows(1204, "customers", columns=["id", "name"], sample=[[1, "Ada"]])
    return Preview.table(["leg", "departs"], [["LIS → EWR", "10:35"]])

It is shown as text, whatever is in it: no markup, no link, no picture.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.errors import NotAGuard
from checkpoints.pure.codec import clean

MOST_TEXT = 50_000  # characters of a body, or of a file's changed lines
MOST_ROWS = 50
MOST_COLUMNS = 12
MOST_CELL = 500  # characters
CONTEXT = 3  # lines around a change


@dataclass(frozen=True)
class Preview:
    """Made by the functions below. What is too long is cut, and says how much is left out."""

    kind: str  # email, diff, rows or table
    shown: dict[str, Any] = field(repr=False)

    @classmethod
    def email(
        cls, *, to: str | Iterable[str], subject: str, body: str, cc: Iterable[str] = ()
    ) -> Preview:
        """A message, as its text."""
        text, cut = _cut(body)
        return cls(
            "email",
            {
                "to": [to] if isinstance(to, str) else list(to),
                "cc": list(cc),
                "subject": subject,
                "body": text,
                "cut": cut,
            },
        )

    @classmethod
    def diff(cls, name: str, before: str, after: str) -> Preview:
        """What changes in a file: the lines that go and come, with three around them."""
        made = difflib.unified_diff(
            before.splitlines(), after.splitlines(), lineterm="", n=CONTEXT
        )
        text, cut = _cut("\n".join(list(made)[2:]))  # the name is shown above
        lines = [[line[:1], line[1:]] for line in text.split("\n")] if text else []
        return cls("diff", {"name": name, "lines": lines, "cut": cut})

    @classmethod
    def rows(
        cls,
        count: int,
        what: str,
        *,
        columns: Sequence[str] = (),
        sample: Iterable[Sequence[Any]] = (),
    ) -> Preview:
        """How many rows of a table are affected, and some of them."""
        shown = _table(columns, sample)
        shown["cut"] = max(count - len(shown["rows"]), 0)
        return cls("rows", {"count": int(count), "what": what, **shown})

    @classmethod
    def table(cls, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Preview:
        """Rows of text under columns."""
        return cls("table", _table(columns, rows))

    def kept(self) -> dict[str, Any]:
        """As it is sealed. Raises NotAGuard when it is no JSON after all."""
        kept, _ = clean({"kind": self.kind, **self.shown})
        for value in (*kept.values(), *kept.get("to", ()), *kept.get("cc", ())):
            if not isinstance(value, str | int | list):
                raise NotAGuard(f"A preview holds a {type(value).__name__}.")
        return dict(kept)


def _cut(text: str) -> tuple[str, int]:
    """Text, and how many characters of it are left out."""
    if not isinstance(text, str):
        raise NotAGuard(f"A preview's text is a {type(text).__name__}.")
    return text[:MOST_TEXT], max(len(text) - MOST_TEXT, 0)


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
    every = [list(row) for row in rows]
    return {
        "columns": [_cell(name) for name in columns][:MOST_COLUMNS],
        "rows": [[_cell(value) for value in row[:MOST_COLUMNS]] for row in every][
            :MOST_ROWS
        ],
        "cut": max(len(every) - MOST_ROWS, 0),
    }


def _cell(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MOST_CELL else f"{text[:MOST_CELL]}…"
