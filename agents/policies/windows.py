"""What went before without asking: counted and summed for rules that ask how much.

Those who let a call go under such a rule do it one after another: the total is read, the
call judged and its part written down under one lock. Amounts are sealed, so PostgreSQL
cannot add them up: each use keeps what it and all before it come to, and a sum is the
difference of two uses, however many lie between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import DateTimeField, Value
from django.db.models.functions import Greatest, Now

from agents.models import PolicyUse, ToolCall
from agents.pure.policies import Rule, Window, added, amount_of
from checkpoints.access import Reason, ScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.db.locks import WINDOW
from checkpoints.gate import Pass, seal
from checkpoints.keys.hierarchy import workspace_mac
from checkpoints.models import DataKey
from checkpoints.pure.chain import keyed_digest


def of_rules(rules: Iterable[Rule]) -> list[Window]:
    """What these rules count and sum, each once."""
    return list(dict.fromkeys(window for rule in rules for window in rule.windows))


def lock(workspace: UUID, windows: Iterable[Window]) -> None:
    """Nobody else judges by any of these until the transaction ends."""
    with connection.cursor() as cursor:
        for name in sorted({name_of(workspace, window) for window in windows}):
            cursor.execute(
                "SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [WINDOW, name]
            )


class Totals:
    """What was let go before, in the windows of a workspace."""

    def __init__(self, workspace: UUID, opener: Pass, call: UUID | None = None) -> None:
        """Before this `call`, where it was let go already; else before now."""
        self._workspace = workspace
        self._opener = opener
        self._call = call

    def __call__(self, window: Window) -> Decimal:
        """As `decide` asks it. Raises what keeps an amount from being opened."""
        before = self._before(window)
        if window.path is None:
            return Decimal(before.count())
        # Written before uses kept their totals, or by a worker that does not keep them.
        alone = list(before.filter(total=None).exclude(amount=None))
        parts = self._opener.open_all(alone, "amount")
        kept = before.exclude(total=None)
        first, last = kept.order_by("at").first(), kept.order_by("at").last()
        if first is not None and last is not None:
            until, since = self._opener.open_all([last, first], "total")
            parts += [until, _less(since), self._opener.open(first, "amount")]
        return added([Decimal(text) for text in parts])

    def _before(self, window: Window) -> ScopedQuerySet[PolicyUse]:
        uses: ScopedQuerySet[PolicyUse] = PolicyUse.objects.unscoped(Reason.WORKER)
        uses = uses.filter(
            workspace_id=self._workspace, window=name_of(self._workspace, window)
        )
        own = uses.filter(call=self._call).values_list("at", flat=True).first()
        if own is not None:
            uses = uses.filter(at__lt=own)
        since = Now() - timedelta(hours=window.hours)
        return uses.filter(at__gt=since)


def let_go(
    row: ToolCall,
    arguments: Mapping[str, Any],
    windows: Iterable[Window],
    opener: Pass,
) -> None:
    """Write down the call's part in these, under their locks. No amount adds nothing.

    Raises what keeps the total so far from being opened.
    """
    parts: dict[str, Decimal] = {}
    for window in windows:
        if (amount := amount_of(window, arguments)) is not None:
            parts[name_of(row.workspace_id, window)] = amount
    uses = [_use(row, name, amount, opener) for name, amount in parts.items()]
    PolicyUse.objects.bulk_create(uses, ignore_conflicts=True)


def _use(row: ToolCall, name: str, amount: Decimal, opener: Pass) -> PolicyUse:
    use = PolicyUse(workspace_id=row.workspace_id, window=name, call_id=row.pk)
    kept = PolicyUse.objects.unscoped(Reason.WORKER).filter(
        workspace_id=row.workspace_id, window=name
    )
    last = kept.exclude(total=None).order_by("at").last()
    so_far = Decimal(0)
    at: Any = ClockTimestamp()
    if last is not None:
        so_far = Decimal(opener.open(last, "total"))
        # Later than the last in any case: a clock that went back would mix them up.
        next_at = Value(last.at + timedelta(microseconds=1), DateTimeField())
        at = Greatest(at, next_at)
    use.at = at
    use.amount = seal(use, "amount", str(amount))
    use.total = seal(use, "total", str(added([so_far, amount])))
    return use


def _less(text: str) -> str:
    return str(Decimal(text).copy_negate())


def name_of(workspace: UUID, window: Window) -> str:
    """64 hex digits, keyed: paths are of arguments."""
    key = workspace_mac(workspace, DataKey.Purpose.INDEX)
    return keyed_digest(key, "policy window 1", window.of).hex()
