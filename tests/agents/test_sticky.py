"""Approve and remember: what goes ahead by it, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import connection, connections, transaction

from agents.approvals.ask import Request, ask
from agents.approvals.decide import approve, edit, reject
from agents.approvals.undo import undo
from agents.errors import InvalidSticky, NotEligible
from agents.models import Approval, Run, StickyRule, ToolCall
from agents.policies import sticky, stored
from agents.policies.back_test import back_test
from agents.policies.judge import Judge
from agents.policies.remembered import exact
from agents.pure.terms import Terms
from agents.tools.guards import Unchanged
from checkpoints import clock
from checkpoints.access import Reason, Role, UserPrincipal, unscoped
from checkpoints.models import AuditEvent, Membership, Thread
from tests.agents.waiting import (
    GOOD,
    book,
    make_calls,
    make_run,
    make_waiting,
    opener_for,
)
from tests.conftest import as_owner
from tests.elsewhere import Elsewhere, uncommitted

pytestmark = pytest.mark.django_db(transaction=True)

DEARER = {**GOOD, "price": "1300.00"}
WIDER = {"all": [{"path": "/price", "op": "lte", "value": "1500"}]}


@pytest.fixture(autouse=True)
def everything():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def approval(make_thread, alice, bob) -> Approval:
    """Asked by a run of alice's; bob has approved it."""
    (asked,) = make_waiting(make_thread(owner=alice), alice)
    approve(asked, seen=asked.as_shown(), by=bob)
    asked.refresh_from_db()
    return asked


@pytest.fixture
def remember(approval, bob) -> Callable[..., StickyRule]:
    def remember(scope: str = "thread", **more: Any) -> StickyRule:
        until = more.pop("expires_at", clock.now() + timedelta(days=7))
        by, predicate = more.pop("by", bob), more.pop("predicate", None)
        seen = more.pop("seen", approval.as_shown())
        return sticky.remember(approval, seen, by, scope, predicate, expires_at=until)

    return remember


def call_of(run: Run, arguments: dict[str, Any]) -> ToolCall:
    (row,) = make_calls(run, ("book", arguments))
    return row


def judged(run: Run, row: ToolCall, arguments: dict[str, Any], tool=book) -> str:
    rules = stored.in_force(run.workspace_id, run.agent_version.agent_id)
    return Judge(run, rules, opener_for(run)).judge(row, tool, arguments).kind


def next_call(run: Run, arguments: dict[str, Any] = GOOD, tool=book) -> str:
    return judged(run, call_of(run, arguments), arguments, tool)


@pytest.fixture
def next_run(approval, alice) -> Callable[[], Run]:
    """Another run in the same thread, once the first is over."""

    def next_run() -> Run:
        Run.objects.update(status="succeeded")
        return make_run(approval.branch, alice)

    return next_run


@pytest.fixture
def elsewhere(make_thread, alice) -> Callable[..., Run]:
    """A run of the same agent in another thread."""

    def elsewhere(**more: Any) -> Run:
        return make_run(make_thread(owner=alice, **more), alice)

    return elsewhere


def test_without_a_rule_each_call_is_asked_about(approval):
    assert next_call(approval.run) == "require"


@pytest.mark.parametrize(
    ("scope", "same_run", "same_thread", "other_thread"),
    [
        ("run", True, False, False),
        ("thread", True, True, False),
        ("agent", True, True, True),
    ],
)
def test_it_holds_where_it_was_made_for(
    approval, remember, next_run, elsewhere, scope, same_run, same_thread, other_thread
):
    remember(scope)
    assert (next_call(approval.run) == "auto_approve") is same_run
    assert (next_call(next_run()) == "auto_approve") is same_thread
    assert (next_call(elsewhere()) == "auto_approve") is other_thread


def test_a_hit_is_counted_and_audited_once_for_each_call(approval, remember):
    rule = remember()
    row = call_of(approval.run, GOOD)
    # A worker died before it ran: it is let go again.
    assert judged(approval.run, row, GOOD) == "auto_approve"
    assert judged(approval.run, row, GOOD) == "auto_approve"
    rule.refresh_from_db()
    assert rule.hits == 1
    assert rule.last_hit_at is not None
    (told,) = AuditEvent.objects.filter(action="sticky")
    assert told.object_id == rule.pk
    assert told.detail["call"] == str(row.pk)
    assert told.detail["made_by"] == rule.made_by_id
    assert told.detail["approval"] == str(approval.pk)


