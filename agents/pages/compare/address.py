"""The address of a comparison, and of all that is one click away from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from django.http import HttpRequest, QueryDict
from django.urls import reverse


@dataclass(frozen=True)
class Address:
    """Two branches; `a_to` and `b_to` are the steps they are compared up to, where that
    is not wherever they stand. `part` and `at` say which rows are shown, and which is open.
    """

    a: UUID
    b: UUID
    a_to: int | None = None
    b_to: int | None = None
    part: int = 0
    at: int | None = None
    split: bool = False

    @classmethod
    def of(cls, request: HttpRequest, a: UUID, b: UUID) -> Address:
        query = request.GET
        return cls(
            a,
            b,
            a_to=number(query, "a_to"),
            b_to=number(query, "b_to"),
            part=number(query, "part") or 0,
            at=number(query, "at"),
            split=query.get("split") == "1",
        )

    @property
    def page(self) -> str:
        return reverse("agents:compare_branches", args=[self.a, self.b]) + self._query

    @property
    def fragment(self) -> str:
        """The aligned steps alone."""
        return reverse("agents:compare_rows", args=[self.a, self.b]) + self._query

    @property
    def anchor(self) -> str:
        """The row that is open, for a link to it."""
        return "" if self.at is None else f"#row-{self.at}"

    def row(self, at: int | None) -> Address:
        return replace(self, at=at)

    def onwards(self, part: int) -> Address:
        return replace(self, part=part, at=None)

    def side_by_side(self, split: bool) -> Address:
        return replace(self, split=split)

    def fixed(self, a_to: int, b_to: int) -> Address:
        """As it is now, whatever the branches do later."""
        return replace(self, a_to=a_to, b_to=b_to)

    @property
    def swapped(self) -> Address:
        """With the other side first; rows have other numbers then."""
        return Address(self.b, self.a, self.b_to, self.a_to, split=self.split)

    @property
    def _query(self) -> str:
        values = QueryDict(mutable=True)
        for name in ("a_to", "b_to", "part", "at"):
            value = getattr(self, name)
            if value or (value == 0 and name != "part"):
                values[name] = str(value)
        if self.split:
            values["split"] = "1"
        return f"?{values.urlencode()}" if values else ""


def number(query: Mapping[str, str], name: str) -> int | None:
    """What an address gives as a number, where it can be one of a step or a row."""
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
