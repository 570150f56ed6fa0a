"""Looking after requests without deciding them, and deciding several at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.approvals import batch, care
from agents.approvals.decide import Seen, approve, edit
from agents.errors import (
    AlreadyDecided,
    InvalidDecision,
    NotEligible,
    Stale,
)
from agents.models import Approval, ApprovalNote, Decision, Snooze
from agents.pure.terms import Step, Terms
from checkpoints import clock, gate
from checkpoints.access import Reason, Role, unscoped
from checkpoints.db.session import DatabaseRole, acting_as, enter
from checkpoints.errors import NotPermitted
from checkpoints.ids import uuid7
from checkpoints.models import AuditEvent
from tests.agents.waiting import make_waiting, state_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def everything():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def asked(make_thread, alice):
    def asked(*calls, **more) -> Approval:
        return make_waiting(make_thread(owner=alice), alice, *calls, **more)[0]

    return asked


@pytest.fixture
def approval(asked) -> Approval:
    return asked()


def actions() -> list[str]:
    return list(
        AuditEvent.objects.exclude(action__in=["ask", "open"])
        .order_by("position")
        .values_list("action", flat=True)
    )


def test_a_claim_is_seen_and_keeps_nobody_from_deciding(approval, alice, bob):
    assert care.claim(approval, bob)
    assert not care.claim(approval, bob)
    approval.refresh_from_db()
    assert (approval.claimed_by_id, approval.claimed_at is None) == (bob.user_id, False)
    assert care.claim(approval, alice)  # hers from now on
    approval.refresh_from_db()
    assert approval.claimed_by_id == alice.user_id
    approve(approval, seen=approval.as_shown(), by=bob)
    assert state_of(approval)[0] == "approved"
    assert actions() == ["claim", "claim", "approve"]


def test_one_lets_go_of_ones_own_claim_and_an_admin_of_any(approval, alice, bob, join):
    assert not care.release(approval, bob)
    care.claim(approval, bob)
    with pytest.raises(NotEligible, match="Somebody else"):
        care.release(approval, alice)
    assert care.release(approval, join("ada", Role.ADMIN))
    approval.refresh_from_db()
    assert (approval.claimed_by, approval.claimed_at) == (None, None)


def test_who_may_not_decide_does_not_claim(approval, omar, auditor, other):
    for person in (omar, auditor):
        with pytest.raises(NotEligible):
            care.claim(approval, person)
    with pytest.raises(NotPermitted):
        care.claim(approval, other)
    assert actions() == []


def test_it_is_assigned_to_somebody_who_can_decide_it(approval, alice, bob, omar):
    with pytest.raises(InvalidDecision, match="may not decide"):
        care.assign(approval, alice, to=omar.user_id)
    assert care.assignable(approval) == [(alice.user_id, "Alice"), (bob.user_id, "Bob")]
    assert care.assign(approval, alice, to=bob.user_id)
    assert not care.assign(approval, alice, to=bob.user_id)
    approval.refresh_from_db()
    assert approval.assigned_to_id == bob.user_id
    assert care.assign(approval, alice, to=None)
    assert actions() == ["assign", "assign"]


def test_a_question_is_assigned_to_whoever_may_answer_it(
    asked, alice, bob, omar, viewer
):
    question = asked(("ask_traveller", {"question": "Window or aisle?"}))
    names = [name for _, name in care.assignable(question)]
    assert names == ["Alice", "Bob", "Omar"]
    with pytest.raises(InvalidDecision, match="may not decide"):
        care.assign(question, alice, to=viewer.user_id)
    assert care.assign(question, alice, to=omar.user_id)


def test_whom_it_can_be_assigned_to_is_found_at_once(asked, join):
    approval = asked(terms=Terms(exclude=("starter", "author", "editor")))
    join("ann", can_approve=True)
    care.assignable(approval)  # which keeps its thread and its step
    with CaptureQueriesContext(connection) as few:
        care.assignable(approval)
    for n in range(5):
        join(f"a{n}", can_approve=True)
    with CaptureQueriesContext(connection) as more:
        assert len(care.assignable(approval)) == 6
    assert len(more) == len(few)


def test_nobody_is_assigned_what_the_terms_keep_from_them(asked, alice, bob):
    approval = asked(terms=Terms(exclude=("starter",)))
    assert care.assignable(approval) == [(bob.user_id, "Bob")]
    with pytest.raises(InvalidDecision, match="not among"):
        care.assign(approval, bob, to=alice.user_id)


def test_a_snooze_is_ones_own_and_moves_no_deadline(asked, alice, bob):
    approval = asked(terms=Terms(deadline=3600))
    due_at = approval.due_at
    hour = clock.now() + timedelta(hours=1)
    with acting_as(DatabaseRole.WEB):  # workers hide nothing from anybody
        enter(approval.workspace_id)
        care.snooze(approval, bob, until=hour)
        care.snooze(approval, bob, until=hour + timedelta(hours=1))
        (kept,) = Snooze.objects.all()
        assert (kept.by_id, kept.until) == (bob.user_id, hour + timedelta(hours=1))
        approval.refresh_from_db()
        assert approval.due_at == due_at
        assert not care.unsnooze(approval, alice)
        assert care.unsnooze(approval, bob)
        assert not Snooze.objects.exists()
    assert actions() == ["snooze", "snooze", "unsnooze"]


@pytest.mark.parametrize("ahead", [-1, 0, 31 * 24 * 3600])
def test_a_snooze_ends_at_a_time_to_come(approval, bob, ahead):
    with pytest.raises(InvalidDecision) as wrong:
        care.snooze(approval, bob, until=clock.now() + timedelta(seconds=ahead))
    assert list(wrong.value.fields) == ["until"]


def test_a_note_is_sealed_and_decides_nothing(approval, bob, omar, auditor):
    care.note(approval, omar, text=" Is the traveller sure? ")
    (kept,) = ApprovalNote.objects.all()
    assert b"traveller" not in bytes(kept.text)
    opener = gate.admit(bob, purpose="test", threads=[approval.thread])
    assert opener.open(kept, "text") == "Is the traveller sure?"
    assert state_of(approval)[0] == "pending"
    assert "traveller" not in str(AuditEvent.objects.get(action="note").detail)
    with pytest.raises(InvalidDecision):
        care.note(approval, omar, text=" ")
    with pytest.raises(NotEligible):
        care.note(approval, auditor, text="Hm.")
    approve(approval, seen=approval.as_shown(), by=bob)
    care.note(approval, omar, text="Thanks.")


def test_who_decided_is_told_to_whoever_cares_too_late(approval, alice, bob):
    approve(approval, seen=approval.as_shown(), by=bob)
    until = clock.now() + timedelta(hours=1)
    for act in (
        lambda: care.claim(approval, alice),
        lambda: care.release(approval, alice),
        lambda: care.assign(approval, alice, to=alice.user_id),
        lambda: care.snooze(approval, alice, until=until),
        lambda: care.escalate(approval, alice),
    ):
        with pytest.raises(AlreadyDecided, match="Bob approved"):
            act()


def test_escalating_by_hand_takes_the_next_step_then_raises_the_priority(asked, bob):
    approval = asked(terms=Terms(escalation=(Step(60, priority=3),)))
    assert care.escalate(approval, bob)
    approval.refresh_from_db()
    assert (approval.level, approval.priority) == (1, 3)
    assert approval.next_step_at is None
    assert care.escalate(approval, bob)
    approval.refresh_from_db()
    assert (approval.level, approval.priority) == (1, 4)
    Approval.objects.update(priority=9)
    assert not care.escalate(approval, bob)
    event = AuditEvent.objects.filter(action="escalate").first()
    assert event is not None
    assert event.actor_id == bob.user_id


# Several at once


def test_each_of_a_batch_has_its_own_result(asked, bob):
    fine, changed, decided = asked(), asked(), asked()
    shown = [(each.pk, each.as_shown()) for each in (fine, changed, decided)]
    edited = {"flight": "TP 1", "price": "1.00", "seats": 1}
    edit(decided, seen=decided.as_shown(), by=bob, arguments=edited)
    Approval.objects.filter(pk=changed.pk).update(revision=2)
    nobodys = uuid7()
    shown.append((nobodys, Seen(1, bytes(32))))
    shown.append(shown[0])  # named twice
    results = batch.decide(shown, "approve", bob)
    assert [each.id for each in results] == [
        fine.pk,
        changed.pk,
        decided.pk,
        nobodys,
    ]
    good, stale, late, gone = results
    assert isinstance(good.decision, Decision)
    assert isinstance(stale.problem, Stale)
    assert isinstance(late.problem, AlreadyDecided)
    assert isinstance(gone.problem, NotEligible)
    assert [state_of(each)[0] for each in (fine, changed)] == ["approved", "pending"]


def test_a_batch_is_of_one_tool_and_rule(asked, bob):
    question = asked(("ask_traveller", {"question": "Aisle?"}))
    strict = asked(terms=Terms(deadline=60))
    Approval.objects.filter(pk=strict.pk).update(rule="another")
    plain = asked()
    for mixed in (question, strict):
        shown = [(each.pk, each.as_shown()) for each in (plain, mixed)]
        with pytest.raises(InvalidDecision, match="one tool"):
            batch.decide(shown, "reject", bob, "No.")
    assert not Decision.objects.exists()


def test_what_asks_for_care_is_decided_by_itself(asked, bob):
    careful = [
        asked(terms=Terms(typed=True)),
        asked(terms=Terms(reauthenticate=True)),
        asked(terms=Terms(grace=1), risk="critical"),
    ]
    shown = [(each.pk, each.as_shown()) for each in careful]
    for result in batch.decide(shown, "approve", bob):
        assert isinstance(result.problem, InvalidDecision)
    assert not Decision.objects.exists()


def test_a_batch_that_rejects_has_a_reason(asked, bob):
    first, second = asked(), asked()
    shown = [(each.pk, each.as_shown()) for each in (first, second)]
    with pytest.raises(InvalidDecision, match="Say why"):
        batch.decide(shown, "reject", bob, " ")
    assert all(each.decision for each in batch.decide(shown, "reject", bob, "No."))
    assert [state_of(each)[0] for each in (first, second)] == ["rejected", "rejected"]


def test_there_is_an_end_to_a_batch(bob):
    shown = [(uuid7(), Seen(1, bytes(32))) for _ in range(batch.MOST + 1)]
    with pytest.raises(InvalidDecision, match="At most"):
        batch.decide(shown, "approve", bob)
