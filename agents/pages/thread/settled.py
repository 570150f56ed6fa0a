"""What a thread's steps come to, all together: asked once for the heads that there are.

A step is written once, so what steps cost and which of them failed changes with a head
and with nothing else. Whoever steps through 10,000 of them asks for it at each.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from django.db.models import Count, Sum
from django.db.models.functions import Coalesce

from agents.pages.thread.filter import FAILED
from checkpoints.models import Branch, Checkpoint, Thread

MOST = 500  # failed steps that are marked
THREADS = 256  # that are remembered in this process, the last that were looked at


@dataclass(frozen=True)
class Settled:
    """Of columns that are stored in clear."""

    steps: int
    cost: Decimal | None
    tokens: int
    latency_ms: int
    failed: Sequence[tuple[UUID, int]]  # branch and step
    kinds: Sequence[str]
    tools: Sequence[str]  # that steps are the results of


def settled(thread: Thread, branches: Iterable[Branch]) -> Settled:
    """`branches`: all of the thread's, in the order in which they were made."""
    heads = tuple(branch.head_step for branch in branches)
    with _lock:
        known, found = _found.get(thread.pk, ((), None))
        if found is not None and known == heads:
            _found.move_to_end(thread.pk)
            return found
    found = _ask(thread)
    with _lock:
        _found[thread.pk] = heads, found
        _found.move_to_end(thread.pk)
        if len(_found) > THREADS:
            _found.popitem(last=False)
    return found


_found: OrderedDict[UUID, tuple[tuple[int, ...], Settled | None]] = OrderedDict()
_lock = threading.Lock()


def _ask(thread: Thread) -> Settled:
    # By kind and name, which are few: so they are known without another look.
    groups = (
        thread.checkpoints.order_by()
        .values("kind", "name")
        .annotate(
            steps=Count("pk"),
            spent=Sum("cost"),
            tokens=Sum(_TOKENS),
            worked=Sum("latency_ms"),
        )
    )
    found = list(groups)
    costs = [group["spent"] for group in found if group["spent"] is not None]
    failed = thread.checkpoints.filter(FAILED).values_list("branch_id", "step")[:MOST]
    kinds = {group["kind"] for group in found}
    # A call that ended the run is a step of kind "error".
    called = (Checkpoint.Kind.TOOL, Checkpoint.Kind.ERROR)
    tools = {group["name"] for group in found if group["kind"] in called}
    return Settled(
        steps=sum(group["steps"] for group in found),
        cost=sum(costs) if costs else None,
        tokens=sum(group["tokens"] or 0 for group in found),
        latency_ms=sum(group["worked"] or 0 for group in found),
        failed=list(failed),
        kinds=[kind for kind in Checkpoint.Kind.values if kind in kinds],
        tools=sorted(tools - {""}),
    )


_TOKENS = Coalesce("tokens_in", 0) + Coalesce("tokens_out", 0)
