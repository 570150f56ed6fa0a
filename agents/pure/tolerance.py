"""What a guard saw, then and now: which values differ, and whether they may.

A tolerance is declared by JSON Pointer: `{"/price": "2%"}` or `{"/price": "25.00"}`. It
lets a number go up or down by so much; what has none may not differ at all. Numbers are
compared as policies compare them: 1200 is "1200.00".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from agents.pure.policy import number
from checkpoints.errors import BadOperation
from checkpoints.pure.codec import same
from checkpoints.pure.pointer import pointer, split

Tolerance = Mapping[str, str | int | Decimal]


@dataclass(frozen=True)
class Difference:
    """One value, at a path: as it was and as it is. None: it was not there, or is not."""

    path: str
    was: Any
    now: Any

    @property
    def by(self) -> Decimal | None:
        """By how much a number changed; None where it is none."""
        was, now = number(self.was), number(self.now)
        return None if was is None or now is None else now - was

    @property
    def share(self) -> Decimal | None:
        """The same as a part of what it was: 0.25 is a quarter more."""
        was, by = number(self.was), self.by
        return None if by is None or not was else by / abs(was)


def differences(was: Any, now: Any) -> list[Difference]:
    """Every value that differs, by path. Lists are compared as wholes."""
    return list(_differences((), was, now))


def within(found: list[Difference], tolerance: Tolerance) -> bool:
    """Whether each of these may differ as it does."""
    return all(_allowed(each, tolerance.get(each.path)) for each in found)


def problem(path: str, allowed: object) -> str | None:
    """What is wrong with a tolerance as declared; None when it is one."""
    try:
        split(path)
    except BadOperation:
        return f'{path!r} is not a JSON Pointer, such as "/price"'
    if not path:
        return "a tolerance is for one value, not for all"
    if isinstance(allowed, bool) or not isinstance(allowed, str | int | Decimal):
        return f'{allowed!r} is neither a part, such as "2%", nor an amount'
    amount = _amount(allowed)
    if amount is None or amount < 0:
        return f'{allowed!r} is neither a part, such as "2%", nor an amount'
    return None


def _differences(path: tuple[str, ...], was: Any, now: Any) -> list[Difference]:
    if isinstance(was, dict) and isinstance(now, dict):
        return [
            each
            for name in dict.fromkeys([*was, *now])
            for each in _differences((*path, name), was.get(name), now.get(name))
        ]
    if same(was, now):
        return []
    one, other = number(was), number(now)
    if one is not None and one == other:
        return []
    return [Difference(pointer(*path), was, now)]


def _allowed(found: Difference, allowed: str | int | Decimal | None) -> bool:
    by, was = found.by, number(found.was)
    if allowed is None or by is None or was is None:
        return False
    amount = _amount(allowed)
    if amount is None:
        return False
    if isinstance(allowed, str) and allowed.endswith("%"):
        return abs(by) <= abs(was) * amount / 100
    return abs(by) <= amount


def _amount(allowed: str | int | Decimal) -> Decimal | None:
    text = allowed.removesuffix("%").strip() if isinstance(allowed, str) else allowed
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return None
    return amount if amount.is_finite() else None
