"""The run of a fork: its own limit of cost, what people said later, several at once."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from uuid import uuid4

import pytest

from agents import prices
from agents.errors import InvalidEdit
from agents.models import Price, Run
from agents.runs import start
from agents.runs.edits import ForkEdits
from agents.runs.repeat import fork_runs
from agents.runs.source import open_source
from checkpoints.models import Branch, Checkpoint, ThreadInput
from tests.conftest import as_owner
from tests.workers.conftest import kinds

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def talked(begin, work, server, bob) -> Run:
    """Asked, answered; bob said two things more, and each was answered."""
    server.will_say("Hello.")
    run = begin("Book a hotel.")
    work()
    for said in ("A cheap one.", "Near the station."):
        server.will_say("As you wish.")
        start.send_message(run.branch, message=said, by=bob)
        work()
    return run


@pytest.fixture
def fork(talked, alice):
    def fork(**more) -> Run:
        branch = start.fork_run(
            Checkpoint.objects.get(branch=talked.branch, step=0),
            edits=ForkEdits(system="Be brief."),
            name="",
            by=alice,
            **more,
        )
        return Run.objects.get(branch=branch)

    return fork


@pytest.fixture
def prices_known_here() -> Iterator[None]:
    """What this process knows of prices is of this test only."""
    prices.forget()
    yield
    prices.forget()


def said(run: Run, history) -> list[str]:
    branch = Branch.objects.get(pk=run.branch_id)
    messages = history(branch).state_at(branch.head_step)["messages"]
    return [m["content"] for m in messages if m["role"] == "user"]


def test_what_people_said_later_is_said_again(
    talked, fork, work, server, history, alice
):
    server.will_say("All at once.")
    forked = fork(reapply=True)
    work()
    assert said(forked, history) == [
        "Book a hotel.",
        "A cheap one.",
        "Near the station.",
    ]
    inputs = ThreadInput.objects.filter(branch=forked.branch).order_by("position")
    assert {each.author_id for each in inputs} == {alice.user_id}
    assert len(inputs) == 2
    assert ThreadInput.objects.filter(branch=talked.branch).count() == 2


def test_without_being_asked_for_nothing_is_said_again(fork, work, server, history):
    server.will_say("Just that.")
    forked = fork()
    work()
    assert said(forked, history) == ["Book a hotel."]


def test_a_repeated_request_says_nothing_twice(talked, fork, server):
    key = uuid4()
    assert fork(reapply=True, request_key=key) == fork(reapply=True, request_key=key)
    assert ThreadInput.objects.exclude(branch=talked.branch).count() == 2


def test_a_forks_run_stops_at_its_own_cost(
    fork, work, server, prices_known_here, alice
):
    with as_owner():
        Price.objects.create(
            model="scripted", since="2026-01-01", fresh=1, cached=1, output=1
        )
    server.will_call("c1", "look", what="hotels")
    server.will_say("Found.")
    forked = fork(max_cost=Decimal("0.000001"))
    work()
    forked.refresh_from_db()
    assert (forked.status, forked.error_class) == ("failed", "too_expensive")
    assert kinds(forked)[-1] == "error"
    again = start.retry(forked, by=alice)
    assert again.max_cost == Decimal("0.000001")


def test_a_retry_may_have_a_higher_limit_and_goes_on(
    fork, work, server, prices_known_here, alice
):
    with as_owner():
        Price.objects.create(
            model="scripted", since="2026-01-01", fresh=1, cached=1, output=1
        )
    server.will_call("c1", "look", what="hotels")
    forked = fork(max_cost=Decimal("0.000001"))
    work()
    server.reset()
    server.will_say("Found.")
    again = start.retry(forked, by=alice, max_cost=Decimal(5))
    work()
    again.refresh_from_db()
    assert (again.status, again.max_cost) == ("succeeded", Decimal(5))


@pytest.mark.parametrize("given", [{"max_cost": Decimal(1)}, {"reapply": True}])
def test_what_is_for_a_run_needs_one(talked, alice, given):
    source = Checkpoint.objects.get(branch=talked.branch, step=0)
    with pytest.raises(InvalidEdit, match="Nothing runs yet"):
        start.fork_run(source, edits=ForkEdits(), name="", by=alice, run=False, **given)


def test_a_fork_is_made_several_times_and_never_more(talked, alice):
    source = Checkpoint.objects.get(branch=talked.branch, step=0)
    key = uuid4()

    def again(times):
        return fork_runs(
            open_source(source, by=alice),
            times=times,
            name="chance",
            request_key=key,
            edits=ForkEdits(system="Be brief."),
            by=alice,
        )

    first = again(2)
    second = again(3)  # a part was made before: the rest is
    assert second[:2] == first
    assert again(3) == second
    made = Branch.objects.filter(parent=talked.branch)
    assert made.count() == Run.objects.filter(branch__in=made).count() == 3
