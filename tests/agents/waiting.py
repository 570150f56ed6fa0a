"""Runs that wait for a decision, made through the services but without a worker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import uuid4

from django.db import connection, transaction
from pydantic import BaseModel, Field

from agents.approvals.ask import Request, ask
from agents.approvals.guards import Look
from agents.errors import AgentsError
from agents.models import Approval, Run, ToolCall
from agents.pure.calls import call_key
from agents.pure.digest import arguments_digest
from agents.pure.terms import Demand, Terms
from agents.runs.looks import look
from agents.tools import (
    Agent,
    Changed,
    Found,
    IdempotencyKey,
    Invalid,
    Preview,
    Rule,
    Seen,
    Unchanged,
    register,
    registry,
    tool,
)
from agents.tools import ask as question
from agents.tools.versions import agent_version
from checkpoints import gate
from checkpoints.access import Reason, RunPrincipal, UserPrincipal, unscoped
from checkpoints.ids import uuid7
from checkpoints.keys.hierarchy import thread_keys
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.models import Branch, Grant
from checkpoints.pure import ops


@tool(
    effect="external",
    idempotent=True,
    risk="high",
    title="Book {flight}, {price}",
    approve=Rule("dear", when={"path": "/price", "op": "gt", "value": "1000"}),
)
def book(flight: str, price: Decimal, seats: int = 1, *, key: IdempotencyKey) -> str:
    """Book a flight."""
    return f"{flight} booked under {key}"


@tool(effect="external", title="Send to {to}")
def send(to: str, fields: dict[str, Any]) -> str:
    """Send these fields."""
    return f"sent to {to}"


@question(title="{question}")
def ask_traveller(question: str, options: list[str] | None = None) -> None:
    """Ask the traveller."""


class Seat(BaseModel):
    """Where somebody sits."""

    row: Annotated[int, Field(ge=1, le=40)]
    letter: Literal["A", "C", "D"]
    from_day: Annotated[date | None, Field(description="The first day <b>")] = None
    surcharge: Decimal = Decimal("12.50")
    wishes: list[str] = []


@question(title="Which seat on {flight}?", response=Seat)
def ask_seat(flight: str) -> None:
    """Ask which seat."""


COSTS: dict[str, Any] = {}  # what becomes of a booth that costs something else by now


def _costs_now(what: str, price: Decimal, *, seen: Seen) -> Found:
    now = COSTS.get(what, str(price))
    if now == "gone":
        return Invalid(f"{what} is <b>sold</b> out")
    if now == "unknown":
        raise LookupError(what)
    values = {"price": now, "place": COSTS.get("place", "hall 3")}
    if Decimal(now) == price:
        return Unchanged(values)
    old = seen or {**values, "price": str(price)}
    text = f"{what} was {price}, is {now}."
    return Changed(old, values, text, arguments={"price": now})


def _letter(what: str, price: Decimal) -> Preview:
    return Preview.email(
        to="fair@example.org",
        subject=COSTS.get("subject", f"{what} <b>"),
        body=f"We take it for {price}.{COSTS.get('postscript', '')}",
    )


@tool(
    effect="external",
    title="Rent {what}, {price}",
    approve=Rule("rent"),
    guard=_costs_now,
    tolerance={"/price": "2%"},
    preview=_letter,
    reversible="for 24 hours",
)
def rent(what: str, price: Decimal) -> str:
    """Rent something at a fair."""
    return f"{what} is ours"


def _poster(text: str) -> Preview:
    return Preview.diff(COSTS.get("poster", "poster.txt"), "", f"{text} <b>")


@tool(effect="external", title="Announce {text}", preview=_poster)
def announce(text: str) -> str:
    """Put it up at the fair."""
    return f"“{text}” is up"


DESK = Agent(
    "waiting-desk",
    model="m",
    system="Book.",
    tools=[book, send, ask_traveller, ask_seat, rent, announce],
)
if "waiting-desk" not in registry:
    register(DESK)

GOOD: dict[str, Any] = {"flight": "TP 209", "price": "1200.00"}


def make_run(branch: Branch, owner: UserPrincipal) -> Run:
    """A run of the desk that waits. It may be asked for on this branch only once."""
    grant = Grant.objects.create(
        workspace_id=branch.workspace_id,
        thread_id=branch.thread_id,
        user_id=owner.user_id,
    )
    return Run.objects.create(
        workspace_id=branch.workspace_id,
        thread_id=branch.thread_id,
        branch=branch,
        agent_version=agent_version(branch.workspace, DESK),
        grant=grant,
        started_by_id=owner.user_id,
        status=Run.Status.WAITING,
    )


def make_calls(run: Run, *calls: tuple[str, dict[str, Any]]) -> list[ToolCall]:
    """A reply of the model with these calls, and their rows."""
    branch = Branch.objects.unscoped(Reason.TEST).get(pk=run.branch_id)
    reply = uuid7()
    message = {"id": str(reply), "role": "assistant", "content": "Shall I?"}
    with transaction.atomic():
        commit(
            writer(branch),
            NewStep(
                kind="model",
                ops=[ops.append("/messages", message)],
                label="Shall I?",
                id=reply,
            ),
        )
        return [
            _row(run, reply, number, name, arguments)
            for number, (name, arguments) in enumerate(calls)
        ]


def _row(
    run: Run, reply: Any, number: int, name: str, arguments: dict[str, Any]
) -> ToolCall:
    declared = DESK.tool(name)
    row = ToolCall(
        id=call_key(reply, number),
        workspace_id=run.workspace_id,
        thread_id=run.thread_id,
        branch_id=run.branch_id,
        run=run,
        reply_id=reply,
        ordinal=number,
        tool=name,
        tool_version=declared.version,
        effect=declared.effect,
        arguments_digest=arguments_digest(
            thread_keys(run.thread_id).mac,
            tool=name,
            version=declared.version,
            arguments=arguments,
        ),
    )
    row.title = gate.seal(row, "title", declared.title(arguments))
    row.arguments = gate.seal(row, "arguments", arguments)
    row.save(force_insert=True)
    return row


def make_waiting(
    branch: Branch,
    owner: UserPrincipal,
    *calls: tuple[str, dict[str, Any]],
    terms: Terms | None = None,
    risk: str = "",
) -> list[Approval]:
    """A run that asked about these calls (one booking, when none is given).

    On these terms, by a rule that is called "dear".
    """
    asked = calls or (("book", GOOD),)
    run = make_run(branch, owner)
    rows = make_calls(run, *asked)
    demand = Demand(terms, "dear", risk=risk) if terms else None
    requests = [
        Request(
            row, DESK.tool(name), arguments, demand, look=_looked(row, name, arguments)
        )
        for row, (name, arguments) in zip(rows, asked, strict=True)
    ]
    return ask(run, requests)


def at_once(*deeds: Callable[[], object]) -> list[object]:
    """Results of deeds that begin at the same moment, each in a thread; or what of
    ours it met."""
    gun = threading.Barrier(len(deeds), timeout=30)

    def do(deed: Callable[[], object]) -> object:
        try:
            with unscoped(Reason.TEST):
                connection.ensure_connection()
                gun.wait()
                return deed()
        except AgentsError as met:
            return met
        finally:
            connection.close()

    with ThreadPoolExecutor(len(deeds)) as pool:
        return list(pool.map(do, deeds))


def state_of(approval: Approval) -> tuple[str, str, str]:
    """Status of request, call and run."""
    now = Approval.objects.select_related("call", "run").get(pk=approval.pk)
    return now.status, now.call.status, now.run.status


def _looked(row: ToolCall, name: str, arguments: dict[str, Any]) -> Look | None:
    """As a worker looks before it asks."""
    declared = DESK.tool(name)
    if declared.guard is None and declared.preview is None:
        return None
    return look(declared, arguments, call=row.pk)


def opener_for(run: Run) -> gate.Pass:
    """What the run's worker opens records with."""
    principal = RunPrincipal(run.pk, run.workspace_id, run.thread_id, run.grant_id)
    return gate.admit(principal, purpose=f"test {uuid4()}", threads=[run.thread])
