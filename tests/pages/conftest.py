"""Signed-in browsers, and a trip whose steps are there to be looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.models import Agent, AgentVersion, Approval, Run, ToolCall
from agents.pure.calls import call_key
from checkpoints import gate
from checkpoints.access import Reason, UserPrincipal
from checkpoints.ids import uuid7
from checkpoints.log.append import NewStep, StepMeta, commit, writer
from checkpoints.log.threads import fork
from checkpoints.models import Branch, Checkpoint, Grant
from checkpoints.pure import ops
from tests.conftest import as_owner

SYSTEM = "You plan trips.\nQuote every fare once.\nWrite short messages."
ASKED = "Lisbon to New York on 30 November, for Helen Marsh"
STATE = {
    "_schema": 1,
    "messages": [{"id": "m1", "role": "user", "content": ASKED}],
    "params": {"model": "scripted", "system": SYSTEM, "temperature": 0, "seed": 7},
    "goal": ASKED,
    "plan": [],
    "facts": {},
}

Browser = Callable[[UserPrincipal], Client]


@pytest.fixture
def browser() -> Browser:
    """A browser that this person has signed in with."""

    def browser(person: UserPrincipal) -> Client:
        client = Client()
        with as_owner():
            client.force_login(User.objects.get(pk=person.user_id))
        return client

    return browser


@dataclass
class Trip:
    """A trip that was looked up and quoted; its booking waits for a decision.

    main   0 input  1 model  2 tool quote_fare  3 model  4 interrupt
    cheap     from 2: 3 edit  4 model  5 failed
    """

    branch: Branch
    run: Run
    calls: dict[str, ToolCall]
    approval: Approval
    cheap: Branch
    made: dict[tuple[str, int], UUID] = field(default_factory=dict)

    @property
    def thread(self) -> Any:
        return self.branch.thread

    def at(self, step: int, branch: str = "main") -> UUID:
        """The checkpoint of a step."""
        line = self.branch if branch == "main" else self.cheap
        return Checkpoint.objects.unscoped(Reason.TEST).get(branch=line, step=step).pk

    def page(self, step: int | None = None, branch: str = "main") -> str:
        page = f"/threads/{self.thread.pk}/"
        return page if step is None else f"{page}at/{self.at(step, branch)}/"

    def parts(self, step: int | None = None, branch: str = "main") -> str:
        return f"/f{self.page(step, branch)}"


def append(branch: Branch, *steps: NewStep) -> Branch:
    """Take these steps on the branch, and look at it anew."""
    holder = writer(branch)
    for step in steps:
        holder = commit(holder, step)
    return (
        Branch.objects.unscoped(Reason.TEST).select_related("thread").get(pk=branch.pk)
    )


def reply(text: str = "", *calls: tuple[str, str], **meta: Any) -> NewStep:
    """A model's step: what it said, or the (tool, arguments) that it called."""
    made = uuid7()
    message: dict[str, Any] = {"id": str(made), "role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{n}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for n, (name, arguments) in enumerate(calls)
        ]
    return NewStep(
        kind="model",
        id=made,
        ops=[ops.append("/messages", message)],
        label=text or ", ".join(name for name, _ in calls),
        meta=StepMeta(
            model_requested="scripted",
            model_returned="scripted-1",
            temperature=0,
            seed=7,
            tokens_in=1200,
            tokens_out=80,
            cost=Decimal("0.002"),
            latency_ms=1100,
            **meta,
        ),
        context={
            "request": {
                "policy": "everything",
                "system": True,
                "messages": ["m1"],
                "tools": ["quote_fare", "book_flight"],
                "params": {"model": "scripted", "temperature": 0, "seed": 7},
            },
            "attempts": [],
            "left_out": [],
            "finish_reason": "stop",
        },
    )


def result(name: str, content: str, *more: ops.Op, label: str = "") -> NewStep:
    """A tool's step."""
    made = uuid7()
    message = {
        "id": str(made),
        "role": "tool",
        "tool_call_id": "call_0",
        "ordinal": 0,
        "name": name,
        "content": content,
    }
    return NewStep(
        kind="tool",
        id=made,
        ops=[*more, ops.append("/messages", message)],
        label=label or name,
        meta=StepMeta(name=name, latency_ms=210),
    )


