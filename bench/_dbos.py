"""DBOS on the same server: steps that return 1 KB, its queue, and a wait for a message."""

from __future__ import annotations

import logging
import statistics
import time
from typing import Any
from urllib.parse import quote

from dbos import DBOS, DBOSConfig
from django.conf import settings

from bench import _text

STEPS = 500
TIMES = 30

_texts = _text.messages()
_began: list[float] = []


@DBOS.step()  # type: ignore[untyped-decorator,unused-ignore]  # DBOS may not be installed
def _note() -> str:
    return next(_texts)


@DBOS.workflow()  # type: ignore[untyped-decorator,unused-ignore]  # DBOS may not be installed
def _steps(times: int) -> None:
    for _ in range(times):
        began = time.perf_counter()
        _note()
        _began.append(time.perf_counter() - began)


@DBOS.workflow()  # type: ignore[untyped-decorator,unused-ignore]  # DBOS may not be installed
def _start() -> float:
    return time.perf_counter()


@DBOS.workflow()  # type: ignore[untyped-decorator,unused-ignore]  # DBOS may not be installed
def _wait() -> float:
    DBOS.recv(timeout_seconds=60)
    return time.perf_counter()


def run() -> dict[str, float]:
    """Medians, in milliseconds. As it comes, with its default settings."""
    place = settings.DATABASES["default"]
    url = (
        f"postgresql+psycopg://{quote(place['USER'])}@/bench_dbos"
        f"?host={quote(place['HOST'], safe='')}&port={place['PORT'] or 5432}"
    )
    config: DBOSConfig = {"name": "bench", "system_database_url": url}
    logging.getLogger("dbos").setLevel(logging.ERROR)
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue("bench")
    try:
        _steps(20)
        _began.clear()
        _steps(STEPS)
        return {
            "step_ms": statistics.median(_began) * 1000,
            "pickup_p50_ms": statistics.median(map(_pickup, range(TIMES))) * 1000,
            "recv_p50_ms": statistics.median(map(_received, range(TIMES))) * 1000,
        }
    finally:
        DBOS.destroy()


def _pickup(_: int) -> float:
    began = time.perf_counter()
    queue: Any = DBOS.retrieve_queue("bench")
    handle = queue.enqueue(_start)
    return float(handle.get_result()) - began


def _received(_: int) -> float:
    handle = DBOS.start_workflow(_wait)
    time.sleep(0.3)  # it waits by now
    began = time.perf_counter()
    DBOS.send(handle.get_workflow_id(), "go on")
    return float(handle.get_result()) - began
