"""What holds a sub-agent back: people, policies, depth, halts, and what it may cost."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from agents import prices
from agents.approvals import decide
from agents.errors import BadDeclaration
from agents.models import Price, Run, ToolCall
from agents.policies import stored
from agents.runs import control, runner, start
from agents.runs.ask_again import ask_again
from agents.runs.edits import ForkEdits
from agents.tools import Agent, Limits, Rule, agent_tool, registry
from agents.tools.registry import Registry
from checkpoints.access import Role, UserPrincipal
from checkpoints.models import Branch, Checkpoint
from tests.conftest import as_owner
from tests.workers.conftest import kinds, pending
from tests.workers.desk.agents import planner, researcher

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

TASK = "What does the night train cost?"
ASKS_FIRST = [agent_tool(researcher.name, name="research", approve=Rule("outside"))]


@pytest.fixture
def admin(join) -> UserPrincipal:
    return join("ada", Role.ADMIN, can_approve=True)


@pytest.fixture
def delegate(server, alice) -> Callable[[], Run]:
    """Starts a run whose first call gives the researcher a task, and takes it there."""

    def delegate() -> Run:
        server.will_call("c1", "research", task=TASK)
        run = start.start_run(agent=planner.name, by=alice, message="Plan a trip.")
        step(run)
        return run

    return delegate


def step(run: Run) -> None:
    """What one worker does with one run."""
    runner.work(run.pk)
    run.refresh_from_db()


def children(run: Run) -> list[Run]:
    return list(Run.objects.filter(parent=run).order_by("created_at"))


def told(server: Any) -> Any:
    """What the model was last told of a call."""
    return server.requests[-1]["messages"][-1]["content"]


def decided(run: Run, by: UserPrincipal, how: str) -> None:
    [asked] = pending(run)
    if how == "approve":
        decide.approve(asked, seen=asked.as_shown(), by=by)
    else:
        decide.reject(asked, seen=asked.as_shown(), by=by, reason="Not outside.")


# People


@pytest.mark.parametrize("by", ["tool", "policy"])
def test_who_is_asked_about_the_call_is_asked_before_the_child_starts(
    delegate, server, deploy, admin, work, by
):
    if by == "tool":
        deploy(planner, tools=ASKS_FIRST)
    else:
        rule = {"id": "r1", "name": "asks", "tools": "research", "outcome": "require"}
        with as_owner():
            stored.save(admin, None, [rule], "", after_version=0)
    run = delegate()
    assert run.status == "waiting"
    assert children(run) == []
    decided(run, admin, "approve")
    step(run)
    [child] = children(run)
    assert (run.status, child.status) == ("waiting", "ready")
    server.will_say("49 euros.")
    server.will_say("Take the train.")
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert told(server) == "49 euros."
    assert len(children(run)) == 1


def test_a_call_that_a_person_rejects_starts_none(delegate, server, deploy, admin):
    deploy(planner, tools=ASKS_FIRST)
    run = delegate()
    decided(run, admin, "reject")
    server.will_say("Then not.")
    step(run)
    assert run.status == "succeeded"
    assert "Not outside." in told(server)
    assert children(run) == []


def test_a_fork_that_does_the_call_anew_asks_and_has_a_child_of_its_own(
    delegate, server, alice, admin, work
):
    run = delegate()
    [child] = children(run)
    server.will_say("49 euros.")
    server.will_say("Take the train.")
    work()
    first = Checkpoint.objects.get(branch=run.branch_id, step=0)
    server.reset()
    server.will_call("c1", "research", task=TASK)
    branch = start.fork_run(
        first, edits=ForkEdits(), name="anew", by=alice, calls=Branch.Calls.LIVE
    )
    work()
    forked = Run.objects.get(branch=branch)
    assert forked.status == "waiting"
    assert Run.objects.filter(parent=forked).count() == 0
    decided(forked, admin, "approve")
    server.will_say("59 euros.")
    server.will_say("Take the bus.")
    work()
    [own] = children(forked)
    assert (own.thread_id == child.thread_id, own.status) == (False, "succeeded")
    assert told(server) == "59 euros."
    assert children(run) == [child]
    assert kinds(child) == ["input", "model"]


def test_to_ask_the_model_again_for_the_call_starts_none(delegate, server, alice, work):
    run = delegate()
    [child] = children(run)
    server.will_say("49 euros.")
    server.will_say("Take the train.")
    work()
    server.reset()
    server.will_call("c1", "research", task="Another?")
    server.will_call("c1", "research", task="A third?")
    asked = Checkpoint.objects.select_related(
        "thread", "branch", "parent__branch", "parent__thread"
    ).get(branch=run.branch_id, step=1)
    branches = ask_again(asked, times=2, by=alice, request_key=uuid4())
    work()
    answers = Run.objects.filter(branch__in=branches)
    assert [answer.status for answer in answers] == ["succeeded"] * 2
    assert list(Run.objects.exclude(parent=None)) == [child]


# Depth and circles


def test_at_most_five_agents_wait_for_one_another(server, alice, work, monkeypatch):
    line = [f"deep-{n}" for n in range(1, 7)]
    for n, name in enumerate(line):
        below = [agent_tool(line[n + 1], name="down")] if n < 5 else []
        agent = Agent(name, model="scripted", system="Deep.", tools=below)
        monkeypatch.setitem(registry._agents, name, agent)
    for depth in range(5):
        server.will_call(f"d{depth}", "down", task=f"Go down to {depth + 2}.")
    for depth in range(5, 0, -1):
        server.will_say(f"{depth} is up.")
    run = start.start_run(agent=line[0], message="How deep?", by=alice)
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert told(server) == "2 is up."
    runs = Run.objects.order_by("created_at")
    assert [each.agent_version.agent.name for each in runs] == line[:5]
    call = ToolCall.objects.get(run=runs[4])
    assert (call.status, call.error_class) == ("failed", "sub_agent_refused")
    [said] = [
        each["messages"][-1]["content"]
        for each in server.requests
        if "Not started" in str(each["messages"][-1]["content"])
    ]
    assert f"{' → '.join(line)} is 6 agents deep, and 5 may" in said


@pytest.mark.parametrize("line", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_circles_are_refused_where_they_are_registered_with_their_path(line):
    agents = Registry()
    below = [*line[1:], line[0]]
    declared = [
        Agent(name, model="m", system="", tools=[agent_tool(to)])
        for name, to in zip(line, below, strict=True)
    ]
    for agent in declared[:-1]:
        agents.register(agent)
    path = " → ".join([line[-1], *line])
    with pytest.raises(BadDeclaration, match=path):
        agents.register(declared[-1])


# Halts


def test_a_halted_workspace_holds_caller_and_child_and_loses_neither(
    delegate, server, admin, work
):
    run = delegate()
    [child] = children(run)
    assert control.halt(admin.workspace_id, by=admin)
    work()
    child.refresh_from_db()
    run.refresh_from_db()
    assert (run.status, child.status) == ("waiting", "ready")
    assert len(server.requests) == 1
    assert control.lift(admin.workspace_id, by=admin)
    server.will_say("49 euros.")
    step(child)
    assert control.halt(admin.workspace_id, by=admin)
    work()  # the caller was woken, and is held
    run.refresh_from_db()
    assert run.status == "ready"
    assert control.lift(admin.workspace_id, by=admin)
    server.will_say("Take the train.")
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert told(server) == "49 euros."
    assert children(run) == [child]


# Dollars


@pytest.fixture
def priced() -> Any:
    """Every token of the scripted model costs a hundredth of a cent."""
    prices.forget()
    with as_owner():
        Price.objects.create(
            model="scripted", since="2026-01-01", fresh=100, cached=100, output=100
        )
    yield
    prices.forget()


def test_children_share_what_is_left_of_the_callers_dollars(
    server, alice, deploy, priced
):
    deploy(planner, limits=Limits(max_cost=Decimal("0.5")))
    both = [(f"c{n}", "research", {"task": f"{TASK} {n}"}) for n in (1, 2)]
    server.will_call_all(*both)
    run = start.start_run(agent=planner.name, by=alice, message="Plan a trip.")
    step(run)
    assert run.cost
    share = (Decimal("0.5") - run.cost) / 2
    for child in children(run):
        assert child.max_cost is not None
        assert abs(child.max_cost - share) < Decimal("0.00001")
        assert child.max_cost <= share


def test_a_child_stops_at_its_share_and_what_it_cost_is_the_callers_too(
    delegate, server, deploy, priced, work
):
    deploy(planner, limits=Limits(max_cost=Decimal("0.5")))
    run = delegate()
    [child] = children(run)
    assert child.max_cost is not None
    server.will_call("w", "look", what="prices")
    server.will_say("Never said.")
    Run.objects.filter(pk=child.pk).update(cost=child.max_cost)
    step(child)
    assert (child.status, child.error_class) == ("failed", "too_expensive")
    # So the caller's own is used up, too: it is not asked what to do next.
    asked = len(server.requests)
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "too_expensive")
    assert len(server.requests) == asked
