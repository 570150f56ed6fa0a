"""A run that uses more than its agent may use stops, says why, and can go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from agents import prices
from agents.approvals import decide
from agents.errors import BadDeclaration
from agents.models import Price, Run
from agents.runs import start
from agents.tools import Agent, Limits
from tests.workers.conftest import kinds, pending

pytestmark = pytest.mark.django_db

RATES = {"fresh": Decimal(1), "cached": Decimal(1), "output": Decimal(1)}


@pytest.fixture
def run_of(server, alice) -> Callable[..., Run]:
    """Starts a run of one of the agents that have a limit."""

    def run_of(name: str, **more: Any) -> Run:
        return start.start_run(
            agent=f"test-{name}", message="Book it.", by=alice, **more
        )

    return run_of


@pytest.fixture
def prices_known_here() -> Iterator[None]:
    """What this process knows of prices is of this test only."""
    prices.forget()
    yield
    prices.forget()


def look(what: str) -> dict[str, Any]:
    call = {"name": "look", "arguments": f'{{"what": "{what}"}}'}
    return {"id": "c", "type": "function", "function": call}


def turn(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


@pytest.mark.parametrize(
    ("agent", "error_class"),
    [("few-steps", "too_many_steps"), ("few-tokens", "too_many_tokens")],
)
def test_a_run_stops_at_its_budget_and_a_retry_has_it_anew(
    run_of, work, server, alice, agent, error_class
):
    server.always(turn(look("it")))
    run = run_of(agent)
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", error_class)
    assert kinds(run)[-1] == "error"
    steps = run.steps
    server.reset()
    server.will_say("Enough looked at.")
    again = start.retry(run, by=alice)
    work()
    again.refresh_from_db()
    assert again.status == "succeeded"
    assert again.tokens > 0
    run.refresh_from_db()
    assert run.steps == steps  # what is over does not change


@pytest.mark.owner  # admins give prices
def test_a_run_stops_at_its_cost(run_of, work, server, prices_known_here):
    server.always(turn(look("it")))
    Price.objects.create(model="scripted", since="2026-01-01", **RATES)
    run = run_of("cheap")
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "too_expensive")
    assert run.cost is not None
    assert run.cost > Decimal("0.000001")
    assert run.unpriced == 0


def test_a_limit_in_dollars_is_not_passed_by_a_model_whose_price_nobody_knows(
    run_of, work, server
):
    server.always(turn(look("it")))
    run = run_of("cheap")
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "price_unknown")
    assert run.cost is None  # unknown, and not $0
    assert run.unpriced == 1


def test_a_run_stops_when_it_worked_for_too_long(run_of, work, server):
    server.will_call("c", "wait", seconds=5)
    run = run_of("quick")
    Run.objects.filter(pk=run.pk).update(worked=timedelta(seconds=56))
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "too_long")
    assert run.worked.total_seconds() > 60
    assert kinds(run) == ["input", "model", "tool", "error"]  # its result is kept


def test_waiting_for_people_is_no_work(run_of, work, server, bob):
    server.will_call("c", "book", item="hotel", price="2000")
    run = run_of("quick")
    work()
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    Run.objects.filter(pk=run.pk).update(created_at=long_ago, started_at=long_ago)
    approval = pending(run)[0]
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    server.will_say("Booked.")
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"


def test_people_need_not_say_no_for_ever(run_of, work, server, bob):
    for price in ("2000", "3000", "4000"):
        server.will_call("c", "book", item="hotel", price=price)
    run = run_of("humble")
    for _ in range(2):
        work()
        approval = pending(run)[0]
        decide.reject(approval, seen=approval.as_shown(), by=bob, reason="Too dear.")
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "too_many_rejections")
    assert server.pending == 1  # the model was not asked again


def test_a_yes_in_between_starts_the_count_anew(run_of, work, server, bob):
    for price in ("2000", "3000", "4000"):
        server.will_call("c", "book", item="hotel", price=price)
    server.will_say("Two were too dear.")
    run = run_of("humble")
    for verdict in ("no", "yes", "no"):
        work()
        approval = pending(run)[0]
        if verdict == "yes":
            decide.approve(approval, seen=approval.as_shown(), by=bob)
        else:
            decide.reject(approval, seen=approval.as_shown(), by=bob, reason="No.")
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"


def test_an_agent_that_goes_in_a_circle_is_stopped_before_the_last_call(
    run_of, work, server, alice
):
    server.always(turn(look("it")))
    run = run_of("circling")
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "repeats_itself")
    assert kinds(run).count("tool") == 2
    server.reset()
    server.will_say("It is fine.")
    start.send_message(run.branch, message="You know that by now.", by=alice)
    work()
    assert Run.objects.filter(thread=run.thread).latest("created_at").status == (
        "succeeded"
    )


def test_the_same_call_in_one_reply_is_a_circle_too(run_of, work, server):
    server.always(turn(look("it"), look("it"), look("it")))
    run = run_of("circling")
    work()
    run.refresh_from_db()
    assert run.error_class == "repeats_itself"


def test_other_arguments_and_other_people_s_words_are_no_circle(
    run_of, work, server, alice
):
    for what in ("a", "a", "b", "a", "a"):
        server.will_answer(turn(look(what)))
    server.will_say("All fine.")
    run = run_of("circling")
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    for _ in range(2):
        server.will_answer(turn(look("a")))
    server.will_say("Still fine.")
    start.send_message(run.branch, message="Look twice more.", by=alice)
    work()
    assert (
        not Run.objects.filter(thread=run.thread).exclude(status="succeeded").exists()
    )


@pytest.mark.parametrize(
    "limits",
    [{"max_steps": 0}, {"max_steps": True}, {"max_cost": 1.5}, {"max_repeats": 1}],
)
def test_a_limit_that_is_none_is_refused(limits):
    with pytest.raises(BadDeclaration, match=next(iter(limits))):
        Limits(**limits)


def test_a_limit_is_part_of_the_agent_s_version():
    plain = Agent("a", model="m", system="s").spec()
    dear = Agent("a", model="m", system="s", limits=Limits(max_cost=Decimal(2))).spec()
    assert plain["limits"]["max_cost"] is None
    assert dear["limits"]["max_cost"] == "2"
