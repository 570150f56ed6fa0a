"""What the two sides took, as rows of a table: a value each, and the difference."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from agents.pages.compare.sides import Two
from agents.pages.text import cost, count, duration

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Measure:
    name: str
    a: str
    b: str
    difference: str = ""
    better: bool = False  # less of what costs: said in green as well as by its sign


def measures(two: Two) -> list[Measure]:
    a, b = two.a.totals, two.b.totals
    shared = f"; {two.shared} shared" if two.shared else ""
    agents = [_agent(side.run) for side in (two.a, two.b)]
    return [
        Measure(
            "Steps",
            str(two.a.steps),
            str(two.b.steps),
            signed(two.b.steps - two.a.steps) + shared,
        ),
        Measure("Cost", cost(a.cost), cost(b.cost), *_share(a.cost, b.cost)),
        Measure(
            "Tokens in / out",
            f"{count(a.tokens_in)} / {count(a.tokens_out)}",
            f"{count(b.tokens_in)} / {count(b.tokens_out)}",
            *_share(a.tokens, b.tokens),
        ),
        Measure(
            "Time at work",
            duration(a.work_ms),
            duration(b.work_ms),
            *_share(a.work_ms, b.work_ms),
        ),
        Measure("With waits", duration(a.wall), duration(b.wall)),
        Measure(
            "Approvals asked",
            str(a.approvals),
            str(b.approvals),
            signed(b.approvals - a.approvals),
        ),
        Measure("Model", *_beside(", ".join(a.models), ", ".join(b.models))),
        Measure("Agent", *_beside(*agents)),
    ]


def signed(difference: int) -> str:
    """ "+3", or with a minus (U+2212); "the same" for none."""
    if not difference:
        return "the same"
    return f"+{difference}" if difference > 0 else f"{MINUS}{-difference}"


def _share(a: Decimal | int | None, b: Decimal | int | None) -> tuple[str, bool]:
    """How much more or less B took, in percent of A's; and whether it took less."""
    if not a or b is None:
        return "", False
    percent = round(100 * (Decimal(b) - Decimal(a)) / Decimal(a))
    said = "the same" if not percent else f"{signed(percent)} %"
    return said, percent < 0


def _beside(a: str, b: str) -> tuple[str, str, str]:
    return a or "none", b or "none", "" if a == b else "changed"


def _agent(run: object) -> str:
    version = getattr(run, "agent_version", None)
    return str(version) if version else ""
