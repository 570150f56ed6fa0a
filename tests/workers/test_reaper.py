"""What nobody looks after any more, and who finds it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.db import connection

from agents import queue
from agents.models import Agent, Run
from agents.runs import reaper, runner
from agents.runs.claim import claim
from agents.wake import wake
from checkpoints.access import Reason
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import Fenced
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.models import Branch, Checkpoint
from tests.elsewhere import uncommitted

pytestmark = pytest.mark.django_db(transaction=True)

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
FAR_OFF = datetime(2099, 1, 1, tzinfo=UTC)
STEP = NewStep(kind=Checkpoint.Kind.PROGRESS, ops=(), label="late")


@pytest.fixture
def held(begin):
    """A run in the hands of a worker that is not heard of any more."""
    run = begin()
    found = claim(run.pk, "gone")
    assert found is not None
    return found


def lapse(held) -> None:
    Branch.objects.filter(pk=held.branch.pk).update(lease_until=LONG_AGO)


def test_a_lapsed_lease_ends_and_its_holder_cannot_append_any_more(held):
    assert reaper.sweep().lapsed == 0
    lapse(held)
    assert reaper.sweep().lapsed == 1
    held.run.refresh_from_db()
    assert held.run.status == "ready"
    with pytest.raises(Fenced):
        commit(writer(held.branch), STEP)
    assert claim(held.run.pk, "next") is not None


def test_a_lapsed_run_can_be_taken_before_any_sweep(held):
    assert claim(held.run.pk, "next") is None
    lapse(held)
    taken = claim(held.run.pk, "next")
    assert taken is not None
    assert taken.branch.fence == held.branch.fence + 1
    with pytest.raises(Fenced):
        commit(writer(held.branch), STEP)


def test_what_a_dead_worker_held_is_free_at_once(held):
    assert reaper.end_leases("someone else") == 0
    assert reaper.end_leases("gone") == 1
    assert reaper.ready() == [held.run.pk]


def test_a_dead_workers_branch_that_somebody_has_is_waited_for(held):
    def lock() -> Branch:
        rows = Branch.objects.unscoped(Reason.TEST)
        return rows.select_for_update().get(pk=held.branch.pk)

    with uncommitted(lock), pytest.raises(reaper.LeasesLeft, match="gone is dead"):
        reaper.end_leases("gone")
    assert reaper.end_leases("gone") == 1
    assert reaper.end_leases("gone") == 0


def test_a_part_that_cannot_be_done_now_keeps_no_other_part_from_being_done(held):
    """As while a migration, or a backup by hand, has a table for itself."""

    def lock() -> None:
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE checkpoints_auditpending, agents_approval")

    lapse(held)
    with uncommitted(lock):
        swept = reaper.sweep()
    assert swept.failed == ("woken", "escalated", "expired", "linked", "chased")
    assert (swept.lapsed, swept.linked) == (1, 0)
    swept = reaper.sweep()
    assert swept.failed == ()
    assert swept.linked > 0


def test_a_run_that_waits_for_nothing_goes_on(begin):
    run = begin()
    Run.objects.filter(pk=run.pk).update(status="waiting")
    assert reaper.sweep().woken == 1
    run.refresh_from_db()
    assert run.status == "ready"
    assert not wake(run.pk)


def test_a_ring_that_nobody_heard_is_repeated_later_and_later(begin):
    run = begin()
    Run.objects.filter(pk=run.pk).update(rung_at=ClockTimestamp(), rings=4)
    assert reaper.sweep().rung == 0  # it has only just rung
    Run.objects.filter(pk=run.pk).update(rung_at=LONG_AGO)
    assert reaper.sweep().rung == 1
    assert reaper.sweep().rung == 0
    run.refresh_from_db()
    assert run.rings == 5


def rings() -> list[str]:
    """The runs that ring, in order; nobody hears it."""
    with queue.connect(timeout=10) as redis:
        return [job.args[0] for job in queue.queue(redis).jobs]


def test_who_rang_longest_ago_rings_first_however_many_there_are(begin):
    runs = [begin() for _ in range(reaper.BATCH + 1)]
    with queue.connect(timeout=10) as redis:
        redis.flushdb()
    Run.objects.update(rung_at=LONG_AGO)
    for _ in range(2):
        assert reaper.sweep().rung == reaper.BATCH
        # Nobody took those that rang, and each is due again.
        Run.objects.filter(rings__gt=1).update(rung_at=LONG_AGO + timedelta(hours=1))
    assert {UUID(each) for each in rings()} == {run.pk for run in runs}


def test_a_clock_that_goes_back_keeps_no_ring_from_being_repeated(begin):
    run = begin()
    Run.objects.filter(pk=run.pk).update(rung_at=FAR_OFF)
    assert reaper.sweep().rung == 1
    assert reaper.sweep().rung == 0


def test_a_run_that_is_not_due_is_neither_rung_for_nor_taken(begin):
    run = begin()
    Run.objects.filter(pk=run.pk).update(wake_at=FAR_OFF, rung_at=LONG_AGO)
    assert reaper.sweep().rung == 0
    assert reaper.ready() == []
    assert claim(run.pk, "early") is None


def test_an_agent_that_is_not_registered_here_is_left_to_others(begin):
    run = begin()
    run.agent_version.agent.name = "someone-elses"
    run.agent_version.agent.save()
    assert claim(run.pk, "here") is None
    run.refresh_from_db()
    assert (run.status, run.attempts) == ("ready", 0)


def test_runs_of_agents_of_others_keep_no_run_from_being_found(begin):
    for _ in range(reaper.BATCH):
        begin()
    Agent.objects.update(name="someone-elses")
    run = begin()
    assert reaper.ready() == [run.pk]


def test_a_run_that_no_worker_survives_is_given_up_visibly(begin):
    run = begin()
    Run.objects.filter(pk=run.pk).update(attempts=5)
    runner.work(run.pk)
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "too_many_attempts")
    assert Checkpoint.objects.get(branch=run.branch, step=1).kind == "error"


def test_a_run_whose_person_left_waits_for_an_owner(begin, alice):
    run = begin()
    run.grant.revoked_at = datetime.now(UTC) - timedelta(minutes=1)
    run.grant.save()
    runner.work(run.pk)
    run.refresh_from_db()
    assert (run.status, run.needs_owner) == ("waiting", True)
    assert reaper.sweep().woken == 0
