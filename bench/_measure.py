"""Taking turns, and what each turn cost."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import connection

WARM_UP = 50  # rounds that are not counted


@dataclass
class Cost:
    name: str
    seconds: list[float] = field(default_factory=list)
    wal: int = 0  # bytes of the write-ahead log, all rounds together

    def line(self, base: Cost) -> str:
        middle = statistics.median(self.seconds)
        worst = statistics.quantiles(self.seconds, n=20)[-1]
        return (
            f"{self.name:<34} {middle * 1000:8.3f} {worst * 1000:8.3f}"
            f" {self.wal / len(self.seconds):10.0f}"
            f" {middle / statistics.median(base.seconds):7.2f}"
        )


def take_turns(title: str, rounds: int, ways: dict[str, Callable[[], object]]) -> None:
    """Run each way once a round, and print medians beside the first one's."""
    costs = [Cost(name) for name in ways]
    for number in range(rounds + WARM_UP):
        for cost, way in zip(costs, ways.values(), strict=True):
            before, began = _wal(), time.perf_counter()
            way()
            taken = time.perf_counter() - began
            if number >= WARM_UP:
                cost.seconds.append(taken)
                cost.wal += _wal() - before
    print(f"\n{title} ({rounds} rounds, interleaved)")
    print(f"{'':<34} {'p50 ms':>8} {'p95 ms':>8} {'WAL bytes':>10} {'x first':>7}")
    for cost in costs:
        print(cost.line(costs[0]))


def _wal() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return int(cursor.fetchone()[0])
