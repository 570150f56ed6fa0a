"""The clerk: the persona where it is offered invoices to read.

It reads some at a time and writes down the few that are wrong. What it knows is what the
conversation still has, and what the facts tell of the rest: nothing else says how far it
is, what is tolerated or which number closes its report.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from agents.demo.model import wire
from agents.demo.model.transcript import Talk

NEEDED = {"open_books", "read_invoice"}
AT_ONCE = 24  # invoices of one reply
YEAR = re.compile(r"\b20\d\d\b")
THIS_YEAR = 2026
REPORT = "Report"


@dataclass
class Desk:
    """What the clerk has before it."""

    books: dict[str, Any] | None
    plan: list[dict[str, Any]]
    noted: dict[str, Any]  # invoices that are wrong, by number
    read: dict[str, Decimal]  # billed less booked, by number; those still in sight

    @property
    def upto(self) -> int:
        """The last invoice that was read."""
        ends = self.books["quarters"] if self.books else {}
        done = [ends.get(step["step"][-2:], 0) for step in self.plan if _is_done(step)]
        return max([*(int(number[4:]) for number in self.read), *done], default=0)


def answer(talk: Talk) -> wire.Message:
    desk = _desk(talk)
    books = desk.books
    if books is None:
        if failed := talk.failures("open_books"):
            return wire.say(f"I can't begin: {failed[-1].text[:200]}")
        asked = YEAR.search(" ".join(talk.said))
        year = int(asked[0]) if asked else THIS_YEAR
        steps = [*(f"Read the invoices of {quarter}" for quarter in ("Q1", "Q2", "Q3"))]
        calls = [
            wire.call("update_plan", {"steps": _plan([*steps, REPORT], 0, {}, {})}),
            wire.call("open_books", {"year": year}),
        ]
        return wire.use(calls, "I'll open the books, then read every invoice.")
    tolerance, upto = Decimal(books["tolerance"]), desk.upto
    found = {
        number: {"over": str(over)}
        for number, over in desk.read.items()
        if abs(over) > tolerance and number not in desk.noted
    }
    noted = {**desk.noted, **found}
    names = [step["step"] for step in desk.plan]
    plan = _plan(names, upto, books["quarters"], noted)
    calls = [
        wire.call("remember_fact", {"name": number, "value": value})
        for number, value in found.items()
    ]
    is_news = sum(map(_is_done, plan)) > sum(map(_is_done, desk.plan))
    if is_news:
        calls.append(wire.call("update_plan", {"steps": plan}))
    after = range(upto + 1, min(upto + AT_ONCE, books["invoices"]) + 1)
    calls += [
        wire.call("read_invoice", {"number": f"INV-{place:04d}"}) for place in after
    ]
    if calls:
        return wire.use(calls, _words(found, plan if is_news else []))
    return wire.say(_report(books, noted))


def _desk(talk: Talk) -> Desk:
    """What the facts tell, and what came since."""
    desk = Desk(
        books=talk.facts.get("books"),
        plan=talk.plan,
        noted={k: v for k, v in talk.facts.items() if k.startswith("INV-")},
        read={},
    )
    for each in talk.exchanges:
        given = each.arguments
        if each.name == "open_books" and each.ok:
            desk.books = each.data
        elif each.name == "update_plan":
            desk.plan = given.get("steps") or []
        elif each.name == "remember_fact":
            desk.noted[str(given.get("name"))] = given.get("value")
        elif each.name == "read_invoice" and each.data is not None:
            billed, booked = Decimal(each.data["billed"]), Decimal(each.data["booked"])
            desk.read[each.data["invoice"]] = billed - booked
    return desk


def _plan(
    names: list[str], upto: int, quarters: dict[str, int], noted: dict[str, Any]
) -> list[dict[str, Any]]:
    steps, first = [], 1
    for name in names:
        last = quarters.get(name[-2:])
        if last is not None and last <= upto:
            wrong = sum(first <= int(number[4:]) <= last for number in noted)
            steps.append({"step": name, "status": "done", "result": f"{wrong} differ"})
            first = last + 1
        else:
            steps.append({"step": name, "status": "open", "result": ""})
    return steps


def _is_done(step: dict[str, Any]) -> bool:
    return step.get("status") == "done"


def _words(found: dict[str, Any], plan: list[dict[str, Any]]) -> str | None:
    said = [
        f"{number} differs by ${value['over'].lstrip('-')}."
        for number, value in found.items()
    ]
    if plan:
        last = [step for step in plan if _is_done(step)][-1]
        said.append(f"{last['step'][-2:]} is read: {last['result']}.")
    return " ".join(said) or None


def _report(books: dict[str, Any], noted: dict[str, Any]) -> str:
    lines = [
        f"{number} ({'+' if not value['over'].startswith('-') else ''}{value['over']})"
        for number, value in sorted(noted.items())
    ]
    return (
        f"All {books['invoices']} invoices of {books['year']} are read."
        f" {len(lines)} differ by more than the ${books['tolerance']} that are tolerated:"
        f" {', '.join(lines)}. Control number {books['control']}."
    )
