"""What runs that wait for a person cost: rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import psycopg

from agents import queue
from agents.models import Approval, Run, ToolCall
from bench._workers import children, megabytes, workers
from checkpoints.models import Branch

# What differs from row to row, beside what points from one to the other.
_OWN = {"number": "s.number + 1000000 + n", "request_key": "NULL"}
_IDS = ("id", "branch_id", "run_id", "call_id", "approval_id")


def measure(admin: psycopg.Connection[Any], run: Run, *, runs: int) -> dict[str, float]:
    """Beside workers that are there anyway, before and after there are that many."""
    with workers(1) as supervisor, queue.connect(timeout=5) as redis:
        redis_before, held = _bytes(redis), megabytes(supervisor.pid)
        before = len(children(supervisor.pid))
        with admin.transaction():  # else the reaper finds runs that wait for nothing
            for model, column in (
                (Branch, "id"),
                (Run, "branch_id"),
                (ToolCall, "branch_id"),
                (Approval, "branch_id"),
            ):
                copy(admin, model._meta.db_table, column, run.branch_id, runs)
        time.sleep(10)  # several turns of the reaper
        waiting = Run.objects.filter(status=Run.Status.WAITING).count()
        if waiting < runs:
            raise SystemExit(f"Of {runs} runs only {waiting} wait.")
        return {
            "redis_bytes": max(0, _bytes(redis) - redis_before),
            "processes": len(children(supervisor.pid)) - before,
            "rss_delta_mb": megabytes(supervisor.pid) - held,
        }


def _bytes(redis: Any) -> int:
    """Of keys that are about runs; RQ keeps some about each worker."""
    keys = [each for each in redis.scan_iter(count=1000) if b"worker" not in each]
    return sum(redis.memory_usage(each) or 0 for each in keys)


def copy(
    admin: psycopg.Connection[Any],
    table: str,
    column: str,
    value: Any,
    times: int,
    *,
    ids: Sequence[str] = _IDS,
    **own: str,
) -> None:
    """Copy rows so many times; columns of `ids` point to what was copied with them.

    `own` has SQL for other columns: `s` is the row that is copied, `n` counts from 1.
    """
    names = [
        name
        for (name,) in admin.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass"
            " AND attnum > 0 AND NOT attisdropped AND attgenerated = ''",
            [table],
        ).fetchall()
    ]
    values = [
        f"md5(s.{name}::text || n)::uuid"
        if name in ids
        else (_OWN | own).get(name, f"s.{name}")
        for name in names
    ]
    admin.execute(
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)}"  # noqa: S608  # names from the catalogue
        f" FROM {table} s, generate_series(1, %s) n WHERE s.{column} = %s",
        [times, value],
    )
