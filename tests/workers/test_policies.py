"""Policies of a workspace at work: which calls go ahead, wait, are refused, or end a run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from agents.approvals import decide
from agents.models import Agent, Approval, Policy, PolicyUse, Run, ToolCall
from agents.policies import stored
from agents.policies.judge import Judge
from agents.pure.terms import Terms
from agents.runs import runner, start
from agents.runs.edits import ForkEdits
from agents.tools import Agent as Declared
from agents.tools import register, tool
from checkpoints.access import Role, UserPrincipal
from checkpoints.models import AuditEvent, Checkpoint
from tests.agents.waiting import book as book_of_the_desk
from tests.agents.waiting import make_calls, make_run, opener_for
from tests.conftest import as_owner
from tests.workers.conftest import kinds, pending

pytestmark = pytest.mark.django_db(transaction=True)

LARGE = {"path": "/price", "op": "gt", "value": 500}


@pytest.fixture
def admin(join) -> UserPrincipal:
    return join("ada", Role.ADMIN, can_approve=True)


@pytest.fixture
def policy(admin) -> Callable[..., Policy]:
    """Saves a policy, of one agent or of all."""

    def policy(*rules: dict[str, Any], agent: Agent | None = None) -> Policy:
        with as_owner():
            known = stored.history(admin, agent)
            version = known[0].version if known else 0
            numbered = [
                {"id": f"r{n}", "name": f"rule {n}", **rule}
                for n, rule in enumerate(rules, start=1)
            ]
            return stored.save(admin, agent, numbered, "", after_version=version)

    return policy


def said(action: str) -> list[dict[str, Any]]:
    events = AuditEvent.objects.filter(action=action).order_by("position")
    return list(events.values_list("detail", flat=True))


def booked(server, price: str = "1200") -> None:
    server.will_call("c1", "book", item="TP 209", price=price)
    server.will_say("Done.")


def test_a_rule_lets_go_what_the_tool_would_ask_about(begin, work, server, policy):
    made = policy({"tools": "book", "outcome": "auto_approve"})
    booked(server)
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert len(server.ledger()) == 1
    assert not Approval.objects.exists()
    (told,) = said("auto_approve")
    assert told["policy"] == str(made.pk)
    assert (told["policy_version"], told["rule"], told["run"]) == (1, "r1", str(run.pk))


def test_a_rule_asks_about_what_the_tool_would_not(begin, work, server, policy, bob):
    terms = {"deadline": 3600, "grace": 0, "reauthenticate": True}
    made = policy(
        {"tools": "book", "when": LARGE, "outcome": "require", "terms": terms}
        | {"risk": "critical"}
    )
    booked(server, "700")
    run = begin()
    work()
    (asked,) = pending(run)
    assert (asked.rule, asked.policy_id, asked.risk) == ("rule 1", made.pk, "critical")
    assert Terms.of(asked.terms) == Terms(deadline=3600, reauthenticate=True)
    assert asked.due_at is not None
    assert server.ledger() == []


def test_a_policy_that_changed_changes_no_request_that_people_have(
    begin, work, server, policy, bob
):
    first = policy({"tools": "book", "outcome": "require"})
    booked(server)
    run = begin()
    work()
    (asked,) = pending(run)
    policy({"tools": "book", "outcome": "auto_reject"})
    decide.approve(asked, seen=asked.as_shown(), by=bob)
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert len(server.ledger()) == 1
    asked.refresh_from_db()
    assert (asked.policy_id, asked.revision) == (first.pk, 1)


def test_a_refusal_reaches_the_agent_in_the_rules_words(begin, work, server, policy):
    policy({"when": LARGE, "outcome": "auto_reject", "message": "Ask Ines for more."})
    booked(server)
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert server.ledger() == []
    assert server.requests[-1]["messages"][-1]["content"] == "Ask Ines for more."
    call = ToolCall.objects.get(run=run)
    assert (call.status, call.error_class) == ("failed", "rejected_by_policy")
    assert [event["rule"] for event in said("auto_reject")] == ["r1"]


def test_a_rule_ends_the_run(begin, work, server, policy):
    policy({"tools": "b??k", "outcome": "stop_run", "message": "Bookings are closed."})
    booked(server)
    run = begin()
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "stopped_by_policy")
    assert server.ledger() == []
    assert kinds(run)[-1] == "error"
    assert [event["rule"] for event in said("stop_run")] == ["r1"]


def test_what_is_escalated_is_asked_a_step_further(begin, work, server, policy):
    steps = [{"after": 60, "priority": 4}, {"after": 600, "priority": 8}]
    policy({"outcome": "escalate", "terms": {"escalation": steps}})
    booked(server)
    run = begin()
    work()
    (asked,) = pending(run)
    assert (asked.level, asked.priority) == (1, 4)
    assert asked.next_step_at is not None


def test_an_agents_own_policy_comes_before_everyones(begin, work, server, policy):
    booked(server)
    run = begin()
    policy({"outcome": "auto_reject"})
    own = policy(
        {"tools": "book", "outcome": "auto_approve"},
        agent=Agent.objects.get(name="test-desk"),
    )
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert len(server.ledger()) == 1
    assert [event["policy"] for event in said("auto_approve")] == [str(own.pk)]


def test_a_rule_may_speak_about_tools_that_change_nothing(begin, work, server, policy):
    policy({"tools": "look", "outcome": "auto_reject", "message": "Do not look."})
    server.will_call("c1", "look", what="LIS")
    server.will_say("Done.")
    begin()
    work()
    assert server.requests[-1]["messages"][-1]["content"] == "Do not look."


def test_a_question_is_always_asked(begin, work, server, policy):
    policy({"outcome": "auto_reject"})
    server.will_call("c1", "question", question="Aisle?")
    run = begin()
    work()
    (asked,) = pending(run)
    assert asked.kind == Approval.Kind.QUESTION


def test_what_is_saved_while_a_run_works_counts_for_its_next_effect(
    server, alice, policy
):
    meanwhile.append(lambda: policy({"outcome": "auto_reject", "message": "No more."}))
    server.will_call("c1", "dawdle")
    server.will_call("c2", "ship")
    server.will_say("Done.")
    run = start.start_run(agent="test-dawdles", message="Go.", by=alice)
    runner.work(run.pk)  # one claim
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert server.requests[-1]["messages"][-1]["content"] == "No more."
    assert shipped == []


meanwhile: list[Callable[[], object]] = []
shipped: list[str] = []


@tool(effect="read", title="Dawdle")
def dawdle() -> str:
    """Something happens in the meantime."""
    if meanwhile:
        meanwhile.pop()()
    return "hm"


@tool(effect="write", idempotent=True, title="Ship")
def ship() -> str:
    """Ship it."""
    shipped.append("it")
    return "shipped"


register(Declared("test-dawdles", model="scripted", system="Go.", tools=[dawdle, ship]))


# Forks


@pytest.fixture
def fork(begin, work, server, alice) -> Callable[[], Run]:
    """A fork, before its first call, of a run that booked for 700 unasked."""

    def fork() -> Run:
        booked(server, "700")
        run = begin()
        work()
        source = Checkpoint.objects.get(branch=run.branch_id, kind="input")
        edits = ForkEdits(system="Be brief.")
        booked(server, "700")
        branch = start.fork_run(source, edits=edits, name="", by=alice, calls="live")
        return Run.objects.get(branch=branch)

    return fork


@pytest.mark.parametrize(
    ("outcome", "asked", "refused"),
    [("auto_approve", 1, False), ("require", 1, False), ("auto_reject", 0, True)],
)
def test_on_a_fork_a_policy_may_be_stricter_and_not_laxer(
    fork, work, server, policy, outcome, asked, refused
):
    run = fork()
    policy({"outcome": outcome, "terms": {"approvers": 2}})
    work()
    waiting = pending(run)
    assert len(waiting) == asked
    assert len(server.ledger()) == 1  # of the source
    for approval in waiting:
        assert approval.approvers == (2 if outcome == "require" else 1)
        assert approval.rule != "rule 1" or outcome == "require"
    assert not said("auto_approve")
    failed = ToolCall.objects.filter(run=run, error_class="rejected_by_policy")
    assert failed.exists() is refused


# Counts and sums

BUDGET = {
    "tools": "book",
    "when": {"sum": "/price", "over_hours": 24, "op": "gt", "value": 5000},
    "outcome": "require",
}
REST = {"tools": "book", "outcome": "auto_approve"}


@pytest.fixture
def calls(
    make_thread, alice
) -> Callable[..., list[tuple[Judge, ToolCall, dict[str, Any]]]]:
    """Calls for so much each, of runs of their own, and who judges each."""

    def calls(*prices: Any) -> list[tuple[Judge, ToolCall, dict[str, Any]]]:
        found = []
        for price in prices:
            run = make_run(make_thread(owner=alice), alice)
            arguments = {"flight": "TP 209", "price": price}
            (row,) = make_calls(run, ("book", arguments))
            rules = stored.in_force(run.workspace_id, run.agent_version.agent_id)
            found.append((Judge(run, rules, opener_for(run)), row, arguments))
        return found

    return calls


def judged(judge: Judge, row: ToolCall, arguments: dict[str, Any]) -> str:
    return judge.judge(row, book_of_the_desk, arguments).kind


def altered(change: str, *values: Any) -> None:
    """As only the owner of the table can."""
    table = PolicyUse._meta.db_table
    with as_owner(), connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        cursor.execute(f"UPDATE {table} SET {change}", values)  # noqa: S608
        cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER ALL")


def test_of_twenty_calls_at_once_no_more_pass_unasked_than_the_budget_has_room_for(
    calls, policy
):
    policy(BUDGET, REST)
    many = calls(*["1000.00"] * 20)
    together = Barrier(len(many))

    def one(each: tuple[Judge, ToolCall, dict[str, Any]]) -> str:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            together.wait(timeout=60)
            return judged(*each)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(many)) as pool:
        found = list(pool.map(one, many))
    assert sorted(found) == ["auto_approve"] * 5 + ["require"] * 15
    assert PolicyUse.objects.count() == 5
    assert len(said("auto_approve")) == 5


def test_a_call_that_is_judged_again_is_counted_once(calls, policy):
    policy(BUDGET, REST)
    first, second, third = calls("3000", "2000", "0.01")
    assert judged(*first) == judged(*second) == "auto_approve"
    assert judged(*third) == "require"
    # A worker died before it ran: it was let go, and is.
    assert judged(*first) == judged(*second) == "auto_approve"
    assert PolicyUse.objects.count() == 2


@pytest.mark.parametrize("price", ["-1000", "NaN", None, "1e500"])
def test_no_amount_makes_room_or_slips_past(calls, policy, price):
    policy(BUDGET, REST)
    (one,) = calls(price)
    assert judged(*one) == "require"
    assert not PolicyUse.objects.exists()


def test_a_window_forgets_what_is_older(calls, policy):
    policy(BUDGET, REST)
    first, second = calls("5000", "5000")
    assert judged(*first) == "auto_approve"
    assert judged(*second) == "require"
    altered("at = at - interval '24 hours 1 second' WHERE TRUE")
    assert judged(*second) == "auto_approve"


def test_a_sum_opens_the_first_and_the_last_however_many_lie_between(calls, policy):
    policy(BUDGET, REST)
    many = calls(*["100.10"] * 12, "3798.80", "3798.81")
    *few, fits, _ = many
    for each in few:
        assert judged(*each) == "auto_approve"
    between = [each[1].pk for each in few[1:-1]]
    altered(
        "amount = 'no record', total = 'no record' WHERE call_id = ANY(%s)", between
    )
    assert judged(*many[-1]) == "require"  # a cent too much
    assert judged(*fits) == "auto_approve"


def test_what_leaves_a_window_leaves_its_sum(calls, policy):
    policy(BUDGET, REST)
    old, new, more, last = calls("3000", "2000", "3000", "0.01")
    assert judged(*old) == judged(*new) == "auto_approve"
    assert judged(*more) == "require"
    altered("at = at - interval '25 hours' WHERE call_id = %s", old[1].pk)
    assert judged(*more) == "auto_approve"
    assert judged(*last) == "require"


def test_uses_from_before_there_were_totals_count_as_they_did(calls, policy):
    policy(BUDGET, REST)
    first, second, third, fourth, last = calls("1000", "1000", "1000", "2000", "0.01")
    assert judged(*first) == judged(*second) == "auto_approve"
    altered("total = NULL WHERE TRUE")
    # As a worker of the version before writes it, among others that keep totals.
    assert judged(*third) == "auto_approve"
    altered("total = NULL WHERE call_id = %s", third[1].pk)
    assert judged(*fourth) == "auto_approve"
    assert judged(*last) == "require"


def test_a_clock_that_went_back_mixes_no_sum_up(calls, policy):
    policy(BUDGET, REST)
    first, second, third, last = calls("1000", "2000", "2000", "0.01")
    assert judged(*first) == "auto_approve"
    altered("at = at + interval '1 hour' WHERE TRUE")
    assert judged(*second) == judged(*third) == "auto_approve"
    assert judged(*last) == "require"
    assert PolicyUse.objects.values("at").distinct().count() == 3


def test_a_new_version_of_a_policy_goes_on_counting(calls, policy):
    policy(BUDGET, REST)
    first, second = calls("4000", "2000")
    assert judged(*first) == "auto_approve"
    policy(BUDGET, {**REST, "message": "changed"})
    assert judged(*second) == "require"


def test_what_an_earlier_rule_lets_go_is_summed_too(calls, policy):
    small = {"path": "/price", "op": "lte", "value": 1000}
    policy({"when": small, "outcome": "auto_approve"}, BUDGET, REST)
    *few, last = calls(*["1000"] * 5, "1001")
    assert {judged(*each) for each in few} == {"auto_approve"}
    assert judged(*last) == "require"


def test_calls_are_counted_over_the_hours_across_agents_and_threads(calls, policy):
    busy = {"count": True, "over_hours": 1, "op": "gt", "value": 2}
    policy({"when": busy, "outcome": "auto_reject"}, REST)
    assert [judged(*each) for each in calls("1", "1", "1")] == [
        "auto_approve",
        "auto_approve",
        "auto_reject",
    ]


def test_an_amount_is_sealed(calls, policy):
    policy(BUDGET, REST)
    (one,) = calls("1234.56")
    judged(*one)
    use = PolicyUse.objects.get()
    assert use.amount is not None
    assert b"1234" not in bytes(use.amount)
    assert use.total is not None
    assert b"1234" not in bytes(use.total)
    assert "price" not in use.window


# What it costs


def statements(run: Run) -> int:
    with CaptureQueriesContext(connection) as seen:
        runner.work(run.pk)
    return len(seen)


def test_without_a_policy_a_step_that_changes_nothing_asks_no_more_of_the_database(
    begin, server, policy, admin
):
    """One call or five: each more costs what it costs where no policy could be."""

    def looks(count: int) -> Run:
        for number in range(count):
            server.will_call(f"c{number}", "look", what=f"{number}")
        server.will_say("Done.")
        return begin()

    statements(looks(2))  # keys are known from here on
    with CaptureQueriesContext(connection) as seen:
        runner.work(looks(5).pk)
    assert not [q["sql"] for q in seen if "agents_policy" in q["sql"]][1:]  # the claim
    assert not [q for q in seen if "stickyrule" in q["sql"]]
