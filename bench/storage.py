"""Checkpoint storage beside a plain insert, and beside LangGraph's checkpointer.

Everything of ours is done as a worker does it: signed in as the workers' role, each step
sealed, chained and fenced, segments packed as they fill, states opened and verified.
docs/benchmarks.md says how each figure is measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import psycopg

from bench import _floor, _keys, _langgraph, _text, _writers
from bench._figures import FIGURES, VARIANTS, Figures, show
from bench._server import (
    as_worker,
    bytes_of,
    cpu_milliseconds,
    milliseconds,
    owner,
    round_trips,
    say,
    wal_bytes,
    wal_flushes,
)
from bench._thread import GrowingThread, Turns, new_branch
from checkpoints.access import Reason
from checkpoints.keys.hierarchy import create_workspace_keys
from checkpoints.log import hydrate
from checkpoints.log.threads import fork
from checkpoints.models import Checkpoint, Workspace

THREADS = 3  # that grow to the end: as many times 100 turns in each window
WINDOWS = ((900, 1000), (4900, 5000), (9900, 10_000))
COUNTED = 60  # steps whose flushes, bytes and round trips are counted; under a segment
# What grows with steps: whole tables, of a database that has one thread. Its row, its
# branch's and its keys' are about 2 KB.
TABLES = r"^public\.checkpoints_(checkpoint|checkpointdelta|segment)$"


def run(*, as_json: bool, quick: bool) -> None:
    figures: Figures = dict.fromkeys(FIGURES)
    with owner() as admin:
        if Workspace.objects.exists():
            raise SystemExit(
                "The database has workspaces; this needs an empty one, which ./dev bench"
                " makes where DATABASE_URL is not set."
            )
        admin.execute(_floor.TABLE)
        workspace = Workspace.objects.create(slug="bench", name="Bench")
        create_workspace_keys(workspace)
        with as_worker():
            _measure(workspace, admin, figures, quick=quick)
        say("rewrapping keys …")
        figures["rewrap_20000_s"] = _keys.rewrap_seconds()
        for name, variant in VARIANTS.items():
            figures[name] = None
            if not quick:
                say(f"LangGraph, {variant} …")
                figures[name] = _langgraph.run(admin, variant)
    show(figures, as_json=as_json)


def _measure(
    workspace: Workspace,
    admin: psycopg.Connection[Any],
    figures: Figures,
    *,
    quick: bool,
) -> None:
    insert = _floor.inserts(admin)
    say("a thread of 1,000 steps …")
    thread = GrowingThread(workspace, _text.messages(), admin)
    turns = _grow_to_a_thousand(thread, insert, admin, figures)
    figures |= _count(thread, admin)
    others = [
        GrowingThread(workspace, _text.messages(), admin)
        for _ in range(0 if quick else THREADS - 1)
    ]
    windows = [_window(others, insert, *WINDOWS[0], into=turns)]
    for start, end in () if quick else WINDOWS[1:]:
        say(f"{THREADS} threads of {end:,} steps …")
        windows.append(_window([thread, *others], insert, start, end))
    figures |= _worst(windows)
    if not quick:
        figures["hydrate_10000_ms"] = _hydrate(thread, times=15)
    say("16 writers …")
    branches = [new_branch(workspace) for _ in range(_writers.WRITERS)]
    figures["writers_16_ratio"] = _writers.ratio(branches, rounds=2 if quick else 5)


def _grow_to_a_thousand(
    thread: GrowingThread,
    insert: Callable[[str], object],
    admin: psycopg.Connection[Any],
    figures: Figures,
) -> Turns:
    """The first window's turns; fills in what is measured of a thread this long."""
    for steps in (10, 100):
        thread.grow(steps)
        figures[f"hydrate_{steps}_ms"] = _hydrate(thread, times=50)
    thread.grow(WINDOWS[0][0])
    turns = thread.grow(1000, beside=insert)
    figures["bytes_total"] = bytes_of(admin, TABLES)
    figures["payload_bytes"] = thread.payload
    figures["bytes_ratio"] = figures["bytes_total"] / thread.payload
    figures["hydrate_1000_ms"] = _hydrate(thread, times=50)
    branch, pass_ = thread.reread(), thread.admit()
    figures["hydrate_1000_cpu_ms"] = cpu_milliseconds(
        lambda: hydrate.state(pass_, branch), times=50
    )
    figures["history_50_ms"] = milliseconds(
        lambda: hydrate.history(pass_, branch, limit=50), times=50
    )
    figures["history_50_states_ms"] = milliseconds(
        lambda: hydrate.history_states(pass_, branch, limit=50), times=50
    )
    middle = Checkpoint.objects.unscoped(Reason.WORKER).get(branch=branch, step=500)
    figures["fork_ms"] = milliseconds(
        lambda: fork(middle, name="Bench", by_id=None), times=50
    )
    return turns


def _hydrate(thread: GrowingThread, *, times: int) -> float:
    branch, pass_ = thread.reread(), thread.admit()
    return milliseconds(lambda: hydrate.state(pass_, branch), times=times)


def _count(thread: GrowingThread, admin: psycopg.Connection[Any]) -> Figures:
    """What steps cost that no clock shows. Nothing else writes meanwhile."""
    thread.grow(1024)  # the first of a segment: none is packed among those that count
    flushes, written = wal_flushes(), wal_bytes(admin)
    thread.grow(1024 + COUNTED)
    flushes, written = wal_flushes() - flushes, wal_bytes(admin) - written
    thread.grow(1088)
    with round_trips() as trips:
        thread.grow(1088 + COUNTED)
    return {
        "round_trips_per_step": trips[0] / COUNTED,
        "wal_flushes_per_step": flushes / COUNTED,
        "wal_bytes_per_step": written / COUNTED,
    }


def _window(
    threads: list[GrowingThread],
    insert: Callable[[str], object],
    start: int,
    end: int,
    *,
    into: Turns | None = None,
) -> Turns:
    """Turns of all these threads from step `start` to `end`, beside the insert."""
    turns = into or Turns()
    for thread in threads:
        thread.grow(start)
        found = thread.grow(end, beside=insert)
        turns.floor += found.floor
        turns.step += found.step
    return turns


def _worst(windows: list[Turns]) -> Figures:
    """Of the window whose medians are furthest apart; the percentiles' likewise."""

    def ratio(turns: Turns, percent: int) -> float:
        return _percentile(turns.step, percent) / _percentile(turns.floor, percent)

    slowest = max(windows, key=lambda turns: ratio(turns, 50))
    return {
        "raw_commit_ms": _percentile(slowest.floor, 50) * 1000,
        "step_commit_ms": _percentile(slowest.step, 50) * 1000,
        "step_commit_ratio": ratio(slowest, 50),
        "step_commit_p99_ratio": max(ratio(turns, 99) for turns in windows),
    }


def _percentile(seconds: list[float], percent: int) -> float:
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1]
