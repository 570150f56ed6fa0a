"""What all steps come to is asked for once, and anew whenever there is another step."""

from __future__ import annotations

from decimal import Decimal

import pytest

from agents.pages.thread.settled import settled
from checkpoints.log.append import NewStep, StepMeta
from checkpoints.log.threads import fork
from checkpoints.models import Checkpoint
from checkpoints.pure import ops
from tests.pages.conftest import append

pytestmark = pytest.mark.django_db


def step(**meta) -> NewStep:
    said = {"id": f"m{len(meta)}", "role": "assistant", "content": "x"}
    return NewStep("model", [ops.append("/messages", said)], "x", StepMeta(**meta))


def of(trip):
    thread = trip.thread
    return settled(thread, thread.branches.order_by("created_at", "pk"))


def test_it_is_asked_for_once(trip, django_assert_num_queries):
    first = of(trip)
    with django_assert_num_queries(1):  # the branches
        assert of(trip) is first
    assert first.steps == trip.thread.checkpoints.count()
    assert first.failed == [(trip.cheap.pk, 5)]


@pytest.mark.parametrize("which", ["branch", "cheap"])
def test_a_step_of_any_branch_counts(trip, which):
    before = of(trip)
    branch = getattr(trip, which)
    spent = {"cost": Decimal("1.25"), "tokens_in": 7, "latency_ms": 11}
    append(branch, step(**spent), step(status="failed"))
    after = of(trip)
    assert after.steps == before.steps + 2
    assert after.cost == (before.cost or 0) + Decimal("1.25")
    assert after.tokens == before.tokens + 7
    assert after.latency_ms == before.latency_ms + 11
    assert set(after.failed) - set(before.failed) == {(branch.pk, branch.head_step + 2)}


def test_a_branch_that_takes_its_first_step_counts(trip, alice):
    before = of(trip)
    source = Checkpoint.objects.for_user(alice).get(pk=trip.at(2))
    made = fork(source, name="what-if", by_id=alice.user_id)
    assert of(trip).steps == before.steps
    append(made, step())
    assert of(trip).steps == before.steps + 1


def test_threads_are_told_apart(trip, make_trip, alice):
    other = make_trip(alice, title="Another")
    append(other.branch, step(cost=Decimal(3)))
    assert of(other).steps == of(trip).steps + 1
    assert of(other).cost == (of(trip).cost or 0) + 3
