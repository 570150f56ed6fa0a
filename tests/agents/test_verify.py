"""What runs is what was approved: whoever writes the database cannot change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from agents.approvals.ask import Request, ask
from agents.approvals.decide import approve, edit, reject, respond
from agents.approvals.verify import verify, verify_answer
from agents.errors import AlreadyDecided, ApprovalInvalid, Stale
from agents.models import Approval, Decision, ToolCall
from agents.tools import Rule
from checkpoints import gate
from checkpoints.access import Reason, Role, unscoped
from checkpoints.models import Grant, Membership
from tests.agents.waiting import GOOD, book, make_waiting, opener_for
from tests.conftest import as_owner

pytestmark = pytest.mark.django_db(transaction=True)

EDITED = {"flight": "TP 211", "price": "990.00"}


@pytest.fixture(autouse=True)
def everything():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def approval(make_thread, alice, bob, settings) -> Approval:
    """Asked by a run of alice's; bob decides."""
    settings.APPROVAL_GRACE_SECONDS = 60  # so that there are terms
    (asked,) = make_waiting(make_thread(owner=alice), alice)
    return asked


def check(approval: Approval, tool=book):
    return verify(approval.call, tool=tool, opener=opener_for(approval.run))


def test_what_was_approved_may_run(approval, bob):
    approve(approval, seen=approval.as_shown(), by=bob)
    effective = check(approval)
    assert effective.arguments == GOOD
    assert not effective.edited
    assert effective.decision.by_id == bob.user_id


def test_what_was_edited_runs_as_edited(approval, bob):
    edit(approval, seen=approval.as_shown(), by=bob, arguments=dict(EDITED))
    effective = check(approval)
    assert effective.arguments == EDITED
    assert effective.edited


def test_nothing_runs_that_nobody_approved(approval, bob):
    with pytest.raises(ApprovalInvalid, match="not approved"):
        check(approval)
    reject(approval, seen=approval.as_shown(), by=bob, reason="No.")
    with pytest.raises(ApprovalInvalid, match="not approved"):
        check(approval)


# Someone with the database, but without the keys


@pytest.fixture
def tampering():
    """Decisions are written once. Whoever owns the table can switch that off."""

    def triggers(verb: str) -> None:
        with as_owner(), connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {Decision._meta.db_table} {verb} TRIGGER ALL")

    triggers("DISABLE")
    yield
    triggers("ENABLE")


def flip_status(approval: Approval) -> None:
    Approval.objects.update(status="approved")


def forge_decision(approval: Approval) -> None:
    flip_status(approval)
    Decision.objects.create(
        workspace_id=approval.workspace_id,
        thread_id=approval.thread_id,
        approval=approval,
        revision=approval.revision,
        verdict="approve",
        by=User.objects.get(username="bob"),
        role="operator",
        digest=approval.digest,
        mac=bytes(32),
    )


@pytest.mark.parametrize("forge", [flip_status, forge_decision])
def test_an_approval_cannot_be_made_up(approval, bob, forge):
    with as_owner():
        forge(approval)
    with pytest.raises(ApprovalInvalid):
        check(approval)


@pytest.mark.usefixtures("tampering")
def test_a_rejection_cannot_be_turned_into_an_approval(approval, bob):
    reject(approval, seen=approval.as_shown(), by=bob, reason="No.")
    flip_status(approval)
    with pytest.raises(ApprovalInvalid, match="something else"):
        check(approval)
    with as_owner():
        Decision.objects.update(verdict="approve", content=None)
    with pytest.raises(ApprovalInvalid, match="altered"):
        check(approval)


def other_arguments(approval: Approval) -> None:
    """Sealed with the real key, as a confused process of ours might."""
    call = ToolCall.objects.get(pk=approval.call_id)
    call.arguments = gate.seal(call, "arguments", {**GOOD, "price": "9999.00"})
    call.save()


def as_if_edited(approval: Approval) -> None:
    call = ToolCall.objects.get(pk=approval.call_id)
    call.effective = gate.seal(call, "effective", EDITED)
    call.save()


def by_someone_else(approval: Approval) -> None:
    Decision.objects.update(by=User.objects.get(username="alice"))


def at_another_time(approval: Approval) -> None:
    Decision.objects.update(at=approval.asked_at)


def in_another_session(approval: Approval) -> None:
    Decision.objects.update(session=uuid4().hex)


def as_an_edit(approval: Approval) -> None:
    Decision.objects.update(verdict="edit")


def of_another_revision(approval: Approval) -> None:
    Approval.objects.update(revision=2)
    Decision.objects.update(revision=2)


def another_digest(approval: Approval) -> None:
    Approval.objects.update(digest=bytes(32))


def fewer_approvers(approval: Approval) -> None:
    Approval.objects.update(terms={}, approvers=1)


def for_another_group(approval: Approval) -> None:
    Approval.objects.update(terms={**approval.terms, "groups": [str(uuid4())]})


def less_risky(approval: Approval) -> None:
    Approval.objects.update(risk="low")


def by_another_rule(approval: Approval) -> None:
    Approval.objects.update(rule="harmless")


def shown_otherwise(approval: Approval) -> None:
    Decision.objects.update(digest=bytes(32))


def no_record(approval: Approval) -> None:
    Decision.objects.all().delete()


