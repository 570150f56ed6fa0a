"""What a request's guard found and what its preview shows, for its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from django.utils import timezone

from agents.models import Approval
from agents.pure.tolerance import Difference, differences
from agents.tools import Tool, titles
from checkpoints.gate import Pass
from checkpoints.pure import codec
from checkpoints.pure.pointer import pointer

# A page that is opened has the guard look again, unless it did so just now.
RECENT = timedelta(seconds=30)

Guard = Approval.Guard


@dataclass(frozen=True)
class Moved:
    """One value that is another than when the request was asked."""

    name: str
    was: str
    now: str
    change: str = ""  # "+300.00, +25 %" of numbers


@dataclass(frozen=True)
class Guarded:
    """`moved` is empty where all is as it was."""

    approval: Approval
    text: str = field(default="", repr=False)
    invalid: str = field(default="", repr=False)
    moved: tuple[Moved, ...] = ()
    same: tuple[str, ...] = ()  # names of the values that are as they were
    tolerance: str = ""  # "price 2%"

    @property
    def is_due(self) -> bool:
        """Whether who opens the page has the guard look again."""
        checked = self.approval.guard_checked_at
        if not self.approval.is_pending or self.approval.is_being_checked:
            return False
        return checked is None or timezone.now() - checked > RECENT


def guarded(opened: Pass, approval: Approval, tool: Tool | None) -> Guarded | None:
    """What the guard found; None where the tool has none."""
    if not approval.guard:
        return None
    found = opened.open(approval, "guard_found") or {}
    was, now = found.get("was", {}), found.get("now", {})
    changed = differences(was, now)
    paths = [each.path for each in changed]
    return Guarded(
        approval,
        text=found.get("text", ""),
        invalid=found.get("invalid", ""),
        moved=tuple(map(_moved, changed)),
        same=tuple(name for name in now if not _is_within(pointer(name), paths)),
        tolerance=_tolerance(tool),
    )


def preview(opened: Pass, approval: Approval) -> dict[str, Any] | None:
    """As it was made for what is asked (agents/tools/previews.py); None without one."""
    shown: dict[str, Any] | None = opened.open(approval, "preview")
    if shown is None or shown["kind"] != "diff":
        return shown
    looks = {"+": "add", "-": "del", "@": "path"}
    lines = [(looks.get(sign, "same"), sign, text) for sign, text in shown["lines"]]
    return {**shown, "lines": lines}


def _is_within(place: str, paths: Sequence[str]) -> bool:
    """Whether one of these paths is that place, or leads into what is there."""
    return any(path == place or path.startswith(f"{place}/") for path in paths)


def _moved(found: Difference) -> Moved:
    return Moved(found.path[1:], _words(found.was), _words(found.now), _change(found))


def _change(found: Difference) -> str:
    if found.by is None:
        return ""
    by = _signed(found.by)
    if found.share is None:
        return by
    try:
        percent = (found.share * 100).quantize(Decimal("0.1")).normalize()
    except InvalidOperation:  # of more digits than anybody reads
        return by
    return f"{by}, {_signed(percent)} %"


def _signed(number: Decimal) -> str:
    sign = "−" if number < 0 else "+"  # noqa: RUF001  # as people write it
    return f"{sign}{abs(number):,f}"


def _words(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case str():
            return str(titles.grouped(value))
    return codec.canonical(value).decode()


def _tolerance(tool: Tool | None) -> str:
    allowed: Mapping[str, Any] = tool.tolerance if tool else {}
    return ", ".join(f"{path[1:]} {amount}" for path, amount in allowed.items())
