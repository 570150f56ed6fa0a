"""What was approved is what is still so: prices that change while people decide.

The external ledger judges: whatever moved when, it shows what a person approved.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from agents import queue
from agents.approvals import decide, expire, guards
from agents.errors import InvalidDecision, Stale
from agents.models import Approval, Run, ToolCall
from agents.policies import stored
from agents.runs import looks, reaper
from checkpoints import clock, gate
from checkpoints.access import Role, RunPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.models import AuditEvent
from tests.conftest import as_owner
from tests.workers.conftest import kinds, pending, wait_until
from tests.workers.desk import agents as desk

pytestmark = pytest.mark.django_db(transaction=True)

GUARD = Approval.Guard


@pytest.fixture
def costs(server):
    """Makes the booth cost so much from now on."""

    def costs(price: str) -> None:
        server.charge({"booth": {"any": {"price": price}}})

    return costs


@pytest.fixture
def asked(begin, work, server):
    """A run that waits for a booth at 1,200 to be approved."""

    def asked(tool: str = "reserve", price: str = "1200.00") -> Run:
        server.will_call("c1", tool, item="booth", price=price)
        run = begin()
        work()
        run.refresh_from_db()
        assert run.status == Run.Status.WAITING
        return run

    return asked


@pytest.fixture
def check(work):
    """What the opened page asks for, and a worker does."""

    def check(approval: Approval, by: Any) -> Approval:
        assert guards.ask_check(approval, by)
        answered: list[str] = []

        def answer(pk: str) -> None:
            answered.append(pk)
            looks.check(approval.pk)

        queue.listen(
            lambda run: None,
            name="t",
            stopping=lambda: False,
            burst=True,
            check=answer,
        )
        assert answered == [str(approval.pk)]
        return now(approval)

    return check


def now(approval: Approval) -> Approval:
    return Approval.objects.select_related("run", "call").get(pk=approval.pk)


def opened(row: Any, field: str) -> Any:
    """What a sealed column of a request holds."""
    run = row.run
    principal = RunPrincipal(run.pk, run.workspace_id, run.thread_id, run.grant_id)
    opener = gate.admit(principal, purpose="test", threads=[run.thread])
    return opener.open(row, field)


def booked(server) -> list[str]:
    return [effect["body"]["price"] for effect in server.ledger("reservations")]


def approve(approval: Approval, by: Any) -> None:
    decide.approve(approval, seen=approval.as_shown(), by=by)


def audited(approval: Approval, action: str) -> list[dict[str, Any]]:
    with as_owner():
        found = AuditEvent.objects.filter(action=action, object_id=approval.pk)
        return [event.detail for event in found.order_by("at")]


# What is asked


def test_the_request_has_what_the_guard_saw_and_the_preview(asked, server, costs):
    costs("1200.00")
    (approval,) = pending(asked())
    assert approval.guard == GUARD.SAME
    assert approval.guard_checked_at is not None
    assert opened(approval, "guard_seen") == {"price": "1200.00"}
    assert opened(approval, "preview")["body"] == "For 1200.00."
    assert approval.call.effective is None
    with connection.cursor() as cursor:
        cursor.execute("SELECT row_to_json(a)::text FROM agents_approval a")
        kept = cursor.fetchone()[0]
    for price in ("1200.00", b"1200.00".hex()):  # "1200" is in hex digits by chance
        assert price not in kept


def test_a_price_that_moved_before_people_are_asked_is_asked_about(
    asked, work, server, costs, bob
):
    costs("1500.00")
    run = asked()
    (approval,) = pending(run)
    assert (approval.guard, approval.revision) == (GUARD.CHANGED, 1)
    found = opened(approval, "guard_found")
    assert (found["was"]["price"], found["now"]["price"]) == ("1200.00", "1500.00")
    assert opened(approval.call, "effective") == {"item": "booth", "price": "1500.00"}
    assert opened(approval, "preview")["body"] == "For 1500.00."
    server.will_say("Done.")
    approve(approval, bob)
    work()
    assert booked(server) == ["1500.00"]


def test_a_preview_that_breaks_keeps_nobody_from_asking(begin, work, server):
    server.will_call("c1", "reserve", item="nothing to see", price="1200.00")
    run = begin()
    work()
    (approval,) = pending(run)
    assert opened(approval, "preview") == {"kind": "failed"}
    assert approval.guard == GUARD.SAME


# The price changes: before the decision, between it and the call


def test_changed_before_the_decision_the_page_has_a_new_revision(
    asked, check, work, server, costs, alice, bob
):
    run = asked()
    (old,) = pending(run)
    costs("1500.00")
    new = check(old, alice)
    assert (new.guard, new.revision) == (GUARD.CHANGED, old.revision + 1)
    assert not new.is_being_checked
    with pytest.raises(Stale):
        approve(old, bob)
    (event,) = audited(new, "revalidate")
    assert (event["found"], event["revision"]) == ("changed", 2)
    server.will_say("Done.")
    approve(new, bob)
    work()
    run.refresh_from_db()
    assert run.status == Run.Status.SUCCEEDED
    assert booked(server) == ["1500.00"]


def test_changed_after_the_decision_the_old_approval_books_nothing(
    asked, work, server, costs, bob
):
    run = asked()
    (old,) = pending(run)
    approve(old, bob)
    costs("1500.00")
    work()
    assert booked(server) == []
    (new,) = pending(run)
    assert (new.pk, new.guard, new.revision) == (old.pk, GUARD.CHANGED, 2)
    assert bytes(new.digest) != bytes(old.digest)
    found = opened(new, "guard_found")
    assert found["text"] == "it was 1200.00, is 1500.00"
    call = ToolCall.objects.get(pk=new.call_id)
    assert (call.status, call.attempts) == ("waiting", 0)
    with pytest.raises(Stale):
        approve(old, bob)
    server.will_say("Done.")
    approve(new, bob)
    work()
    run.refresh_from_db()
    assert run.status == Run.Status.SUCCEEDED
    assert booked(server) == ["1500.00"]
    assert kinds(run).count("interrupt") == 2


def test_changed_at_every_moment_what_is_booked_is_what_was_approved_last(
    asked, check, work, server, costs, alice, bob
):
    costs("1300.00")
    run = asked()
    (approval,) = pending(run)
    costs("1400.00")
    approval = check(approval, alice)
    approve(approval, bob)
    costs("1500.00")
    work()
    (approval,) = pending(run)
    found = opened(approval, "guard_found")
    # Against what the agent had asked for, however often it moved since.
    assert (found["was"]["price"], found["now"]["price"]) == ("1200.00", "1500.00")
    assert approval.revision == 3
    assert booked(server) == []
    server.will_say("Done.")
    approve(approval, bob)
    work()
    assert booked(server) == ["1500.00"]


def test_a_price_that_goes_back_is_another_change(
    asked, check, work, server, costs, bob
):
    run = asked()
    (approval,) = pending(run)
    costs("1500.00")
    approval = check(approval, bob)
    costs("1200.00")
    approve(approval, bob)
    work()
    assert booked(server) == []
    (approval,) = pending(run)
    assert approval.revision == 3
    server.will_say("Done.")
    approve(approval, bob)
    work()
    assert booked(server) == ["1200.00"]


def test_what_a_person_edited_stays_edited_when_the_price_moves(
    asked, work, server, costs, bob
):
    run = asked()
    (approval,) = pending(run)
    better = {"item": "booth", "price": "1300.00"}
    decide.edit(approval, seen=approval.as_shown(), by=bob, arguments=better)
    costs("1500.00")
    work()
    assert booked(server) == []
    (approval,) = pending(run)
    assert opened(approval.call, "effective") == {**better, "price": "1500.00"}
    cheaper = {**better, "price": "1500.00", "item": "stand"}
    decide.edit(approval, seen=approval.as_shown(), by=bob, arguments=cheaper)
    server.will_say("Done.")
    work()
    run.refresh_from_db()
    assert run.status == Run.Status.SUCCEEDED
    (effect,) = server.ledger("reservations")
    assert effect["body"] == cheaper


# What is let pass


@pytest.mark.parametrize(
    ("price", "passes"),
    [("1224.00", True), ("1176.00", True), ("1224.01", False), ("1175.99", False)],
)
def test_a_tolerance_lets_so_much_pass_and_no_more(
    asked, work, server, costs, bob, price, passes
):
    run = asked()
    (approval,) = pending(run)
    approve(approval, bob)
    costs(price)
    server.will_say("Done.")
    work()
    # As it was approved: what the tolerance lets pass is not what is asked for.
    assert booked(server) == (["1200.00"] if passes else [])
    assert len(pending(run)) == (not passes)


def test_small_steps_do_not_add_up(asked, check, server, costs, bob):
    run = asked()
    (approval,) = pending(run)
    for price in ("1220.00", "1222.00"):
        costs(price)
        approval = check(approval, bob)
        assert (approval.guard, approval.revision) == (GUARD.SAME, 1)
    costs("1240.00")  # less than 2 % more than the last
    assert check(approval, bob).revision == 2


# What makes no sense any more, and what cannot be found out


def test_what_is_invalid_cannot_be_approved_but_rejected(
    asked, check, work, server, costs, bob
):
    run = asked()
    (approval,) = pending(run)
    costs("gone")
    approval = check(approval, bob)
    assert (approval.guard, approval.revision) == (GUARD.INVALID, 1)
    assert opened(approval, "guard_found")["invalid"] == "booth is sold out"
    with pytest.raises(InvalidDecision, match="no longer valid"):
        approve(approval, bob)
    decide.reject(approval, seen=approval.as_shown(), by=bob, reason="Sold out.")
    server.will_say("A pity.")
    work()
    run.refresh_from_db()
    assert run.status == Run.Status.SUCCEEDED
    assert booked(server) == []


def looked_at(approval: Approval, *, ago: timedelta) -> None:
    then = ClockTimestamp() - ago
    Approval.objects.filter(pk=approval.pk).update(guard_checked_at=then)


def test_what_was_looked_at_too_long_ago_is_looked_at_before_it_is_approved(
    asked, check, work, server, costs, bob
):
    """It was 1,200; nobody opened the page since, and it costs 1,500 by now."""
    (approval,) = pending(asked())
    edited = {"item": "booth", "price": "1300"}
    costs("1500.00")
    looked_at(approval, ago=timedelta(minutes=6))
    seen = approval.as_shown()
    with pytest.raises(InvalidDecision, match="looked at again"):
        approve(approval, bob)
    assert now(approval).is_being_checked
    with pytest.raises(InvalidDecision, match="looked at again"):
        decide.edit(approval, seen=seen, by=bob, arguments=edited)
    looks.check(approval.pk)  # as a worker does that was rung
    with pytest.raises(Stale):
        approve(approval, bob)
    assert (now(approval).revision, now(approval).guard) == (2, GUARD.CHANGED)
    approve(now(approval), bob)
    server.will_say("Done.")
    work()
    assert booked(server) == ["1500.00"]


def test_a_look_that_is_recent_enough_lets_approve(asked, bob):
    (approval,) = pending(asked())
    looked_at(approval, ago=timedelta(minutes=4))
    approve(approval, bob)
    assert now(approval).status == "approved"


def test_a_tool_says_how_old_a_look_may_be(asked, bob):
    (approval,) = pending(asked("snap_up"))
    looked_at(approval, ago=timedelta(minutes=2))
    with pytest.raises(InvalidDecision, match="looked at again"):
        approve(approval, bob)


def test_what_was_looked_at_too_long_ago_is_rejected_at_once(asked, bob):
    (approval,) = pending(asked())
    looked_at(approval, ago=timedelta(hours=6))
    decide.reject(approval, seen=approval.as_shown(), by=bob, reason="Too dear.")
    assert now(approval).status == "rejected"


def test_what_nobody_can_look_at_can_be_approved_once_that_is_said(asked, bob):
    """There is no worker: after a minute the request says so."""
    (approval,) = pending(asked())
    looked_at(approval, ago=timedelta(hours=6))
    with pytest.raises(InvalidDecision, match="looked at again"):
        approve(approval, bob)
    Approval.objects.update(guard_asked_at=ClockTimestamp() - timedelta(seconds=61))
    assert guards.chase() == 1
    assert now(approval).guard == GUARD.FAILED
    approve(now(approval), bob)
    assert now(approval).status == "approved"


def test_what_becomes_invalid_after_the_decision_is_asked_about_again(
    asked, check, work, server, costs, bob
):
    run = asked()
    (approval,) = pending(run)
    approve(approval, bob)
    costs("gone")
    work()
    (approval,) = pending(run)
    assert (approval.guard, approval.revision) == (GUARD.INVALID, 2)
    with pytest.raises(InvalidDecision):
        approve(approval, bob)
    costs("1200.00")  # there is one again
    approval = check(approval, bob)
    assert approval.guard == GUARD.SAME
    server.will_say("Done.")
    approve(approval, bob)
    work()
    assert booked(server) == ["1200.00"]


@pytest.mark.parametrize(
    ("tool", "how"),
    [("reserve", "unknown"), ("reserve", "nonsense"), ("snap_up", "hang")],
)
def test_a_guard_that_cannot_tell_lets_nothing_run(
    asked, work, server, costs, bob, tool, how
):
    run = asked(tool)
    (approval,) = pending(run)
    approve(approval, bob)
    costs(how)
    work()
    (approval,) = pending(run)
    assert (approval.guard, approval.revision) == (GUARD.FAILED, 2)
    approve(approval, bob)  # a person may want it all the same; the guard may not
    work()
    (approval,) = pending(run)
    assert (approval.guard, approval.revision) == (GUARD.FAILED, 3)
    assert booked(server) == []
    costs("1200.00")
    server.will_say("Done.")
    approve(approval, bob)
    work()
    assert booked(server) == ["1200.00"]


def test_a_guard_that_could_not_tell_at_first_has_its_values_shown_before_it_runs(
    asked, check, work, server, costs, bob
):
    costs("unknown")
    run = asked()
    (approval,) = pending(run)
    assert (approval.guard, approval.guard_seen) == (GUARD.FAILED, None)
    costs("1200.00")
    approval = check(approval, bob)
    assert (approval.guard, approval.revision) == (GUARD.SAME, 2)
    server.will_say("Done.")
    approve(approval, bob)
    work()
    assert booked(server) == ["1200.00"]


# Races


def test_a_decision_that_comes_while_the_guard_looks_wins_and_is_checked_again(
    asked, work, server, costs, bob
):
    run = asked()
    (approval,) = pending(run)
    assert guards.ask_check(approval, bob)
    before = guards.waiting_for(approval.pk)
    assert before is not None
    costs("1500.00")
    principal = RunPrincipal(run.pk, run.workspace_id, run.thread_id, run.grant_id)
    again = looks.look_again(before, desk.reserve, principal)
    assert again.found.guard == GUARD.CHANGED
    approve(approval, bob)
    assert not looks.put_on(before, again, desk.reserve, principal)
    decided = now(approval)
    assert (decided.status, decided.revision) == ("approved", 1)
    work()
    assert booked(server) == []
    assert pending(run)[0].guard == GUARD.CHANGED


def test_a_check_that_comes_first_leaves_the_decision_with_nothing(
    asked, check, work, server, costs, bob
):
    run = asked()
    (shown,) = pending(run)
    costs("1500.00")
    check(shown, bob)
    for verdict in (decide.approve, decide.reject):
        more: dict[str, Any] = {"reason": "No."} if verdict is decide.reject else {}
        with pytest.raises(Stale):
            verdict(shown, seen=shown.as_shown(), by=bob, **more)
    work()
    assert booked(server) == []


# Lost on the way


def test_one_check_at_a_time_and_none_where_there_is_nothing_to_check(
    asked, begin, work, server, bob
):
    (approval,) = pending(asked())
    assert guards.ask_check(approval, bob)
    assert not guards.ask_check(approval, bob)
    server.will_call("c2", "book", item="seat", price="1200.00")
    run = begin("Book a seat.")
    work()
    (plain,) = pending(run)
    assert plain.guard == ""
    assert not guards.ask_check(plain, bob)


def late(approval: Approval, by: Any, *, seconds: int) -> None:
    """A check that was asked so long ago, and of which nothing was heard."""
    assert guards.ask_check(approval, by)
    with queue.connect(timeout=10) as redis:
        redis.flushdb()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE agents_approval SET guard_asked_at ="
            " clock_timestamp() - make_interval(secs => %s)",
            [seconds],
        )


def test_a_check_whose_ring_was_lost_is_rung_again(asked, server, costs, bob):
    (approval,) = pending(asked())
    late(approval, bob, seconds=7)
    costs("1500.00")
    assert reaper.sweep().chased == 1
    reaper.sweep()  # no second ring for the same time
    heard: list[str] = []
    queue.listen(
        lambda run: None,
        name="t",
        stopping=lambda: False,
        burst=True,
        check=heard.append,
    )
    assert heard == [str(approval.pk)]
    looks.check(approval.pk)
    assert now(approval).guard == GUARD.CHANGED
    assert reaper.sweep().chased == 0


def test_a_check_that_never_comes_back_is_said_to_have_failed(asked, bob):
    (approval,) = pending(asked())
    late(approval, bob, seconds=61)
    assert reaper.sweep().chased == 1
    given_up = now(approval)
    assert (given_up.guard, given_up.is_being_checked) == (GUARD.FAILED, False)
    assert guards.ask_check(approval, bob)  # and one may try again


def test_what_is_not_valid_any_more_stays_so_where_nobody_can_look(asked, bob):
    (approval,) = pending(asked())
    Approval.objects.filter(pk=approval.pk).update(guard=GUARD.INVALID)
    late(approval, bob, seconds=61)
    assert reaper.sweep().chased == 1
    given_up = now(approval)
    assert (given_up.guard, given_up.is_being_checked) == (GUARD.INVALID, False)


def test_a_worker_checks_what_was_rung_and_finds_it_without_redis(
    workers, asked, costs, bob
):
    (approval,) = pending(asked())
    costs("1500.00")
    workers.start()
    assert guards.ask_check(approval, bob)
    wait_until(lambda: now(approval).guard == GUARD.CHANGED)


# What is bound


def test_what_the_guard_saw_cannot_be_exchanged(asked, work, server, bob):
    run = asked()
    (approval,) = pending(run)
    approve(approval, bob)
    row = now(approval)
    row.guard_seen = gate.seal(row, "guard_seen", {"price": "9000.00"})
    row.save(update_fields=["guard_seen"])
    work()
    assert booked(server) == []
    assert pending(run)[0].revision == 2


# What it costs now may be another rule's


@pytest.fixture
def dear(join):
    """Two people for what costs over 1,400; over 2,000, nobody."""
    admin = join("ruth", Role.ADMIN, can_approve=True)

    def rule(name: str, over: str, **more: Any) -> dict[str, Any]:
        when = {"path": "/price", "op": "gt", "value": over}
        return {"id": name, "name": name, "tools": "reserve", "when": when, **more}

    rules = [
        rule("never", "2000", outcome="auto_reject", message="Too dear."),
        rule("two", "1400", outcome="require", terms={"approvers": 2}),
    ]
    with as_owner():
        return stored.save(admin, None, rules, "", after_version=0)


@pytest.mark.usefixtures("dear")
def test_a_price_that_moved_past_another_rule_is_asked_about_as_that_one_says(
    asked, check, costs, bob
):
    (approval,) = pending(asked())
    assert (approval.approvers, approval.policy_id) == (1, None)
    costs("1500.00")
    approval = check(approval, bob)
    assert (approval.rule, approval.approvers) == ("two", 2)
    costs("2500.00")
    approval = check(approval, bob)
    assert approval.guard == GUARD.INVALID
    assert opened(approval, "guard_found")["invalid"] == "Too dear."
    with pytest.raises(InvalidDecision):
        approve(approval, bob)


@pytest.mark.usefixtures("dear")
@pytest.mark.parametrize("price", ["1500.00", "2500.00"])
def test_a_price_that_moved_before_anybody_was_asked_is_judged_by_what_it_is(
    begin, work, server, costs, price
):
    costs(price)
    server.will_call("c1", "reserve", item="booth", price="1200.00")
    server.will_say("A pity.")
    run = begin()
    work()
    assert [each.approvers for each in pending(run)] == (
        [2] if price == "1500.00" else []
    )


@pytest.mark.usefixtures("dear")
@pytest.mark.parametrize("price", ["1500.00", "2500.00"])
def test_a_price_that_moved_after_the_decision_is_judged_by_what_it_is(
    asked, work, server, costs, bob, price
):
    run = asked()
    (approval,) = pending(run)
    approve(approval, bob)
    costs(price)
    server.will_say("A pity.")
    work()
    assert booked(server) == []
    assert [each.approvers for each in pending(run)] == (
        [2] if price == "1500.00" else []
    )


def test_a_deadline_that_passed_does_not_count_where_another_rule_s_began(
    join, asked, check, costs, bob
):
    """Held over its first deadline; then it costs what another rule asks about."""
    admin = join("ruth", Role.ADMIN, can_approve=True)
    over = {"path": "/price", "op": "gt"}
    rules = [
        {"id": "dear", "when": {**over, "value": "1400"}, "terms": {"deadline": 3600}},
        {"id": "usual", "terms": {"deadline": 60, "then": "hold"}},
    ]
    rules = [{"name": each["id"], "tools": "reserve", **each} for each in rules]
    rules = [{"outcome": "require", **each} for each in rules]
    with as_owner():
        stored.save(admin, None, rules, "", after_version=0)
    run = asked()
    late = Approval.objects.filter(run=run)
    late.update(due_at=ClockTimestamp() - timedelta(seconds=1))
    assert expire.expire(pending(run)[0].pk)
    assert late.get().overdue_at is not None
    costs("1500.00")
    approval = check(late.get(), bob)
    assert (approval.rule, approval.overdue_at) == ("dear", None)
    assert approval.due_at > clock.now()
    late.update(due_at=ClockTimestamp() - timedelta(seconds=1))
    assert expire.expire(approval.pk)
    assert late.get().status == "expired"  # and the run goes on
