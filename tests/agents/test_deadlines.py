"""What becomes of requests that nobody decides: deadlines and escalations."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from django.db import transaction

from agents.approvals import care, escalate, expire, sight
from agents.approvals.ask import Request, ask
from agents.approvals.decide import approve
from agents.approvals.verify import verify
from agents.errors import AlreadyDecided, ApprovalInvalid, NotEligible
from agents.models import Approval, Channel, Decision, Delivery
from agents.pure.terms import Demand, Step, Terms
from agents.runs import reaper
from checkpoints import gate
from checkpoints.access import Reason, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.models import AuditEvent, Branch, Group, Membership
from tests.agents.waiting import (
    GOOD,
    at_once,
    book,
    make_calls,
    make_run,
    make_waiting,
    opener_for,
    state_of,
)
from tests.conftest import as_owner
from tests.elsewhere import Elsewhere

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = 3600


@pytest.fixture(autouse=True)
def everything():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def asked(make_thread, alice):
    def asked(**terms) -> Approval:
        branch = make_thread(owner=alice)
        terms.setdefault("deadline", HOUR)
        (approval,) = make_waiting(branch, alice, terms=Terms(**terms))
        return approval

    return asked


def now(approval: Approval) -> Approval:
    return Approval.objects.select_related("call", "run").get(pk=approval.pk)


def pass_the_deadline(approval: Approval, by: timedelta = timedelta(seconds=1)) -> None:
    Approval.objects.filter(pk=approval.pk).update(due_at=ClockTimestamp() - by)


def actions() -> list[str]:
    return list(
        AuditEvent.objects.exclude(action="ask")
        .order_by("position")
        .values_list("action", flat=True)
    )


def test_nothing_happens_before_the_deadline(asked):
    approval = asked()
    assert reaper.sweep().expired == 0
    assert not expire.expire(approval.pk)
    assert state_of(approval)[0] == "pending"


def test_what_nobody_decided_in_time_is_over_and_the_run_goes_on(asked):
    approval = asked()
    pass_the_deadline(approval)
    assert reaper.sweep().expired == 1
    assert state_of(approval) == ("expired", "waiting", "ready")
    assert now(approval).decided_by is None
    assert not Decision.objects.exists()
    assert reaper.sweep().expired == 0
    assert actions() == ["expire"]


def test_what_is_held_is_only_noted_and_can_be_decided_later(asked, bob):
    approval = asked(then="hold")
    pass_the_deadline(approval)
    assert reaper.sweep().expired == 1
    assert reaper.sweep().expired == 0
    assert state_of(approval) == ("pending", "waiting", "waiting")
    assert now(approval).overdue_at is not None
    assert actions() == ["overdue"]
    approve(approval, seen=approval.as_shown(), by=bob)
    found = verify(now(approval).call, tool=book, opener=opener_for(approval.run))
    assert found.decision.by_id == bob.user_id


def test_a_deadline_can_take_every_step_of_the_escalation_at_once(asked, bob):
    steps = (Step(HOUR * 2, priority=2), Step(HOUR * 3, priority=5))
    approval = asked(then="escalate", escalation=steps)
    pass_the_deadline(approval)
    assert reaper.sweep().expired == 1
    assert reaper.sweep().expired == 0
    current = now(approval)
    assert (current.status, current.level, current.priority) == ("pending", 2, 5)
    assert current.next_step_at is None
    assert actions() == ["overdue", "escalate", "escalate"]
    approve(current, seen=current.as_shown(), by=bob)


def test_without_steps_a_deadline_makes_it_more_urgent(asked):
    approval = asked(then="escalate")
    pass_the_deadline(approval)
    reaper.sweep()
    assert (now(approval).priority, now(approval).status) == (1, "pending")


def test_after_its_deadline_nobody_decides_also_before_a_sweep(asked, bob):
    approval = asked()
    pass_the_deadline(approval)
    with pytest.raises(AlreadyDecided, match="expired"):
        approve(approval, seen=approval.as_shown(), by=bob)
    assert state_of(approval) == ("expired", "waiting", "ready")
    assert not Decision.objects.exists()


def test_an_approval_from_after_the_deadline_does_not_hold(asked, bob):
    approval = asked()
    approve(approval, seen=approval.as_shown(), by=bob)
    pass_the_deadline(approval, by=timedelta(hours=2))
    with pytest.raises(ApprovalInvalid, match="after its deadline"):
        verify(now(approval).call, tool=book, opener=opener_for(approval.run))


def test_what_somebody_is_deciding_is_left_to_them(asked):
    approval = asked()
    pass_the_deadline(approval)
    with transaction.atomic():
        list(Branch.objects.filter(pk=approval.branch_id).select_for_update())
        assert Elsewhere(lambda: expire.expire(approval.pk)).result() is False
    assert expire.expire(approval.pk)


def test_one_bad_row_does_not_stop_the_others(asked):
    bad, good = asked(), asked()
    for each in (bad, good):
        pass_the_deadline(each)
    with transaction.atomic():
        list(Approval.objects.filter(pk=bad.pk).select_for_update())
        swept = Elsewhere(lambda: reaper.sweep().expired).result()
    assert swept == 1
    assert state_of(good)[0] == "expired"
    assert state_of(bad)[0] == "pending"


def test_a_row_that_makes_no_sense_stops_no_sweep(asked, caplog):
    bad, good = asked(), asked()
    for each in (bad, good):
        pass_the_deadline(each)
    Approval.objects.filter(pk=bad.pk).update(terms={"then": "reject", "of": "later"})
    late = Approval.objects.order_by("due_at").first()
    assert late is not None
    assert late.pk == bad.pk  # it is the first in line
    assert reaper.sweep().expired == 1
    assert state_of(good)[0] == "expired"
    assert state_of(bad)[0] == "pending"
    (told,) = [each for each in caplog.records if each.name == reaper.logger.name]
    assert told.ids == {"row": bad.pk}


@pytest.mark.unmeasured
def test_of_a_deadline_and_a_decision_at_once_one_counts(asked, bob):
    for number in range(20):
        approval = asked()
        soon = timedelta(milliseconds=number)
        Approval.objects.filter(pk=approval.pk).update(due_at=ClockTimestamp() + soon)

        def sweep() -> bool:
            while not expire.expire(approval.pk):  # noqa: B023
                if not now(approval).is_pending:  # noqa: B023
                    return False
            return True

        said, expired = at_once(
            lambda: approve(approval, seen=approval.as_shown(), by=bob),  # noqa: B023
            sweep,
        )
        status, _, run = state_of(approval)
        assert run == "ready"
        assert (status == "approved") == isinstance(said, Decision)
        assert (status == "expired") == isinstance(said, AlreadyDecided)
        assert not (expired and status == "approved")
        assert Decision.objects.filter(approval=approval).count() == (
            status == "approved"
        )


# Escalation


def test_steps_are_taken_when_they_are_due_one_after_another(asked):
    steps = (Step(60, priority=3), Step(600, priority=1))
    approval = asked(deadline=None, escalation=steps)
    assert reaper.sweep().escalated == 0
    for level, priority in ((1, 3), (2, 3)):
        Approval.objects.update(next_step_at=ClockTimestamp())
        assert reaper.sweep().escalated == 1
        assert (now(approval).level, now(approval).priority) == (level, priority)
        assert reaper.sweep().escalated == 0
    assert now(approval).next_step_at is None
    assert actions() == ["escalate", "escalate"]


def test_a_step_takes_it_from_whom_it_was_assigned_to(asked, alice, bob):
    """Else it would stay out of the lists of everyone who is asked."""
    approval = asked(deadline=None, escalation=(Step(60), Step(600)))
    assert care.assign(approval, alice, to=bob.user_id)
    Approval.objects.update(next_step_at=ClockTimestamp())
    assert reaper.sweep().escalated == 1
    assert now(approval).assigned_to_id is None
    event = AuditEvent.objects.get(action="escalate")
    assert event.detail["before"] == bob.user_id
    # By hand, too; where there is no step left, it is only more urgent.
    assert care.assign(approval, alice, to=bob.user_id)
    assert care.escalate(approval, alice)
    assert now(approval).assigned_to_id is None
    assert care.assign(approval, alice, to=bob.user_id)
    assert care.escalate(approval, alice)
    assert now(approval).assigned_to_id == bob.user_id


def test_a_step_that_names_a_person_leaves_it_with_them(asked, alice, bob, omar):
    """Who could not decide it is passed over: being named gives nobody a right."""
    steps = (
        Step(60, person=bob.user_id),
        Step(600, person=omar.user_id),
        Step(900, person=alice.user_id, priority=4),
    )
    approval = asked(deadline=None, escalation=steps)
    assert reaper.sweep().escalated == 0
    Approval.objects.update(next_step_at=ClockTimestamp())
    assert reaper.sweep().escalated == 1
    assert (now(approval).level, now(approval).assigned_to_id) == (1, bob.user_id)
    assert escalated()["to"] == bob.user_id
    assert care.escalate(approval, alice)
    assert (now(approval).level, now(approval).assigned_to_id) == (3, alice.user_id)
    assert (escalated()["before"], escalated()["to"]) == (bob.user_id, alice.user_id)
    assert escalated()["unable"] == [str(omar.user_id)]
    assert "unseen" not in escalated()
    approve(now(approval), seen=approval.as_shown(), by=bob)  # others still may


def test_who_may_decide_nothing_is_left_with_nothing(asked, alice, omar):
    approval = asked(deadline=None, escalation=(Step(60, person=omar.user_id),))
    assert care.escalate(approval, alice)
    assert (now(approval).level, now(approval).assigned_to_id) == (1, None)
    with pytest.raises(NotEligible):
        approve(now(approval), seen=approval.as_shown(), by=omar)


def test_a_step_of_one_who_may_not_decide_leaves_it_whose_it_was_and_tells_nobody(
    asked, alice, bob, omar
):
    approval = asked(deadline=None, escalation=(Step(60, person=omar.user_id),))
    channel = Channel(
        workspace_id=approval.workspace_id,
        kind=Channel.Kind.WEBHOOK,
        name="ops",
        events=["escalated"],
    )
    channel.address = gate.seal(channel, "address", "https://ops.example/")
    channel.secret = gate.seal(channel, "secret", "s")
    with as_owner():
        channel.save()
    assert care.assign(approval, alice, to=bob.user_id)
    assert care.escalate(approval, alice)
    assert (now(approval).level, now(approval).assigned_to_id) == (1, bob.user_id)
    assert not Delivery.objects.exists()
    assert escalated()["unable"] == [str(omar.user_id)]
    assert not {"to", "before"} & set(escalated())
    another = asked(deadline=None, escalation=(Step(60, person=bob.user_id),))
    assert care.escalate(another, alice)
    assert Delivery.objects.get().approval_id == another.pk


def test_a_person_is_named_at_once_who_is_asked_and_not_left_out(
    make_thread, alice, bob, groups
):
    finance, board, _ = groups
    for group, starter, person in (
        (finance, alice, bob.user_id),
        (board, alice, None),  # bob is not in it
        (finance, bob, None),
    ):
        run = make_run(make_thread(owner=alice), starter)
        (call,) = make_calls(run, ("book", GOOD))
        steps = (Step(0, person=bob.user_id),)
        terms = Terms(groups=(group,), exclude=("starter",), escalation=steps)
        demand = Demand(terms, "dear", escalated=True)
        (approval,) = ask(run, [Request(call, book, GOOD, demand)])
        assert (now(approval).level, now(approval).assigned_to_id) == (1, person)


def test_what_names_nobody_is_kept_as_earlier_versions_read_it():
    kept = Terms(escalation=(Step(60, priority=3), Step(90, person=7))).as_json()
    assert kept["escalation"][0] == {"after": 60, "group": None, "priority": 3}
    assert Terms.of(kept).escalation[1] == Step(90, person=7)


def test_the_second_step_is_counted_from_when_it_was_asked(asked):
    approval = asked(deadline=None, escalation=(Step(60), Step(600)))
    Approval.objects.update(next_step_at=ClockTimestamp())
    reaper.sweep()
    current = now(approval)
    assert current.next_step_at == current.asked_at + timedelta(seconds=600)


def test_what_is_decided_is_not_escalated(asked, bob):
    approval = asked(deadline=None, escalation=(Step(60),))
    approve(approval, seen=approval.as_shown(), by=bob)
    Approval.objects.update(next_step_at=ClockTimestamp())
    assert escalate.due(50) == []
    assert not escalate.take_due(approval.pk)


# Groups that see nothing of a private thread


@pytest.fixture
def groups(workspace, bob, alice):
    """Finance with bob, Board with alice; Nobody with nobody."""

    def group(name: str, *people) -> str:
        with as_owner():
            made = Group.objects.create(workspace=workspace, name=name)
            made.members.set(
                Membership.objects.filter(user__in=[one.user_id for one in people])
            )
        return str(made.pk)

    return group("Finance", bob), group("Board", alice), group("Nobody")


@pytest.fixture
def asked_privately(make_thread, alice):
    """In a thread that alice alone sees."""

    def asked(visibility: str = "private", **terms) -> Approval:
        branch = make_thread(owner=alice, visibility=visibility)
        return make_waiting(branch, alice, terms=Terms(**terms))[0]

    return asked


def escalated():
    return AuditEvent.objects.filter(action="escalate").latest("position").detail


def test_a_step_to_a_group_that_sees_nothing_is_passed_over(asked_privately, groups):
    finance, board, nobody = groups
    steps = (Step(60, finance, 2), Step(600, nobody, 3), Step(900, board, 1), Step(999))
    approval = asked_privately(groups=(board,), escalation=steps)
    Approval.objects.update(next_step_at=ClockTimestamp())
    assert reaper.sweep().escalated == 1
    current = now(approval)
    assert (current.level, current.priority) == (3, 3)
    assert current.next_step_at == current.asked_at + timedelta(seconds=999)
    assert escalated()["unseen"] == [finance, nobody]
    assert escalated()["groups"] == [finance, nobody, board]


def test_where_no_step_is_left_whoever_was_asked_stays_asked(
    asked_privately, groups, alice, bob
):
    finance, board, _ = groups
    approval = asked_privately(groups=(board,), escalation=(Step(60, finance, 2),))
    assert care.escalate(approval, alice)
    current = now(approval)
    assert (current.level, current.priority) == (1, 2)
    assert escalated()["unseen"] == [finance]
    # It was not made visible to anybody, and is decided by who was asked at first.
    assert not Approval.objects.for_user(bob).filter(pk=approval.pk).exists()
    with pytest.raises(NotEligible, match="not shared"):
        approve(current, seen=current.as_shown(), by=bob)
    approve(current, seen=current.as_shown(), by=alice)
    assert state_of(approval)[0] == "approved"


def test_a_group_that_sees_it_is_asked_at_its_step(asked_privately, groups, bob):
    finance, board, _ = groups
    steps = (Step(60, finance, 2), Step(600, board, 3))
    approval = asked_privately("workspace", groups=(board,), escalation=steps)
    Approval.objects.update(next_step_at=ClockTimestamp())
    reaper.sweep()
    assert now(approval).level == 1
    assert "unseen" not in escalated()
    with as_owner():  # whoever lost the right can decide it no more
        Membership.objects.filter(user=bob.user_id).update(can_approve=False)
    assert not sight.is_seen_by(approval, [UUID(finance)])


def test_who_escalates_at_once_passes_over_too(make_thread, alice, groups):
    finance, board, _ = groups
    steps = (Step(0, finance, 2), Step(600, board, 1))
    branch = make_thread(owner=alice, visibility="private")
    run = make_run(branch, alice)
    (call,) = make_calls(run, ("book", GOOD))
    terms = Terms(groups=(board,), escalation=steps)
    demand = Demand(terms, "dear", escalated=True)
    (approval,) = ask(run, [Request(call, book, GOOD, demand)])
    assert (approval.level, approval.priority) == (2, 2)
    assert approval.next_step_at is None
