"""One decision for what was shown, by who may give it; and one wake for the run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from agents.approvals.decide import Seen, approve, edit, reject, respond
from agents.errors import AlreadyDecided, InvalidDecision, NotEligible, Stale
from agents.models import Approval, Decision, Run, ToolCall
from agents.queue import connect, queue
from checkpoints import clock, gate
from checkpoints.access import Reason, Role, unscoped
from checkpoints.models import AuditEvent, Branch, Membership
from tests.agents.waiting import GOOD, at_once, make_waiting, state_of
from tests.conftest import as_owner
from tests.elsewhere import Elsewhere
from tests.workers.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def everything():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def approval(make_thread, alice) -> Approval:
    (asked,) = make_waiting(make_thread(owner=alice), alice)
    return asked


def opened(by, decision: Decision):
    thread = decision.approval.thread
    return gate.admit(by, purpose="test", threads=[thread]).open(decision, "content")


def test_asking_makes_a_pending_request_with_a_number(approval):
    assert state_of(approval) == ("pending", "waiting", "waiting")
    assert str(approval) == "APR-2001"
    assert approval.rule == "dear"
    assert approval.allowed == ["approve", "edit", "reject"]
    assert (approval.kind, approval.risk) == ("approval", "high")
    assert AuditEvent.objects.filter(action="ask", object_id=approval.pk).count() == 1


def test_an_approval_wakes_the_run_and_leaves_its_record(approval, alice):
    decision = approve(approval, seen=approval.as_shown(), by=alice)
    assert state_of(approval) == ("approved", "waiting", "ready")
    assert (decision.verdict, decision.revision, decision.role) == (
        "approve",
        1,
        "operator",
    )
    assert bytes(decision.digest) == approval.as_shown().digest
    event = AuditEvent.objects.get(action="approve", object_id=approval.pk)
    assert event.actor_id == alice.user_id


def test_a_decision_costs_five_statements_in_one_transaction(
    make_thread, alice, bob, django_assert_num_queries
):
    """The right, the locks with the time, the decision, the audit log, the wake."""
    for warm in (False, True):
        (asked,) = make_waiting(make_thread(owner=alice), alice)
        if not warm:  # the key of decisions is known from here on
            approve(asked, seen=asked.as_shown(), by=bob)
            continue
        with django_assert_num_queries(5 + len(("BEGIN", "COMMIT"))):
            approve(asked, seen=asked.as_shown(), by=bob)


def test_a_decision_is_of_when_it_had_the_locks_not_of_when_it_asked_for_them(
    approval, alice
):
    with transaction.atomic():
        Branch.objects.select_for_update(no_key=True).get(pk=approval.branch_id)
        seen = approval.as_shown()
        there = Elsewhere(lambda: _decided_as_test(approval, seen, alice))
        there.wait_until_it_waits()
        before = clock.now()
    decision = there.result()
    assert decision.at > before
    assert Decision.objects.get().at == decision.at


def _decided_as_test(approval: Approval, seen: Seen, by) -> Decision:
    with unscoped(Reason.TEST):
        return approve(approval, seen=seen, by=by)


def test_a_second_decision_changes_nothing_and_names_the_first(approval, alice, bob):
    seen = approval.as_shown()
    approve(approval, seen=seen, by=alice)
    with pytest.raises(AlreadyDecided, match="Alice approved this on ") as lost:
        reject(approval, seen=seen, by=bob, reason="Too dear.")
    assert lost.value.at is not None
    with pytest.raises(AlreadyDecided):
        approve(approval, seen=seen, by=alice)
    assert Decision.objects.count() == 1
    assert state_of(approval)[0] == "approved"


def test_a_decision_on_something_else_than_is_there_now_is_refused(approval, alice):
    seen = approval.as_shown()
    for stale in (Seen(2, seen.digest), Seen(1, bytes(32)), Seen(1, b"")):
        with pytest.raises(Stale):
            approve(approval, seen=stale, by=alice)
    assert state_of(approval) == ("pending", "waiting", "waiting")
    assert not Decision.objects.exists()


def test_a_rejection_needs_a_reason(approval, alice):
    with pytest.raises(InvalidDecision) as invalid:
        reject(approval, seen=approval.as_shown(), by=alice, reason=" \n ")
    assert list(invalid.value.fields) == ["reason"]
    decision = reject(
        approval, seen=approval.as_shown(), by=alice, reason=" Too dear. "
    )
    assert state_of(approval) == ("rejected", "waiting", "ready")
    assert opened(alice, decision) == {"reason": "Too dear."}


def test_an_edit_is_kept_apart_from_what_was_proposed(approval, alice):
    seen = approval.as_shown()
    arguments = {"flight": "TP 211", "price": "990.00", "seats": 2}
    decision = edit(approval, seen=seen, by=alice, arguments=arguments)
    assert decision.verdict == "edit"
    assert opened(alice, decision) == {"arguments": arguments}
    now = Approval.objects.select_related("call").get(pk=approval.pk)
    assert (now.status, now.revision) == ("approved", 2)
    assert bytes(now.digest) != seen.digest
    opener = gate.admit(alice, purpose="test", threads=[now.thread])
    assert opener.open(now.call, "arguments") == GOOD
    assert opener.open(now.call, "effective") == arguments


@pytest.mark.parametrize(
    ("again", "is_repeat"),
    [("990.00", True), ("980.00", False)],
)
def test_the_same_edit_once_more_is_known_to_be_the_same(
    approval, alice, bob, again, is_repeat
):
    seen = approval.as_shown()
    edit(approval, seen=seen, by=alice, arguments={**GOOD, "price": "990.00"})
    for by, expected in ((alice, is_repeat), (bob, False)):
        with pytest.raises(AlreadyDecided) as lost:
            edit(approval, seen=seen, by=by, arguments={**GOOD, "price": again})
        assert lost.value.is_repeat == expected
    assert Decision.objects.count() == 1


def test_an_edit_that_does_not_fit_names_each_field_and_changes_nothing(
    approval, alice
):
    with pytest.raises(InvalidDecision) as invalid:
        edit(
            approval,
            seen=approval.as_shown(),
            by=alice,
            arguments={"price": "cheap", "seats": "2"},
        )
    assert set(invalid.value.fields) == {"/flight", "/price", "/seats"}
    assert state_of(approval) == ("pending", "waiting", "waiting")


def test_an_edit_that_is_too_deep_is_refused(approval, alice):
    deep: Any = "TP 209"
    for _ in range(900):
        deep = [deep]
    with pytest.raises(InvalidDecision, match="levels deep"):
        edit(
            approval,
            seen=approval.as_shown(),
            by=alice,
            arguments={"flight": deep, "price": "1200"},
        )
    assert state_of(approval) == ("pending", "waiting", "waiting")


def test_an_edit_that_changes_nothing_is_an_approval(approval, alice):
    seen = approval.as_shown()
    decision = edit(approval, seen=seen, by=alice, arguments=dict(GOOD))
    assert decision.verdict == "approve"
    assert Approval.objects.get().revision == 1


def test_only_a_question_is_answered(approval, make_thread, alice, omar):
    with pytest.raises(InvalidDecision, match="approve, edit, reject"):
        respond(approval, seen=approval.as_shown(), by=alice, response="Yes.")
    (asked,) = make_waiting(
        make_thread(owner=alice), alice, ("ask_traveller", {"question": "Aisle?"})
    )
    assert (asked.kind, str(asked)) == ("question", "APR-2002")
    with pytest.raises(InvalidDecision, match="respond, reject"):
        approve(asked, seen=asked.as_shown(), by=alice)
    with pytest.raises(InvalidDecision) as invalid:
        respond(asked, seen=asked.as_shown(), by=omar, response="")
    assert list(invalid.value.fields) == ["response"]
    decision = respond(asked, seen=asked.as_shown(), by=omar, response="Aisle, 12C.")
    assert opened(alice, decision) == {"response": "Aisle, 12C."}
    assert state_of(asked) == ("responded", "waiting", "ready")


def test_who_may_not_decide_reads_why(approval, omar, auditor):
    with pytest.raises(NotEligible, match="“dear” asks someone with the right"):
        approve(approval, seen=approval.as_shown(), by=omar)
    with pytest.raises(NotEligible, match="Auditors"):
        approve(approval, seen=approval.as_shown(), by=auditor)
    assert state_of(approval)[0] == "pending"


def test_a_right_that_was_taken_away_is_gone_at_once(approval, alice):
    hers = Membership.objects.filter(user_id=alice.user_id)
    with as_owner():
        hers.update(can_approve=False)
    with pytest.raises(NotEligible):
        approve(approval, seen=approval.as_shown(), by=alice)
    with as_owner():
        hers.update(can_approve=True)
        User.objects.filter(pk=alice.user_id).update(is_active=False)
    with pytest.raises(NotEligible):
        approve(approval, seen=approval.as_shown(), by=alice)


def test_nobody_from_another_workspace_decides(approval, other):
    with pytest.raises(NotEligible):
        approve(approval, seen=approval.as_shown(), by=other)
    assert state_of(approval)[0] == "pending"


def test_a_viewer_with_the_right_may_approve(approval, join):
    vic = join("vic", Role.VIEWER, can_approve=True)
    approve(approval, seen=approval.as_shown(), by=vic)
    assert state_of(approval)[0] == "approved"


def test_the_run_goes_on_when_the_last_call_is_decided(make_thread, alice):
    first, second = make_waiting(
        make_thread(owner=alice), alice, ("book", GOOD), ("book", GOOD)
    )
    assert first.as_shown().digest != second.as_shown().digest
    approve(first, seen=first.as_shown(), by=alice)
    assert state_of(first) == ("approved", "waiting", "waiting")
    reject(second, seen=second.as_shown(), by=alice, reason="Once is enough.")
    assert state_of(second) == ("rejected", "waiting", "ready")


def test_a_request_of_a_cancelled_run_is_closed(approval, alice):
    Run.objects.update(status=Run.Status.CANCELLED)
    with pytest.raises(AlreadyDecided, match="closed with its run"):
        approve(approval, seen=approval.as_shown(), by=alice)


# Races

ROUNDS = 20


def rings_of(run_id: UUID) -> list[str]:
    """Ids of the ringing jobs that name the run."""
    with connect(timeout=5) as redis:
        return [job for job in queue(redis).job_ids if job.startswith(str(run_id))]


def test_of_many_deciders_one_wins(make_thread, alice, bob):
    for _ in range(ROUNDS):
        (asked,) = make_waiting(make_thread(owner=alice), alice)
        seen = asked.as_shown()
        results = at_once(
            lambda: approve(asked, seen=seen, by=alice),  # noqa: B023
            lambda: reject(asked, seen=seen, by=bob, reason="No."),  # noqa: B023
            lambda: approve(asked, seen=seen, by=bob),  # noqa: B023
            lambda: approve(asked, seen=seen, by=alice),  # noqa: B023
        )
        won = [result for result in results if isinstance(result, Decision)]
        assert len(won) == 1
        assert sum(isinstance(result, AlreadyDecided) for result in results) == 3
        assert Decision.objects.filter(approval=asked).count() == 1
        assert state_of(asked)[2] == "ready"


def test_two_last_deciders_wake_the_run_once(make_thread, alice, bob):
    for _ in range(ROUNDS):
        first, second = make_waiting(
            make_thread(owner=alice), alice, ("book", GOOD), ("book", GOOD)
        )
        at_once(
            lambda: approve(first, seen=first.as_shown(), by=alice),  # noqa: B023
            lambda: approve(second, seen=second.as_shown(), by=bob),  # noqa: B023
        )
        assert state_of(first)[2] == "ready"
        assert len(rings_of(first.run_id)) == 1
        assert ToolCall.objects.filter(run=first.run_id, status="waiting").count() == 2


def test_a_decision_has_the_time_at_which_it_was_its_turn(approval, alice):
    """Not the one at which it began to wait for whoever decides beside it."""
    released = []

    def decide() -> None:
        with unscoped(Reason.TEST):
            approve(approval, seen=approval.as_shown(), by=alice)
        connection.close()

    with ThreadPoolExecutor(1) as beside:
        with transaction.atomic():
            locked = Branch.objects.unscoped(Reason.TEST).select_for_update()
            list(locked.filter(pk=approval.branch_id))
            decided = beside.submit(decide)
            wait_until(_somebody_waits)
            released.append(clock.now())
        decided.result()
    now = Approval.objects.get(pk=approval.pk).decided_at
    assert now is not None
    assert now >= released[0]


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])
