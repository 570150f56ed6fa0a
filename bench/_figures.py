"""The figures: their names, what we aim at, and how they are shown."""

from __future__ import annotations

import json
from typing import Any

# What is aimed at: at most, or (where so marked) at least.
FIGURES: dict[str, tuple[str, float | None]] = {
    "raw_commit_ms": ("plain insert of the same text, committed, ms", None),
    "step_commit_ms": ("step, sealed and chained, committed, ms", None),
    "step_commit_ratio": ("step by insert, medians", 2.0),
    "step_commit_p99_ratio": ("step by insert, 99th percentiles", 2.5),
    "round_trips_per_step": ("round trips of a step", 1.0),
    "wal_flushes_per_step": ("flushes of the write-ahead log of a step", 1.05),
    "wal_bytes_per_step": ("bytes of write-ahead log of a step", None),
    "writers_16_ratio": ("16 writers by 16 that insert (at least)", 0.5),
    "bytes_total": ("bytes on disk after 1,000 steps", None),
    "payload_bytes": ("bytes of text in them", None),
    "bytes_ratio": ("bytes on disk by bytes of text", 1.0),
    "hydrate_10_ms": ("state at 10 steps, ms", None),
    "hydrate_100_ms": ("state at 100 steps, ms", None),
    "hydrate_1000_ms": ("state at 1,000 steps, ms", 8.0),
    "hydrate_1000_cpu_ms": ("of it CPU of this process, ms", 5.0),
    "hydrate_10000_ms": ("state at 10,000 steps, ms", 80.0),
    "history_50_ms": ("last 50 steps of 1,000, ms", 5.0),
    "history_50_states_ms": ("last 50 steps with their states, ms", 15.0),
    "fork_ms": ("fork in the middle of 1,000 steps, ms", 2.0),
    "rewrap_20000_s": ("20,000 keys under a new key-encryption key, s", 5.0),
}
AT_LEAST = {"writers_16_ratio"}
VARIANTS = {
    "langgraph": "plain",
    "langgraph_encrypted": "encrypted",
    "langgraph_delta": "delta",
}
THEIRS = {  # their figure: ours beside it
    "put_1000_ms": "step_commit_ms",
    "bytes_total": "bytes_total",
    "get_1000_ms": "hydrate_1000_ms",
    "history_50_ms": "history_50_states_ms",
}

Figures = dict[str, Any]


def show(figures: Figures, *, as_json: bool) -> None:
    print(json.dumps(rounded(figures)) if as_json else _table(figures))


def rounded(value: Any) -> Any:
    """With four places, all the way down."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def is_met(name: str, value: float | None) -> bool | None:
    """Whether a figure is as good as we aim at; None where nothing is aimed at."""
    aim = FIGURES[name][1]
    if aim is None or value is None:
        return None
    return value >= aim if name in AT_LEAST else value <= aim


def _table(figures: Figures) -> str:
    lines = ["| figure | measured | aim | |", "|---|---:|---:|---|"]
    for name, (meaning, aim) in FIGURES.items():
        met = is_met(name, figures[name])
        verdict = "" if met is None else ("met" if met else "**missed**")
        lines.append(
            f"| {meaning} | {_number(figures[name])} | {_number(aim)} | {verdict} |"
        )
    lines += [
        "",
        "| at 1,000 steps | Holdpoint |"
        " LangGraph `PostgresSaver` | encrypted | DeltaChannel |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, ours in THEIRS.items():
        theirs = (_number((figures[variant] or {}).get(name)) for variant in VARIANTS)
        lines.append(f"| {name} | {_number(figures[ours])} | {' | '.join(theirs)} |")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
