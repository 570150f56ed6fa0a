"""A decision can be taken back for a while, and until then nothing runs by it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from agents.approvals.decide import approve, edit, reject
from agents.approvals.undo import may_undo, undo
from agents.approvals.verify import verify
from agents.errors import AlreadyDecided, NotEligible, Stale, TooLate
from agents.models import Approval, Run
from agents.pure.terms import Terms
from agents.runs import reaper
from agents.runs.claim import Claim, claim
from checkpoints.access import Reason, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.models import AuditEvent
from tests.agents.waiting import (
    COSTS,
    GOOD,
    at_once,
    book,
    make_waiting,
    opener_for,
    rent,
    state_of,
)

pytestmark = pytest.mark.django_db(transaction=True)

GRACE = Terms(grace=60)
OTHER = {"flight": "TP 211", "price": "990.00", "seats": 1}


@pytest.fixture(autouse=True)
def everything():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def approval(make_thread, alice) -> Approval:
    (asked,) = make_waiting(make_thread(owner=alice), alice, terms=GRACE)
    return asked


def now(approval: Approval) -> Approval:
    return Approval.objects.select_related("call", "run").get(pk=approval.pk)


def yes(approval: Approval, by) -> None:
    current = now(approval)
    approve(current, seen=current.as_shown(), by=by)


def end_the_window(approval: Approval) -> None:
    over = ClockTimestamp() - timedelta(seconds=1)
    Approval.objects.filter(run=approval.run_id).update(final_at=over)
    Run.objects.filter(pk=approval.run_id).update(wake_at=over)


def test_until_the_window_is_over_nobody_takes_the_run(approval, bob):
    yes(approval, bob)
    current = now(approval)
    assert (current.status, current.run.status) == ("approved", "ready")
    assert current.final_at is not None
    assert current.final_at - timedelta(seconds=60) == current.decided_at
    assert current.run.wake_at == current.run.ready_at == current.final_at
    assert claim(approval.run_id, "early") is None
    assert reaper.ready() == []
    assert reaper.sweep().rung == 0
    end_the_window(approval)
    assert reaper.sweep().rung == 1
    assert claim(approval.run_id, "in time") is not None


def test_what_is_taken_back_is_pending_a_revision_later(approval, bob, carol_too):
    seen = approval.as_shown()
    yes(approval, bob)
    assert may_undo(now(approval), bob)
    undo(now(approval), bob)
    current = now(approval)
    assert (current.status, current.revision) == ("pending", 2)
    assert (current.final_at, current.decided_by, current.decided_at) == (None,) * 3
    assert bytes(current.digest) == seen.digest
    assert (current.run.status, current.run.wake_at) == ("waiting", None)
    assert AuditEvent.objects.get(action="undo").actor_id == bob.user_id
    with pytest.raises(Stale):
        approve(current, seen=seen, by=carol_too)
    yes(approval, carol_too)
    found = verify(now(approval).call, tool=book, opener=opener_for(approval.run))
    assert found.decision.by_id == carol_too.user_id


@pytest.fixture
def carol_too(join):
    return join("carol", can_approve=True)


def test_an_edit_that_is_taken_back_leaves_what_was_proposed(approval, bob):
    seen = approval.as_shown()
    edit(approval, seen=seen, by=bob, arguments=OTHER)
    assert now(approval).call.effective is not None
    undo(now(approval), bob)
    current = now(approval)
    assert current.call.effective is None
    assert bytes(current.digest) == seen.digest
    assert current.revision == 3  # the edit made one, too
    yes(approval, bob)
    found = verify(now(approval).call, tool=book, opener=opener_for(approval.run))
    assert (found.arguments, found.edited) == (GOOD, False)


def test_an_edit_that_is_taken_back_leaves_what_the_guard_had_put(
    make_thread, alice, bob, costs
):
    """The price had moved before anybody was asked: that is what they were asked about."""
    costs["booth"] = "1500.00"
    wanted = {"what": "booth", "price": "1200.00"}
    (asked,) = make_waiting(
        make_thread(owner=alice), alice, ("rent", wanted), terms=GRACE
    )
    seen = asked.as_shown()
    cheaper = {"what": "booth", "price": "900.00"}
    edit(asked, seen=seen, by=bob, arguments=cheaper)
    undo(now(asked), bob)
    current = now(asked)
    moved = {**wanted, "price": "1500.00"}
    assert opener_for(asked.run).open(current.call, "effective") == moved
    assert bytes(current.digest) == seen.digest
    assert (current.status, current.revision) == ("pending", 3)
    yes(asked, bob)
    found = verify(now(asked).call, tool=rent, opener=opener_for(asked.run))
    assert (found.arguments, found.decision.verdict) == (moved, "approve")


@pytest.fixture
def costs() -> Iterator[dict[str, str]]:
    """What things cost by now."""
    yield COSTS
    COSTS.clear()


def test_a_rejection_can_be_taken_back(approval, bob):
    reject(approval, seen=approval.as_shown(), by=bob, reason="Too dear.")
    undo(now(approval), bob)
    assert state_of(approval) == ("pending", "waiting", "waiting")
    yes(approval, bob)


def test_when_the_window_is_over_it_stays(approval, bob):
    yes(approval, bob)
    end_the_window(approval)
    with pytest.raises(TooLate):
        undo(now(approval), bob)
    assert state_of(approval) == ("approved", "waiting", "ready")


def test_only_who_decided_takes_it_back(approval, alice, bob):
    with pytest.raises(TooLate, match="nothing of yours"):
        undo(approval, bob)
    yes(approval, bob)
    assert not may_undo(now(approval), alice)
    with pytest.raises(NotEligible, match="Only Bob"):
        undo(now(approval), alice)
    assert state_of(approval)[0] == "approved"


def test_of_a_run_that_is_over_nothing_is_taken_back(approval, bob):
    yes(approval, bob)
    Run.objects.update(status="cancelled")
    with pytest.raises(TooLate):
        undo(now(approval), bob)
    assert state_of(approval)[0] == "approved"


def test_without_a_window_there_is_nothing_to_take_back(make_thread, alice, bob):
    (asked,) = make_waiting(make_thread(owner=alice), alice)
    yes(asked, bob)
    assert now(asked).run.wake_at is None
    with pytest.raises(TooLate):
        undo(now(asked), bob)


def test_two_windows_of_one_run_are_waited_for_and_one_can_be_left(
    make_thread, alice, bob
):
    first, second = make_waiting(
        make_thread(owner=alice), alice, ("book", GOOD), ("book", OTHER), terms=GRACE
    )
    yes(first, bob)
    undo(now(first), bob)  # while the other is pending
    assert state_of(first) == ("pending", "waiting", "waiting")
    yes(first, bob)
    assert now(first).run.status == "waiting"
    yes(second, bob)
    ends = [now(each).final_at for each in (first, second)]
    assert now(first).run.wake_at == ends[1] == max(filter(None, ends))
    over = ClockTimestamp() - timedelta(seconds=1)
    Approval.objects.filter(pk=first.pk).update(final_at=over)
    with pytest.raises(TooLate):
        undo(now(first), bob)
    undo(now(second), bob)
    assert state_of(second) == ("pending", "waiting", "waiting")
    assert state_of(first)[0] == "approved"
    reject(now(second), seen=now(second).as_shown(), by=bob, reason="Once will do.")
    assert now(first).run.wake_at == now(second).final_at


def test_an_approval_of_several_is_taken_back_while_others_are_waited_for(
    make_thread, alice, bob
):
    (asked,) = make_waiting(
        make_thread(owner=alice), alice, terms=Terms(approvers=2, exclude=())
    )
    yes(asked, bob)
    undo(now(asked), bob)
    assert (now(asked).status, now(asked).revision) == ("pending", 2)
    yes(asked, alice)
    assert state_of(asked)[0] == "pending"
    yes(asked, bob)
    assert state_of(asked)[0] == "approved"


# Races

ROUNDS = 10


@pytest.mark.unmeasured
def test_of_taking_back_and_claiming_at_once_one_wins(make_thread, alice, bob):
    """At the very end of the window: it may be taken back, and may be claimed."""
    met = set()
    for _ in range(ROUNDS):
        (asked,) = make_waiting(make_thread(owner=alice), alice, terms=GRACE)
        yes(asked, bob)
        current = now(asked)
        Run.objects.filter(pk=asked.run_id).update(wake_at=None)
        back, held = at_once(
            lambda: undo(current, bob),  # noqa: B023
            lambda: claim(asked.run_id, "worker"),  # noqa: B023
        )
        taken = isinstance(held, Claim)
        assert isinstance(back, TooLate) == taken, (back, held)
        expected = ("approved", "running") if taken else ("pending", "waiting")
        assert (now(asked).status, now(asked).run.status) == expected
        met.add(taken)
    assert met  # which of the two is up to the machine


@pytest.mark.unmeasured
def test_approving_taking_back_and_claiming_at_once_leave_one_story(
    make_thread, alice, bob
):
    for _ in range(ROUNDS):
        (asked,) = make_waiting(make_thread(owner=alice), alice, terms=GRACE)
        seen = asked.as_shown()
        said, back, held = at_once(
            lambda: approve(asked, seen=seen, by=bob),  # noqa: B023
            lambda: undo(asked, bob),  # noqa: B023
            lambda: claim(asked.run_id, "worker"),  # noqa: B023
        )
        assert held is None
        assert not isinstance(said, AlreadyDecided)
        taken_back = not isinstance(back, TooLate)
        expected = ("pending", "waiting") if taken_back else ("approved", "ready")
        assert (now(asked).status, now(asked).run.status) == expected