def test_of_many_at_once_once_is_one(approval, remember):
    remember("once")
    run, rows = approval.run, [call_of(approval.run, GOOD) for _ in range(8)]
    together = Barrier(len(rows))

    def one(row: ToolCall) -> str:
        try:
            with unscoped(Reason.TEST):
                with connection.cursor() as cursor:
                    cursor.execute("SELECT 1")
                together.wait(timeout=60)
                return judged(run, row, GOOD)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(rows)) as pool:
        found = list(pool.map(one, rows))
    assert sorted(found) == ["auto_approve"] + ["require"] * 7


@pytest.mark.parametrize(
    "arguments",
    [
        DEARER,
        {**GOOD, "flight": "TP 210"},
        {**GOOD, "seats": 2},  # an argument that nobody saw
        {**GOOD, "price": None},
        {"price": "1200.00"},
    ],
)
def test_other_arguments_are_asked_about(approval, remember, arguments):
    remember("agent")
    assert next_call(approval.run, arguments) == "require"


def test_it_is_as_wide_as_it_was_made(approval, remember):
    remember(predicate=WIDER)
    assert next_call(approval.run, {**DEARER, "flight": "X"}) == "auto_approve"
    assert next_call(approval.run, {**GOOD, "price": "1500.01"}) == "require"
    assert next_call(approval.run, {**GOOD, "price": "NaN"}) == "require"


@pytest.mark.parametrize(
    "predicate",
    [
        {"all": []},
        {"any": exact(GOOD)["all"]},
        {"not": exact(GOOD)},
        {"all": [{"path": "/price", "op": "gt", "value": "5000"}]},
        {"all": [{"path": "/seats", "op": "exists", "value": True}]},
        {"all": [{"path": "/flight", "op": "matches", "value": ".*"}]},
        {"all": [{"path": "/flight", "op": "ne", "value": "X"}]},
        {"all": [{"all": []}]},
        {"all": [{"count": True, "over_hours": 1, "op": "gt", "value": 1}]},
        "everything",
    ],
)
def test_it_is_widened_by_dropping_or_loosening_what_was_seen(remember, predicate):
    with pytest.raises(InvalidSticky):
        remember(predicate=predicate)
    assert not StickyRule.objects.exists()


@pytest.mark.parametrize("days", [-1, 0, 91])
def test_it_ends_within_ninety_days(remember, days):
    with pytest.raises(InvalidSticky, match="90"):
        remember(expires_at=clock.now() + timedelta(days=days))


def test_who_did_not_approve_it_as_shown_makes_none(
    approval, remember, alice, bob, make_thread
):
    with pytest.raises(InvalidSticky, match="Approve it first"):
        remember(by=alice)
    (other,) = make_waiting(make_thread(owner=alice), alice)
    edit(other, seen=other.as_shown(), by=bob, arguments=dict(DEARER))
    other.refresh_from_db()
    until = clock.now() + timedelta(days=1)
    with pytest.raises(InvalidSticky, match="Approve it first"):
        sticky.remember(other, other.as_shown(), bob, "run", expires_at=until)


def test_who_may_not_approve_makes_none(remember, omar):
    with pytest.raises(NotEligible):
        remember(by=omar)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"risk": "critical"}, "critical"),
        ({"terms": {"approvers": 2}}, "more than one"),
        ({"terms": {"reauthenticate": True}}, "password"),
        ({"terms": {"typed": True}}, "typed"),
        ({"kind": "unknown"}, "asks to be made"),
    ],
)
def test_it_is_not_offered_for_what_asks_for_more_care(approval, bob, change, why):
    assert sticky.offered(approval, bob) == ""
    for name, value in change.items():
        setattr(approval, name, value)
    assert why in sticky.offered(approval, bob)


def test_what_a_guard_looks_after_is_asked_about_each_time(approval, remember):
    remember()
    guarded = replace(book, guard=lambda: Unchanged({}))
    assert next_call(approval.run, tool=guarded) == "require"


# What has changed since


@pytest.fixture
def saved(join) -> Callable[[dict[str, Any]], None]:
    admin = join("ada", Role.ADMIN)

    def saved(rule: dict[str, Any]) -> None:
        with as_owner():
            stored.save(
                admin, None, [{"id": "r", "name": "R", **rule}], "", after_version=0
            )

    return saved


COUNTS = {"count": True, "over_hours": 24, "op": "gt", "value": 3}


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({"outcome": "require"}, "auto_approve"),
        ({"outcome": "require", "risk": "critical"}, "require"),
        ({"outcome": "require", "terms": {"approvers": 2}}, "require"),
        ({"outcome": "require", "terms": {"typed": True}}, "require"),
        ({"outcome": "auto_reject"}, "auto_reject"),
        ({"outcome": "require", "when": COUNTS}, "require"),
    ],
)
def test_a_stricter_policy_goes_before(approval, remember, saved, rule, kind):
    remember()
    saved(rule)
    assert next_call(approval.run) == kind


