"""Runs that wait for a decision, made through the services but without a worker."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import uuid4

from django.db import transaction

from agents.approvals.ask import Request, ask
from agents.models import Approval, Run, ToolCall
from agents.pure.digest import arguments_digest
from agents.pure.engine import call_key
from agents.tools import Agent, IdempotencyKey, Rule, register, registry, tool
from agents.tools import ask as question
from agents.tools.versions import agent_version
from checkpoints import gate
from checkpoints.access import Reason, RunPrincipal, UserPrincipal
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


@question(title="{question}")
def ask_traveller(question: str) -> None:
    """Ask the traveller."""


DESK = Agent("waiting-desk", model="m", system="Book.", tools=[book, ask_traveller])
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
    branch: Branch, owner: UserPrincipal, *calls: tuple[str, dict[str, Any]]
) -> list[Approval]:
    """A run that asked about these calls (one booking, when none is given)."""
    asked = calls or (("book", GOOD),)
    run = make_run(branch, owner)
    rows = make_calls(run, *asked)
    requests = [
        Request(row, DESK.tool(name), arguments)
        for row, (name, arguments) in zip(rows, asked, strict=True)
    ]
    return ask(run, requests)


def opener_for(run: Run) -> gate.Pass:
    """What the run's worker opens records with."""
    principal = RunPrincipal(run.pk, run.workspace_id, run.thread_id, run.grant_id)
    return gate.admit(principal, purpose=f"test {uuid4()}", threads=[run.thread])
