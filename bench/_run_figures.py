"""The figures of `./dev bench runs`: what we aim at, and how they are shown."""

from __future__ import annotations

import json
from typing import Any

from bench._figures import Figures, rounded

# What is aimed at: at most, or at least. A dot leads into a figure's parts.
AT_LEAST = {"dbos.step_ratio"}
AIMS: dict[str, tuple[str, float | None]] = {
    "raw_commit_ms": ("plain insert of 1 KB, committed, ms", None),
    "step_ms": ("step of a run, ms", None),
    "step_ratio": ("step of a run by insert, medians", 3.0),
    "step_p99_ms": ("step of a run, 99th percentile, ms", None),
    "approve_to_durable_ms.p50": ("approve → next checkpoint, ms", 15.0),
    "approve_to_durable_ms.p95": ("… 95th percentile", None),
    "approve_to_durable_ms.p99": ("… 99th percentile", 50.0),
    "pickup_ms.p50": ("enqueue → start, ms", 6.0),
    "pickup_ms.p99": ("… 99th percentile", None),
    "kill_to_resume_ms.p50": ("SIGKILL → next checkpoint, ms", None),
    "kill_to_resume_ms.p99": ("… 99th percentile", 500.0),
    "lost_to_resume_ms.p50": (
        "the same with its supervisor, under a lease of 3 s, ms",
        None,
    ),
    "lost_to_resume_ms.p99": ("… 99th percentile", 5000.0),  # the lease and 2 s
    "steps_per_s.1": ("steps a second, one worker", None),
    "steps_per_s.2": ("steps a second, two workers", None),
    "waiting_10000.redis_bytes": ("10,000 waiting runs: bytes in Redis", 0.0),
    "waiting_10000.processes": ("… processes", 0.0),
    "waiting_10000.rss_delta_mb": ("… memory of a worker, MB", None),
    "dbos.step_ms": ("DBOS: a step, ms", None),
    "dbos.step_ratio": ("… by a step of a run (at least)", 2.5),
    "dbos.pickup_p50_ms": ("DBOS: enqueue → start, ms", None),
    "dbos.recv_p50_ms": ("DBOS: send → received, ms", None),
}


def show(figures: Figures, *, as_json: bool) -> None:
    print(json.dumps(rounded(figures)) if as_json else _table(figures))


def _table(figures: Figures) -> str:
    lines = ["| figure | measured | aim | |", "|---|---:|---:|---|"]
    for name, (meaning, aim) in AIMS.items():
        value: Any = figures
        for part in name.split("."):
            value = value and value.get(part)
        verdict = ""
        if aim is not None and value is not None:
            good = value >= aim if name in AT_LEAST else value <= aim
            verdict = "met" if good else "**missed**"
        shown = "-" if value is None else f"{value:,.3g}"
        wanted = "-" if aim is None else f"{aim:g}"
        lines.append(f"| {meaning} | {shown} | {wanted} | {verdict} |")
    return "\n".join(lines)