def test_where_calls_are_counted_it_is_not_offered(approval, saved, bob):
    saved({"outcome": "require", "when": COUNTS})
    assert "counts" in sticky.offered(approval, bob)


def test_who_lost_the_right_lets_nothing_go_any_more(approval, remember, bob):
    remember()
    with as_owner():
        Membership.objects.filter(user_id=bob.user_id).update(can_approve=False)
    assert next_call(approval.run) == "require"


def test_it_does_not_reach_into_threads_that_its_maker_does_not_see(
    remember, elsewhere
):
    remember("agent")
    private = elsewhere()
    Thread.objects.filter(pk=private.thread_id).update(visibility="private")
    assert next_call(private) == "require"


def test_a_tool_that_changed_is_asked_about(approval, remember):
    remember()
    assert next_call(approval.run, tool=replace(book, version="2")) == "require"


def taken_back(rule: StickyRule) -> None:
    Approval.objects.update(status="pending", decided_by=None)


def not_final(rule: StickyRule) -> None:
    Approval.objects.update(final_at=clock.now() + timedelta(minutes=1))


def over(rule: StickyRule) -> None:
    StickyRule.objects.update(expires_at=rule.made_at)


def for_ever(rule: StickyRule) -> None:
    StickyRule.objects.update(expires_at=clock.now() + timedelta(days=999))


def for_all(rule: StickyRule) -> None:
    StickyRule.objects.update(scope="agent")


def by_another(rule: StickyRule) -> None:
    alice = rule.run.started_by_id
    Approval.objects.update(decided_by=alice)
    StickyRule.objects.update(made_by=alice)


def revoked_and_put_back(rule: StickyRule) -> None:
    """By somebody who can write the tables, and kept a copy of the row."""
    before = StickyRule.objects.filter(pk=rule.pk).values().get()
    maker = rule.made_by
    sticky.revoke(
        rule,
        UserPrincipal(
            user_id=maker.pk,
            workspace_id=rule.workspace_id,
            role=Role.OPERATOR,
            can_approve=True,
            name=str(maker),
        ),
    )
    StickyRule.objects.filter(pk=rule.pk).update(**before)


def of_a_copy(rule: StickyRule) -> None:
    copy = StickyRule.objects.get(pk=rule.pk)
    StickyRule.objects.update(revoked_at=clock.now())
    copy._state.adding, copy.id = True, StickyRule(tool="").id
    copy.save(force_insert=True)


@pytest.mark.parametrize(
    "change",
    [
        *(taken_back, not_final, over, for_ever, for_all, by_another),
        *(revoked_and_put_back, of_a_copy),
    ],
)
def test_what_is_over_or_was_altered_lets_nothing_go(approval, remember, change):
    rule = remember()
    assert next_call(approval.run) == "auto_approve"
    change(rule)
    assert next_call(approval.run) == "require"


def test_it_is_revoked_at_once_and_once(approval, remember, alice, omar):
    rule = remember()
    with pytest.raises(NotEligible):
        sticky.revoke(rule, omar)
    assert sticky.revoke(rule, alice) is True
    assert sticky.revoke(rule, alice) is False
    assert next_call(approval.run) == "require"
    rule.refresh_from_db()
    assert rule.revoked_by_id == alice.user_id
    assert AuditEvent.objects.filter(action="sticky_revoke").count() == 1


def test_it_is_sealed(remember, approval, bob):
    rule = remember()
    assert b"TP 209" not in bytes(rule.predicate or b"")
    assert sticky.shown([rule], opener_for(approval.run)) == [exact(GOOD)]


def test_a_back_test_says_what_people_rejected(approval, make_thread, alice, bob):
    def asked(arguments: dict[str, Any]) -> Approval:
        (found,) = make_waiting(make_thread(owner=alice), alice, ("book", arguments))
        return found

    no = asked({**DEARER, "flight": "X"})
    reject(no, seen=no.as_shown(), by=bob, reason="Too dear.")
    changed = asked(DEARER)
    edit(changed, seen=changed.as_shown(), by=bob, arguments=dict(GOOD))
    asked({**GOOD, "price": "9000"})
    narrow = back_test(approval, bob, "agent")
    assert (narrow.would_approve, narrow.rejected, narrow.looked_at) == (1, (), 4)
    wide = back_test(approval, bob, "agent", WIDER)
    assert wide.would_approve == 3
    assert wide.rejected == (str(no),)
    assert wide.edited == (str(changed),)
    assert back_test(approval, bob, "thread", WIDER).looked_at == 1


