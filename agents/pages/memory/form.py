"""An entry as it is typed: where it goes, its value as text or JSON, and its last day."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any
from uuid import UUID, uuid4

from django.http import QueryDict
from django.utils import timezone

from agents.tools.secrets import capture
from checkpoints.errors import InvalidEntry, NotJson
from checkpoints.pure import codec, names
from checkpoints.pure.names import Name

TEXT, JSON = "text", "json"


@dataclass(frozen=True)
class Typed:
    """What a form sent, as it came: shown again where it cannot be taken."""

    path: str = field(default="", repr=False)
    value: str = field(default="", repr=False)
    kind: str = TEXT
    ends: str = ""  # a date, or nothing: it stays
    expected: int = 0
    request_key: UUID = field(default_factory=uuid4)

    @property
    def name(self) -> Name:
        """The last part of the path is the key. Raises InvalidEntry."""
        *of, key = names.parts(self.path.strip()) or ("",)
        name = names.name(of, key)
        kept: str = capture(name.path)[0]
        if kept != name.path:
            raise InvalidEntry("A secret cannot be part of a name.")
        return name

    def json(self) -> Any:
        """The value, without secrets. Raises InvalidEntry."""
        typed = self.value.replace("\r\n", "\n")
        try:
            value = codec.load_strict(typed) if self.kind == JSON else typed
        except NotJson as wrong:
            raise InvalidEntry(
                f"The value is no JSON: {wrong} To keep it as it is written, choose text."
            ) from None
        return capture(codec.clean(value)[0])[0]

    def expires_at(self, was: datetime | None = None) -> datetime | None:
        """The end of the day that was typed; `was`, where that is its day.

        Raises InvalidEntry.
        """
        if not self.ends:
            return None
        if was is not None and day(was) == self.ends:
            return was
        try:
            last = date.fromisoformat(self.ends)
            return timezone.make_aware(datetime.combine(last, time.max))
        except (ValueError, OverflowError):
            raise InvalidEntry(
                "A last day is written as 2027-01-31; nothing means that it stays."
            ) from None


def typed_of(sent: QueryDict) -> Typed:
    """What was sent; a field that is none of ours counts as empty."""
    try:
        request_key = UUID(sent.get("request_key", ""))
    except ValueError:
        request_key = uuid4()
    return Typed(
        path=sent.get("path", ""),
        value=sent.get("value", ""),
        kind=JSON if sent.get("kind") == JSON else TEXT,
        ends=sent.get("ends", "").strip(),
        expected=number(sent.get("expected", "")),
        request_key=request_key,
    )


def as_typed(value: Any, expires_at: datetime | None, version: int) -> Typed:
    """An entry as its form begins with it."""
    is_text = isinstance(value, str)
    written = value if is_text else codec.text(value)
    kind = TEXT if is_text else JSON
    ends = day(expires_at) if expires_at else ""
    return Typed(value=written, kind=kind, ends=ends, expected=version)


def day(moment: datetime) -> str:
    return timezone.localtime(moment).date().isoformat()


def number(text: str) -> int:
    """A version; 0 for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
