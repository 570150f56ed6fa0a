"""Real worker processes: started, watched, killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg

from checkpoints.db.roles import WORKER

LONG = 60.0  # seconds until the benchmark gives up
POLL = 0.0005  # seconds


@contextmanager
def workers(pool: int, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """`manage.py worker --pool N`, with the workers' own credentials, until the end.

    `more`: settings of their own.
    """
    env = {**os.environ, "DATABASE_ROLE": "worker", "LOG_LEVEL": "ERROR", **more}
    owners = urlsplit(env["DATABASE_URL"])
    host = owners.netloc.rpartition("@")[2]
    own = urlunsplit(owners._replace(netloc=f"{quote(WORKER)}@{host}"))
    with suppress(psycopg.OperationalError):  # else it takes its role each time
        psycopg.connect(own).close()
        env["DATABASE_WORKER_URL"] = own
    process = subprocess.Popen(  # noqa: S603  # ourselves
        [sys.executable, "manage.py", "worker", "--pool", str(pool)],
        env=env,
        stdout=subprocess.DEVNULL,
    )
    try:
        until(lambda: len(children(process.pid)) == pool)
        time.sleep(2.0)  # imported and connected
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(LONG)


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(each) for each in path.read_text().split()]


def megabytes(pid: int) -> float:
    """Memory that this process and its children hold for themselves."""
    total = 0
    for each in (pid, *children(pid)):
        for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Private_Clean", "Private_Dirty")):
                total += int(line.split()[1])
    return total / 1024


def until(true: Callable[[], Any], *, every: float = 0.02) -> Any:
    """What it gave, once that is true."""
    deadline = time.perf_counter() + LONG
    while time.perf_counter() < deadline:
        if found := true():
            return found
        time.sleep(every)
    raise SystemExit(f"The benchmark waited {LONG:.0f} s for something.")


def head(connection: psycopg.Connection[Any], branch: Any) -> tuple[int, int]:
    """The branch's last step, and its fence."""
    row = connection.execute(
        "SELECT head_step, fence FROM checkpoints_branch WHERE id = %s", [branch]
    ).fetchone()
    assert row is not None  # it was made before
    return int(row[0]), int(row[1])
