"""Windows, deadlines and rejections, as runs meet them: what runs, and what agents hear."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agents.approvals import decide
from agents.approvals.undo import undo
from agents.models import Approval, Run
from agents.runs import control, reaper, runner
from checkpoints import gate
from checkpoints.clock import ClockTimestamp
from tests.workers.conftest import kinds, pending

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def asked(begin, work, server, settings):
    """A run that asks to book, of which a decision can be taken back for a minute."""
    settings.APPROVAL_GRACE_SECONDS = 60
    server.will_call("c1", "book", item="TP 209", price="1200")
    run = begin()
    work()
    return run


def over(run: Run) -> None:
    """The windows of the run's requests are over."""
    past = ClockTimestamp() - timedelta(seconds=1)
    Approval.objects.filter(run=run).update(final_at=past)
    Run.objects.filter(pk=run.pk).update(wake_at=past)


def status(run: Run) -> str:
    run.refresh_from_db()
    return run.status


def approve(run: Run, by) -> Approval:
    (approval,) = pending(run)
    decide.approve(approval, seen=approval.as_shown(), by=by)
    approval.refresh_from_db()
    return approval


def test_nothing_is_booked_before_the_window_is_over(asked, work, server, bob):
    approve(asked, bob)
    work()
    runner.work(asked.pk)  # however often it is rung for
    assert status(asked) == "ready"
    assert server.ledger() == []
    server.will_say("Booked.")
    over(asked)
    work()
    assert status(asked) == "succeeded"
    assert len(server.ledger()) == 1


def test_a_run_that_was_woken_too_early_takes_nothing_in(asked, work, server, bob):
    """Whatever lets a worker have it: the decision can still be taken back."""
    approval = approve(asked, bob)
    Run.objects.filter(pk=asked.pk).update(wake_at=None)
    runner.work(asked.pk)
    assert server.ledger() == []
    assert status(asked) == "waiting"
    assert kinds(asked) == ["input", "model", "interrupt"]
    assert reaper.sweep().woken == 1
    assert status(asked) == "ready"
    assert asked.wake_at == approval.final_at
    undo(approval, bob)
    assert status(asked) == "waiting"


def test_what_was_taken_back_and_rejected_is_not_booked(asked, work, server, bob):
    undo(approve(asked, bob), bob)
    (again,) = pending(asked)
    decide.reject(again, seen=again.as_shown(), by=bob, reason="Not today.")
    server.will_say("Then not.")
    over(asked)
    work()
    assert status(asked) == "succeeded"
    assert server.ledger() == []
    assert "Not today." in str(server.requests[-1])


def test_the_agent_hears_that_nobody_decided_in_time_and_goes_on(asked, work, server):
    terms = {"deadline": 60}
    due = ClockTimestamp() - timedelta(seconds=1)
    Approval.objects.filter(run=asked).update(terms=terms, due_at=due)
    assert reaper.sweep().expired == 1
    server.will_say("I could not book it.")
    work()
    assert status(asked) == "succeeded"
    assert server.ledger() == []
    assert "Nobody decided this in time" in str(server.requests[-1])


def reject_times(run: Run, times: int, work, bob) -> None:
    for number in range(times):
        work()
        (approval,) = pending(run)
        decide.reject(
            approval, seen=approval.as_shown(), by=bob, reason=f"No, {number}."
        )


@pytest.fixture
def insists(begin, server):
    """A run whose agent asks for it again and again."""
    for price in ("1200", "1300", "1400", "1500"):
        server.will_call("c", "book", item="TP 209", price=price)
    return begin()


def test_after_three_rejections_of_a_tool_in_a_row_the_run_is_paused(
    insists, work, server, alice, bob
):
    reject_times(insists, 3, work, bob)
    work()
    insists.refresh_from_db()
    assert (insists.status, insists.error_class) == ("ready", "rejected_again")
    assert insists.is_held
    assert not insists.is_paused
    assert server.pending == 1  # the model was not asked again
    opener = gate.admit(alice, purpose="test", threads=[insists.thread])
    assert "People rejected book 3 times in a row" in opener.open(insists, "error")
    assert control.resume(insists, by=alice)
    insists.refresh_from_db()
    assert (insists.paused_at, insists.error_class) == (None, "")
    work()
    assert pending(insists)
    assert server.pending == 0


def test_a_rejection_that_is_taken_back_lets_the_run_be(
    insists, work, settings, alice, bob
):
    reject_times(insists, 2, work, bob)
    work()
    settings.APPROVAL_GRACE_SECONDS = 60
    (approval,) = pending(insists)
    Approval.objects.filter(pk=approval.pk).update(terms={"grace": 60})
    decide.reject(approval, seen=approval.as_shown(), by=bob, reason="No.")
    insists.refresh_from_db()
    assert insists.is_held
    undo(approval, bob)
    insists.refresh_from_db()
    assert (insists.status, insists.paused_at, insists.error_class) == (
        "waiting",
        None,
        "",
    )


def test_a_yes_in_between_starts_the_count_anew(insists, work, server, bob):
    reject_times(insists, 2, work, bob)
    work()
    approve(insists, bob)
    work()
    reject_times(insists, 1, work, bob)
    insists.refresh_from_db()
    assert not insists.is_held


def test_a_run_stays_paused_while_as_many_rejections_are_left(
    begin, work, server, settings, bob
):
    settings.APPROVAL_GRACE_SECONDS = 60
    calls = [(f"c{n}", "book", {"item": f"TP {n}", "price": "1200"}) for n in range(4)]
    server.will_call_all(*calls)
    run = begin()
    work()
    for approval in pending(run):
        decide.reject(approval, seen=approval.as_shown(), by=bob, reason="No.")
    run.refresh_from_db()
    assert run.error_class == "rejected_again"
    last, *_, first = Approval.objects.filter(run=run).order_by("-decided_at")
    undo(last, bob)
    run.refresh_from_db()
    assert run.error_class == "rejected_again"
    undo(first, bob)
    run.refresh_from_db()
    assert (run.paused_at, run.error_class) == (None, "")