def test_a_back_test_shows_nothing_of_threads_that_one_does_not_see(
    approval, make_thread, alice, bob: UserPrincipal
):
    (hidden,) = make_waiting(make_thread(owner=alice), alice)
    Thread.objects.filter(pk=hidden.thread_id).update(visibility="private")
    assert back_test(approval, bob, "agent").looked_at == 1
    assert back_test(approval, alice, "agent").looked_at == 2


def test_what_is_taken_back_is_remembered_no_more(make_thread, alice, bob):
    """Approved once more, it is remembered only if that is said once more."""
    terms = Terms(grace=60)
    (asked,) = make_waiting(make_thread(owner=alice), alice, terms=terms)

    def now() -> Approval:
        return Approval.objects.get(pk=asked.pk)

    approve(asked, seen=asked.as_shown(), by=bob)
    until = clock.now() + timedelta(days=7)
    rule = sticky.remember(now(), asked.as_shown(), bob, "agent", expires_at=until)
    undo(now(), bob)
    rule.refresh_from_db()
    assert rule.revoked_at is not None
    assert rule.revoked_by_id == bob.user_id
    assert AuditEvent.objects.filter(action="sticky_revoke", object_id=rule.pk).exists()
    approve(now(), seen=now().as_shown(), by=bob)
    over = clock.now() - timedelta(seconds=1)
    Approval.objects.filter(pk=asked.pk).update(final_at=over)
    Run.objects.update(status="succeeded")
    assert next_call(make_run(asked.branch, alice)) == "require"


@pytest.fixture
def in_its_window(make_thread, alice, bob) -> Approval:
    """Bob approved it, and can take that back for a minute."""
    terms = Terms(grace=60)
    (asked,) = make_waiting(make_thread(owner=alice), alice, terms=terms)
    approve(asked, seen=asked.as_shown(), by=bob)
    return Approval.objects.get(pk=asked.pk)


def remembering(asked: Approval, by: UserPrincipal) -> StickyRule:
    until = clock.now() + timedelta(days=7)
    return sticky.remember(asked, asked.as_shown(), by, "agent", expires_at=until)


def test_what_is_being_taken_back_is_not_remembered(in_its_window, bob):
    """Else the rule would count once the request is approved anew, which it may be."""
    asked = in_its_window
    with uncommitted(lambda: undo(asked, bob)):
        late = Elsewhere(lambda: remembering(asked, bob))
        late.wait_until_it_waits()
    with pytest.raises(InvalidSticky, match="Approve it first"):
        late.result()
    assert not StickyRule.objects.exists()


def test_what_is_taken_back_finds_what_is_being_remembered(in_its_window, bob):
    asked = in_its_window
    with as_owner(), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE agents_stickyrule IN SHARE MODE")
        made = Elsewhere(lambda: remembering(asked, bob))
        made.wait_until_it_waits()  # for the table, with the request locked
        back = Elsewhere(lambda: undo(asked, bob))
        back.wait_until_it_waits()
    rule = made.result()
    back.result()
    rule.refresh_from_db()
    assert rule.revoked_at is not None


def test_what_is_being_revoked_is_not_revoked_again(in_its_window, bob, join):
    """Who takes the approval back waits, and the log has one who revoked it."""
    rule = remembering(in_its_window, bob)
    carol = join("carol", can_approve=True)
    with uncommitted(lambda: sticky.revoke(rule, carol)):
        back = Elsewhere(lambda: undo(in_its_window, bob))
        back.wait_until_it_waits()
    back.result()
    rule.refresh_from_db()
    assert rule.revoked_by_id == carol.user_id
    (event,) = AuditEvent.objects.filter(action="sticky_revoke", object_id=rule.pk)
    assert event.actor_id == carol.user_id


def test_what_is_asked_again_is_remembered_no_more(remember, approval, alice, bob):
    """The tool changed after the approval: it does not hold, nor does what stands on it."""
    rule = remember("agent")
    calls = ToolCall.objects.filter(pk=approval.call_id)
    (call,) = calls
    run = Run.objects.get(pk=approval.run_id)
    (again,) = ask(run, [Request(call, book, GOOD)])
    assert (again.pk, again.revision) == (approval.pk, approval.revision + 1)
    rule.refresh_from_db()
    assert rule.revoked_at is not None
    assert rule.revoked_by_id is None  # nobody did it
    event = AuditEvent.objects.get(action="sticky_revoke", object_id=rule.pk)
    assert event.via == "worker"
    # Approved once more, by the same person: nothing was said of remembering it.
    approve(again, seen=again.as_shown(), by=bob)
    Run.objects.update(status="succeeded")
    assert next_call(make_run(approval.branch, alice)) == "require"