@pytest.fixture
def make_trip(make_thread, workspace):
    """Makes a trip for its owner: make_trip(alice, title="…")."""

    def make(
        owner: UserPrincipal, *, title: str = "Board week New York", **more: Any
    ) -> Trip:
        branch = make_thread(
            owner=owner,
            title=title,
            state=STATE,
            label=f"{owner.name}: {ASKED}",
            actor_id=owner.user_id,
            **more,
        )
        agent, _ = Agent.objects.unscoped(Reason.TEST).get_or_create(
            workspace=branch.thread.workspace, name="trip-planner"
        )
        version = AgentVersion.objects.unscoped(Reason.TEST).filter(agent=agent).first()
        if version is None:
            version = AgentVersion(
                workspace=branch.thread.workspace, agent=agent, number=1, digest=b"1"
            )
            version.spec = gate.seal(version, "spec", {})
            version.save()
        grant = Grant.objects.create(
            workspace=branch.thread.workspace,
            thread=branch.thread,
            user_id=owner.user_id,
        )
        run = Run.objects.create(
            workspace=branch.thread.workspace,
            thread=branch.thread,
            branch=branch,
            agent_version=version,
            grant=grant,
            started_by_id=owner.user_id,
            status=Run.Status.WAITING,
        )
        quote = reply("", ("quote_fare", '{"flight": "TP 209"}'), run=run.pk)
        quoted = result(
            "quote_fare",
            '{"fare": "1200.00"}',
            ops.put("/facts", "fare", "1200.00"),
            label="Quote TP 209",
        )
        book = reply("", ("book_flight", '{"flight": "TP 209"}'), run=run.pk)
        ask = NewStep(
            kind="interrupt",
            ops=[],
            label="Book TP 209",
            meta=StepMeta(status="waiting", run=run.pk),
        )
        branch = append(branch, quote, quoted, book, ask)
        calls = {
            "quote": _call(run, branch, quote.id, "quote_fare", "Quote TP 209", "read"),
            "book": _call(
                run, branch, book.id, "book_flight", "Book TP 209", "external"
            ),
        }
        ToolCall.objects.unscoped(Reason.TEST).filter(pk=calls["quote"].pk).update(
            status="succeeded", result_checkpoint_id=quoted.id
        )
        approval = Approval.objects.create(
            number=7001 + Approval.objects.unscoped(Reason.TEST).count(),
            workspace=branch.thread.workspace,
            thread=branch.thread,
            branch=branch,
            run=run,
            call=calls["book"],
            checkpoint_id=book.id,
            rule="book_flight over $1,000",
            allowed=["approve", "edit", "reject"],
            digest=b"d" * 32,
        )
        source = Checkpoint.objects.unscoped(Reason.TEST).get(pk=quoted.id)
        cheap = fork(
            source,
            name="cheaper-model",
            by_id=owner.user_id,
            ops=[ops.put("/params", "model", "scripted-mini")],
            label="Changed model",
        )
        failed = NewStep(
            kind="error",
            ops=[],
            label="The model server did not answer.",
            meta=StepMeta(status="failed", error_class="model_unreachable"),
        )
        cheap = append(cheap, reply("Cheaper it is."), failed)
        return Trip(branch, run, calls, approval, cheap)

    return make


def _call(
    run: Run, branch: Branch, reply_id: UUID, tool: str, title: str, effect: str
) -> ToolCall:
    call = ToolCall(
        id=call_key(reply_id, 0),
        workspace_id=run.workspace_id,
        thread_id=run.thread_id,
        branch=branch,
        run=run,
        reply_id=reply_id,
        ordinal=0,
        tool=tool,
        effect=effect,
        status=ToolCall.Status.WAITING,
        arguments_digest=b"x" * 32,
    )
    call.title = gate.seal(call, "title", title)
    call.arguments = gate.seal(call, "arguments", {"flight": "TP 209"})
    call.save(force_insert=True)
    return call


@pytest.fixture
def trip(make_trip, alice) -> Trip:
    return make_trip(alice)