@pytest.mark.parametrize(
    "tamper",
    [
        other_arguments,
        as_if_edited,
        by_someone_else,
        at_another_time,
        in_another_session,
        as_an_edit,
        of_another_revision,
        another_digest,
        fewer_approvers,
        for_another_group,
        less_risky,
        by_another_rule,
        shown_otherwise,
        no_record,
    ],
)
@pytest.mark.usefixtures("tampering")
def test_an_approval_that_was_tampered_with_does_not_hold(
    approval, bob, tamper: Callable[[Approval], None]
):
    approve(approval, seen=approval.as_shown(), by=bob)
    check(approval)
    with as_owner():
        tamper(approval)
    with pytest.raises(ApprovalInvalid):
        check(approval)


def test_edited_arguments_cannot_be_exchanged(approval, bob):
    edit(approval, seen=approval.as_shown(), by=bob, arguments=dict(EDITED))
    call = ToolCall.objects.get(pk=approval.call_id)
    call.effective = gate.seal(call, "effective", {**EDITED, "price": "1.00"})
    call.save()
    with pytest.raises(ApprovalInvalid):
        check(approval)


@pytest.mark.usefixtures("tampering")
def test_an_answer_cannot_be_exchanged(make_thread, alice, bob):
    (asked,) = make_waiting(
        make_thread(owner=alice), alice, ("ask_traveller", {"question": "Aisle?"})
    )
    decision = respond(asked, seen=asked.as_shown(), by=bob, response="Aisle.")
    asked.refresh_from_db()
    opener = opener_for(asked.run)
    assert verify_answer(asked, opener=opener) == decision
    with as_owner():
        Decision.objects.update(
            content=gate.seal(decision, "content", {"response": "Window."})
        )
    with pytest.raises(ApprovalInvalid, match="altered"):
        verify_answer(asked, opener=opener)


# The world has changed meanwhile


def test_a_person_who_lost_the_right_has_not_approved(approval, bob):
    approve(approval, seen=approval.as_shown(), by=bob)
    membership = Membership.objects.filter(user_id=bob.user_id)
    for change in ({"can_approve": False}, {"can_approve": True, "role": Role.AUDITOR}):
        with as_owner():
            membership.update(**change)
        with pytest.raises(ApprovalInvalid, match="Bob, who approved this"):
            check(approval)
    with as_owner():
        membership.update(role=Role.VIEWER)
    check(approval)
    with as_owner():
        User.objects.filter(pk=bob.user_id).update(is_active=False)
    with pytest.raises(ApprovalInvalid):
        check(approval)


def test_a_person_who_lost_the_right_has_not_answered(make_thread, alice, omar):
    """Omar may approve nothing; as an operator he answers questions."""
    question = ("ask_traveller", {"question": "Aisle?"})
    (asked,) = make_waiting(make_thread(owner=alice), alice, question)
    decision = respond(asked, seen=asked.as_shown(), by=omar, response="Aisle.")
    asked.refresh_from_db()
    opener = opener_for(asked.run)
    assert verify_answer(asked, opener=opener) == decision
    membership = Membership.objects.filter(user_id=omar.user_id)
    for role in (Role.VIEWER, Role.AUDITOR):
        with as_owner():
            membership.update(role=role)
        with pytest.raises(ApprovalInvalid, match="Omar, who answered this, no longer"):
            verify_answer(asked, opener=opener)
    with as_owner():
        membership.update(role=Role.OPERATOR)
        User.objects.filter(pk=omar.user_id).update(is_active=False)
    with pytest.raises(ApprovalInvalid):
        verify_answer(asked, opener=opener)


def test_a_rejection_holds_also_where_its_person_lost_the_right(approval, bob):
    """Nothing runs by it."""
    decision = reject(approval, seen=approval.as_shown(), by=bob, reason="Too dear.")
    approval.refresh_from_db()
    with as_owner():
        Membership.objects.filter(user_id=bob.user_id).update(can_approve=False)
    assert verify_answer(approval, opener=opener_for(approval.run)) == decision


@pytest.mark.parametrize(
    "change",
    [
        {"version": "2"},
        {"rule": Rule("stricter")},
        {"rule": Rule("dear", when={"path": "/price", "op": "gt", "value": "900"})},
    ],
)
def test_a_tool_or_rule_that_changed_was_not_approved(approval, bob, change):
    approve(approval, seen=approval.as_shown(), by=bob)
    with pytest.raises(ApprovalInvalid):
        check(approval, tool=replace(book, **change))


def test_what_does_not_hold_is_asked_again_a_revision_later(approval, bob, alice):
    seen = approval.as_shown()
    approve(approval, seen=seen, by=bob)
    with as_owner():
        Membership.objects.filter(user_id=bob.user_id).update(can_approve=False)
    with pytest.raises(ApprovalInvalid):
        check(approval)
    with transaction.atomic():
        (again,) = ask(approval.run, [Request(approval.call, book, dict(GOOD))])
    assert again.pk == approval.pk
    assert (again.number, again.revision, again.status) == (2001, 2, "pending")
    approval.run.__class__.objects.update(status="waiting")
    with pytest.raises(Stale):
        approve(again, seen=seen, by=alice)  # the old form
    approve(again, seen=again.as_shown(), by=alice)
    assert check(approval).decision.by_id == alice.user_id
    with pytest.raises(AlreadyDecided):
        approve(again, seen=again.as_shown(), by=alice)
    assert Decision.objects.count() == 2


def test_a_run_whose_grant_is_gone_opens_nothing(approval, bob):
    approve(approval, seen=approval.as_shown(), by=bob)
    opener = opener_for(approval.run)
    Grant.objects.update(revoked_at=approval.asked_at)
    with pytest.raises(Exception, match="grant of this run was revoked"):
        verify(approval.call, tool=book, opener=opener)
