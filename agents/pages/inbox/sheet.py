"""What the sheet of “Approve and remember…” holds, as it opens and as it was typed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

from agents.errors import InvalidSticky
from agents.models import StickyRule
from agents.pages.inbox.arguments import Argument
from agents.pages.inbox.detail import Detail
from agents.policies.remembered import exact, require_narrow
from agents.pure import policy
from agents.tools.schema import Schema, resolve
from checkpoints.pure.pointer import split

# When a rule ends, in hours.
ENDS = {"1": "1 hour", "24": "1 day", "168": "1 week", "720": "30 days"}
DAY = "24"


@dataclass(frozen=True)
class Row:
    """One condition. `argument` has its value as it is read."""

    number: int
    argument: Argument
    condition: dict[str, Any] = field(repr=False)
    is_number: bool
    is_kept: bool = True
    is_bound: bool = False  # at most this, else the same

    @property
    def label(self) -> str:
        return self.argument.name

    @property
    def shown(self) -> str:
        """Its beginning, where it is long: all of it stands in the table above."""
        return self.argument.start if self.argument.is_long else self.argument.text

    @property
    def is_empty(self) -> bool:
        return bool(self.argument.value == "")


@dataclass(frozen=True)
class Sheet:
    """`why_not`: why nothing can be remembered of this request; then without rows."""

    rows: list[Row]
    scope: str
    ends: str
    why_not: str = ""
    arguments: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def choices(self) -> list[tuple[str, str]]:
        return list(ENDS.items())

    @property
    def said(self) -> list[tuple[str, str]]:
        """What was chosen, in words: for where the sheet itself is not shown any more."""
        same = [
            f"{row.label}: {'at most' if row.is_bound else 'the same'}"
            for row in self.rows
            if row.is_kept
        ]
        found = [
            ("Where it holds", dict(StickyRule.Scope.choices).get(self.scope, "")),
            ("Ends after", ENDS.get(self.ends, "")),
            ("Must be the same", "\n".join(same)),
        ]
        return [(name, text) for name, text in found if text]

    @property
    def predicate(self) -> dict[str, Any]:
        """The conditions that are kept, as wide as was chosen."""
        return {
            "all": [
                {**row.condition, "op": "lte"} if row.is_bound else row.condition
                for row in self.rows
                if row.is_kept
            ]
        }

    def problems(self, *, tried: bool = False) -> dict[str, str]:
        """By field: scope, rows, ends. `tried`: it need not say when it ends."""
        found = {}
        if self.scope not in StickyRule.Scope.values:
            found["scope"] = "Choose where it holds."
        try:
            require_narrow(self.predicate, self.arguments)
        except InvalidSticky as wrong:
            found["rows"] = " ".join(wrong.fields.values())
        if self.ends not in ENDS and not tried:
            found["ends"] = "Choose when the rule ends."
        return found


def sheet_of(
    detail: Detail, typed: QueryDict | None = None, *, sent: bool = False
) -> Sheet:
    """As it opens, narrow; or as `typed`: scope, ends, keep=number…, how-number.

    `sent`: as it was when it was sent, whatever became of the request since.
    """
    if why_not := detail.why_not if sent else _why_not(detail):
        chosen = typed if typed is not None and sent else {}
        return Sheet([], chosen.get("scope", ""), chosen.get("ends", ""), why_not)
    schema = detail.tool.schema if detail.tool else {}
    rows = [
        _row(number, condition, schema, typed)
        for number, condition in enumerate(exact(detail.asked)["all"])
    ]
    if typed is None:
        narrowest = StickyRule.Scope.values[0]
        return Sheet(rows, narrowest, DAY, arguments=detail.asked)
    scope, ends = typed.get("scope", ""), typed.get("ends", "")
    return Sheet(rows, scope, ends, arguments=detail.asked)


def _why_not(detail: Detail) -> str:
    standing = detail.standing
    if not detail.approval.is_pending:
        return "This request is decided."
    return detail.why_not or standing.why_not_remembered


def _row(
    number: int, condition: dict[str, Any], schema: Schema, typed: QueryDict | None
) -> Row:
    path, value = condition["path"], condition["value"]
    is_number = _is_number(value, path, schema)
    row = Row(number, Argument(path[1:], value), condition, is_number)
    if typed is None:
        return row
    return Row(
        number,
        row.argument,
        condition,
        is_number,
        is_kept=str(number) in typed.getlist("keep"),
        is_bound=is_number and typed.get(f"how-{number}") == "lte",
    )


def _is_number(value: Any, path: str, schema: Schema) -> bool:
    """A number, or the text of one that the tool takes as an exact number."""
    if isinstance(value, str):
        part: Any = schema
        for name in split(path):
            part = resolve(part, schema).get("properties", {}).get(name, {})
        if resolve(part, schema).get("format") != "decimal":
            return False
    return policy.number(value) is not None
