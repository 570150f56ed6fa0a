"""What a call cost, as its tool says: once, on its step, for the run and its limit."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.models import Price, Run, ToolCall
from agents.runs import runner, start
from agents.runs.edits import ForkEdits
from checkpoints.models import Checkpoint
from tests.conftest import as_owner
from tests.workers.test_large_values import full_disk
from tests.workers.test_limits import RATES, prices_known_here

__all__ = ["prices_known_here"]  # a fixture

pytestmark = pytest.mark.django_db(transaction=True)

COST = Decimal("0.250001")  # of one search


def costs(run: Run) -> list[Decimal | None]:
    """Of the run's tool steps, in order."""
    steps = Checkpoint.objects.filter(branch=run.branch_id, kind="tool")
    return list(steps.order_by("step").values_list("cost", flat=True))


def test_it_is_on_the_step_and_counts_for_the_run(begin, work, server, alice):
    server.will_call_all(
        ("c1", "search", {"what": "a hotel"}),
        ("c2", "search", {"what": "nothing"}),
        ("c3", "search", {"what": "a hotel"}),  # from the cache
        ("c4", "look", {"what": "the desk"}),
    )
    server.will_say("Found.")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert costs(run) == [COST, COST, None, None]
    assert run.cost == 2 * COST
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=alice.user_id))
    step = Checkpoint.objects.get(branch=run.branch_id, step=2)
    shown = client.get(f"/threads/{run.thread_id}/at/{step.pk}/").content.decode()
    assert "$0.250, as the tool says" in shown


@pytest.mark.parametrize(
    ("what", "said"),
    [("in euros", "counted in USD"), ("inexactly", "a float was given")],
)
def test_what_is_no_cost_in_dollars_is_refused(begin, work, server, what, said):
    server.will_call("c1", "search", what=what)
    server.will_say("I see.")
    run = begin()
    work()
    assert said in server.requests[-1]["messages"][-1]["content"]
    assert costs(run) == [None]


@pytest.mark.owner  # admins give prices
def test_a_limit_in_dollars_counts_it(server, work, alice, prices_known_here):
    Price.objects.create(model="scripted", since="2026-01-01", **RATES)
    server.will_call("c1", "search", what="a hotel")
    run = start.start_run(agent="test-thrifty", message="Find it.", by=alice)
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "too_expensive")


def test_a_call_made_again_with_its_key_costs_once(begin, work, server):
    server.will_call("c1", "print_out", pages=7)
    server.ledger_fault("drop_after")
    server.will_say("Printed.")
    run = begin()
    work()
    run.refresh_from_db()
    assert len(server.ledger("prints")) == 2
    assert (run.cost, costs(run)) == (Decimal("0.7"), [Decimal("0.7")])


def test_what_was_paid_and_could_not_be_stored_at_once_is_counted_later(
    begin, work, server
):
    server.will_call("c1", "print_out", pages=7)
    server.will_say("Printed.")
    run = begin()
    with full_disk():
        runner.work(run.pk)
    run.refresh_from_db()
    assert (run.status, run.error_class, run.cost) == ("ready", "store_full", None)
    Run.objects.filter(pk=run.pk).update(wake_at=None)
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert (run.cost, costs(run)) == (Decimal("0.7"), [Decimal("0.7")])
    assert len(server.ledger("prints")) == 1
    assert ToolCall.objects.get(run=run).status == "succeeded"


def test_a_recorded_result_in_a_fork_costs_nothing(begin, work, server, alice):
    server.will_call("c1", "print_out", pages=7)
    server.will_say("Printed.")
    run = begin()
    work()
    first = Checkpoint.objects.get(branch=run.branch_id, step=0)
    server.reset()
    server.will_call("c1", "print_out", pages=7)
    server.will_say("Printed.")
    side = start.fork_run(first, edits=ForkEdits(), name="again", by=alice)
    work()
    again = Run.objects.get(branch=side)
    assert (again.status, again.cost, costs(again)) == ("succeeded", None, [None])
    assert server.ledger("prints") == []
