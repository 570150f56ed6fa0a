"""Processes that die between a commit and what follows it, or just before it."""

from __future__ import annotations

import pytest

from agents.approvals import decide
from agents.models import Approval, Run
from checkpoints.log.verify import verify
from checkpoints.models import Branch, Checkpoint
from tests.faults.people import Script
from tests.workers.conftest import ended, kinds, pending, wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.unmeasured,
]


def test_a_decision_whose_process_dies_before_it_rings_is_found_and_acted_on(
    at_once, nursery, begin, work, server, alice
):
    server.services.answer = Script()
    runs = [begin("trip 1: dear"), begin("trip 2: dear")]
    work()
    both = [("approve", pending(run)[0].pk) for run in runs]
    at_once([both], dies_at="before ring")
    assert Run.objects.filter(status="ready").exists()
    nursery.forget_rings()
    for approval in Approval.objects.pending():  # of whoever had got less far
        decide.approve(approval, seen=approval.as_shown(), by=alice)
    nursery.start(1)
    wait_until(lambda: all(map(ended, runs)))
    assert {run.status for run in runs} == {"succeeded"}
    assert len(server.ledger("bookings")) == 2


def test_a_worker_that_dies_before_it_acknowledges_the_ring_has_done_its_work(
    nursery, begin, server, tmp_path
):
    server.always("Hello.")
    nursery.start(
        1,
        HOLDPOINT_FAILPOINTS="before ack",
        HOLDPOINT_FAILPOINTS_REACHED=str(tmp_path),
    )
    first = begin("trip 1")
    wait_until(lambda: (tmp_path / "before ack").exists())
    second = begin("trip 2")
    wait_until(lambda: ended(second))
    assert ended(first)
    for run in (first, second):
        assert (run.status, kinds(run)) == ("succeeded", ["input", "model"])
    assert len(server.requests) == 2


def test_a_fork_that_dies_before_its_commit_leaves_nothing_behind(
    at_once, begin, work, server
):
    server.services.answer = Script()
    run = begin("trip 1: look book")
    work()
    step = Checkpoint.objects.get(branch=run.branch_id, step=2)
    both = [("fork", step.pk), ("fork", step.pk)]
    at_once([both], dies_at="fork: before commit")
    made = Branch.objects.exclude(parent=None).count()
    assert made == Run.objects.exclude(pk=run.pk).count()
    assert made <= 1  # whoever was faster may have got through
    assert list(verify()) == []
    assert at_once([both]) == ["done", "done"]
    assert Branch.objects.exclude(parent=None).count() == made + 2
