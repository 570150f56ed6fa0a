"""From the audit export alone: who let each effect happen, what they saw, by which policy."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from agents.approvals import break_glass, decide
from agents.models import Approval, Run, StickyRule, ToolCall
from agents.policies import sticky, stored
from checkpoints import audit_export, clock
from checkpoints.access import Role, UserPrincipal
from checkpoints.audit_chain import link_pending
from checkpoints.models import AuditEvent, Membership
from tests.conftest import as_owner
from tests.workers.conftest import ended, pending, wait_until
from tests.workers.tracing import trace

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def admin(join) -> UserPrincipal:
    return join("ada", Role.ADMIN)


def exported(workspace: Any, kind: str, by: UserPrincipal) -> list[dict[str, Any]]:
    """The events in a file of the export; nothing else is looked at."""
    while link_pending():
        pass
    text = "".join(audit_export.begin(workspace.pk, kind, by=by))
    if kind == "csv":
        rows = csv.DictReader(text.splitlines())
        return [{**row, "detail": json.loads(row["detail"])} for row in rows]
    lines = map(json.loads, text.splitlines())
    return [{**line, **line.get("event", {})} for line in lines]


def exported_lines(workspace: Any, by: UserPrincipal) -> list[str]:
    while link_pending():
        pass
    return "".join(audit_export.begin(workspace.pk, "jsonl", by=by)).splitlines()


def of_call(
    events: list[dict[str, Any]], action: str, call: str
) -> list[dict[str, Any]]:
    return [
        event["detail"]
        for event in events
        if event["action"] == action and event["detail"].get("call") == call
    ]


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_each_effect_leads_to_who_approved_it_and_what_they_saw(
    kind, begin, server, work, alice, bob, workspace, admin
):
    seen: dict[
        str, tuple[str, str]
    ] = {}  # by call: who, and the digest of what may run
    for n, (person, verdict) in enumerate([(alice, "approve"), (bob, "edit")]):
        server.will_call(f"c{n}", "book", item=f"TP {n}", price="1200")
        server.will_call(f"s{n}", "send", text=f"Booked {n}")
        server.will_say("Done.")
        # The model repeats what it answered to the same words.
        run = begin(f"Book trip {n}.")
        work()
        (asked,) = pending(run)
        if verdict == "approve":
            decide.approve(asked, seen=asked.as_shown(), by=person)
        else:
            arguments = {"item": f"TP {n}", "price": "900"}
            decide.edit(asked, seen=asked.as_shown(), by=person, arguments=arguments)
        after = Approval.objects.get(pk=asked.pk)
        seen[str(asked.call_id)] = str(person.user_id), bytes(after.digest).hex()
        work()
    effects = [*server.ledger("bookings"), *server.ledger("emails")]
    assert [effect["kind"] for effect in effects] == [
        *("bookings", "bookings", "emails", "emails")
    ]
    events = exported(workspace, kind, admin)
    assert "TP 0" not in json.dumps(events)
    for effect in effects:
        call = effect["key"]
        (begun,) = of_call(events, "begin", call)
        (done,) = of_call(events, "execute", call)
        assert done["status"] == "succeeded"
        assert begun["run"] == done["run"]
        if call not in seen:  # a rule of code lets it go
            assert "approvers" not in done
            assert done["unasked"] == begun["unasked"] == "never"
            continue
        who, digest = seen[call]
        for each in (begun, done):
            assert (each["approvers"], each["digest"]) == ([who], digest)
            assert each["rule"] == "over 1,000"  # of code; a policy has id and version
        (asked_event,) = (
            event
            for event in events
            if event["action"] == "ask" and event["object_id"] == done["approval"]
        )
        assert asked_event["action"] == "ask"
        said = [
            event
            for event in events
            if event["object_id"] == done["approval"]
            and event["action"] in ("approve", "edit")
        ]
        assert [str(event["actor"]) for event in said] == [who]


def test_a_call_that_failed_leads_to_who_approved_it_and_by_which_policy(
    begin, server, work, bob, workspace, admin
):
    """It took effect, and its result cannot be kept: the log says both, and why it ran."""
    rule = {"id": "r1", "name": "orders", "tools": "misorder", "outcome": "require"}
    with as_owner():
        made = stored.save(admin, None, [rule], "", after_version=0)
    server.will_call("c1", "misorder")
    server.will_say("Ordered, but I cannot say what.")
    run = begin()
    work()
    (asked,) = pending(run)
    decide.approve(asked, seen=asked.as_shown(), by=bob)
    work()
    (effect,) = server.ledger()
    events = exported(workspace, "jsonl", admin)
    (begun,) = of_call(events, "begin", effect["key"])
    (done,) = of_call(events, "execute", effect["key"])
    (event,) = (each for each in events if each["action"] == "execute")
    assert (event["outcome"], done["status"]) == ("failed", "failed")
    assert event["object_id"] == done["approval"] == str(asked.pk)
    for each in (begun, done):
        assert (each["approvers"], each["revision"]) == ([str(bob.user_id)], 1)
        assert each["digest"] == bytes(asked.digest).hex()
        assert (each["policy"], each["policy_version"]) == (str(made.pk), 1)
    assert ToolCall.objects.get().status == "failed"


def test_a_call_whose_worker_died_is_in_the_log_from_its_intent_on(
    begin, server, workers, workspace, admin, tmp_path
):
    """Between effect and result: what came of it is not known, what let it happen is."""
    server.will_call("c1", "send", text="Hello")
    server.will_say("Sent.")
    run = begin()
    workers.start(
        1,
        HOLDPOINT_FAILPOINTS="after effect",
        HOLDPOINT_FAILPOINTS_REACHED=str(tmp_path),
    )
    wait_until(lambda: Run.objects.get(pk=run.pk).status == "waiting")
    (effect,) = server.ledger("emails")
    events = exported(workspace, "jsonl", admin)
    (begun,) = of_call(events, "begin", effect["key"])
    assert (begun["run"], begun["unasked"]) == (str(run.pk), "never")
    assert of_call(events, "execute", effect["key"]) == []


def lose_the_right(person: UserPrincipal) -> None:
    with as_owner():
        its = Membership.objects.filter(user_id=person.user_id)
        its.update(can_approve=False)


def test_of_a_quorum_those_are_named_whose_approvals_count(
    begin, server, work, join, bob, workspace, admin
):
    """Bob approved it, too, and may not any more when the others do."""
    terms = {"approvers": 2, "exclude": []}
    rule = {"id": "r1", "name": "two", "tools": "book", "outcome": "require"}
    with as_owner():
        stored.save(admin, None, [{**rule, "terms": terms}], "", after_version=0)
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Done.")
    run = begin()
    work()
    carol, dora = (join(name, can_approve=True) for name in ("carol", "dora"))
    for person in (bob, carol, dora):
        (asked,) = pending(run)
        decide.approve(asked, seen=asked.as_shown(), by=person)
        if person is bob:
            lose_the_right(bob)
    work()
    (effect,) = server.ledger()
    events = exported(workspace, "jsonl", admin)
    for action in ("begin", "execute"):
        (event,) = of_call(events, action, effect["key"])
        assert event["approvers"] == [str(carol.user_id), str(dora.user_id)]


def test_who_breaks_the_glass_is_named_alone(
    begin, server, work, join, bob, workspace, admin
):
    """One of two had approved it: it did not go ahead by that."""
    terms = {"approvers": 2, "exclude": [], "grace": 0}
    rule = {"id": "r1", "name": "two", "tools": "book", "outcome": "require"}
    with as_owner():
        stored.save(admin, None, [{**rule, "terms": terms}], "", after_version=0)
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Done.")
    run = begin()
    work()
    dora = join("dora", Role.ADMIN, can_approve=True)
    (asked,) = pending(run)
    decide.approve(asked, seen=asked.as_shown(), by=bob)
    break_glass.approve(asked, seen=asked.as_shown(), by=dora, reason="It burns.")
    work()
    (effect,) = server.ledger()
    events = exported(workspace, "jsonl", admin)
    for action in ("begin", "execute"):
        (event,) = of_call(events, action, effect["key"])
        assert event["approvers"] == [str(dora.user_id)]


@pytest.fixture
def remembered(begin, server, work, bob) -> Callable[[], StickyRule]:
    """What bob approved, which was made then, and has remembered for this agent."""

    def remembered() -> StickyRule:
        server.will_call("c1", "book", item="TP 209", price="1200")
        server.will_say("Booked it.")
        run = begin()
        work()
        (asked,) = pending(run)
        decide.approve(asked, seen=asked.as_shown(), by=bob)
        asked.refresh_from_db()
        until = clock.now() + timedelta(days=1)
        seen = asked.as_shown()
        rule = sticky.remember(asked, seen, bob, "agent", expires_at=until)
        work()
        return rule

    return remembered


@pytest.fixture
def again(begin, server) -> Callable[[], Run]:
    """A run that wants the same."""

    def again() -> Run:
        server.will_call("c1", "book", item="TP 209", price="1200")
        server.will_say("Done.")
        return begin("Book it once more.")

    return again


def leads_to(
    events: list[dict[str, Any]], why: dict[str, Any], person: int
) -> tuple[int, str]:
    """To the person who had it remembered, and to what they saw when they approved it."""
    (made,) = (
        each
        for each in events
        if each["object_id"] == why["sticky"] and each["action"] == "sticky_make"
    )
    assert str(made["actor"]) == str(person)
    (said,) = (
        each
        for each in events
        if each["object_id"] == why["remembered_from"] and each["action"] == "approve"
    )
    assert str(said["actor"]) == why["made_by"] == str(person)
    assert made["detail"]["approval"] == why["remembered_from"]
    assert said["detail"]["revision"] == made["detail"]["revision"]
    return made["detail"]["revision"], made["detail"]["digest"]


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_call_that_was_remembered_leads_to_the_rule_and_to_who_had_it_remembered(
    kind, remembered, again, server, work, bob, workspace, admin
):
    rule = remembered()
    again()
    work()
    first, second = server.ledger("bookings")
    events = exported(workspace, kind, admin)
    (own,) = of_call(events, "execute", first["key"])
    assert (own["approvers"], "sticky" in own) == ([str(bob.user_id)], False)
    (begun,) = of_call(events, "begin", second["key"])
    (done,) = of_call(events, "execute", second["key"])
    for each in (begun, done):
        assert "unasked" not in each
        assert "approvers" not in each  # nobody was asked about this one
        assert (each["sticky"], each["rule"]) == (str(rule.pk), "over 1,000")
        saw = leads_to(events, each, bob.user_id)
        assert saw == (own["revision"], own["digest"])


@pytest.mark.parametrize("by", ["sticky rule", "policy"])
def test_who_goes_on_with_a_call_of_a_worker_that_died_says_what_let_it_begin(
    by, remembered, again, server, workers, workspace, admin, tmp_path
):
    """It may be made again, and is not judged again."""
    why: dict[str, Any]
    if by == "policy":
        free = {"id": "r1", "name": "free", "tools": "book", "outcome": "auto_approve"}
        with as_owner():
            made = stored.save(admin, None, [free], "", after_version=0)
        why = {"policy": str(made.pk), "policy_version": 1, "rule": "r1"}
    else:
        why = {"sticky": str(remembered().pk), "rule": "over 1,000"}
    run = again()
    workers.start(
        1,
        HOLDPOINT_FAILPOINTS="after effect",
        HOLDPOINT_FAILPOINTS_REACHED=str(tmp_path),
    )
    wait_until(lambda: ended(run))
    effect = server.ledger("bookings")[-1]
    events = exported(workspace, "jsonl", admin)
    begun = of_call(events, "begin", effect["key"])
    (done,) = of_call(events, "execute", effect["key"])
    assert len(begun) == 2
    assert done["run"] == str(run.pk)
    for each in (*begun, done):
        assert "unasked" not in each
        assert {name: each[name] for name in why} == why
    for once in trace(exported_lines(workspace, admin), effect["key"]).tries:
        assert once.by == by.removesuffix(" rule")
        assert (once.policy is not None) == (by == "policy")


def test_what_has_no_effects_is_not_in_the_log(begin, server, work):
    server.will_call("c1", "look", what="seat")
    server.will_say("Nothing.")
    begin()
    work()
    assert ToolCall.objects.get().status == "succeeded"
    assert not AuditEvent.objects.filter(action__in=["begin", "execute"]).exists()


# What a person says of a call in doubt


@pytest.fixture
def in_doubt(begin, server, work, bob) -> Approval:
    """An edit of bob's was approved and begun, and the line broke after it had happened."""
    server.will_call("c1", "wire", to="Ann", amount="900")
    run = begin()
    work()
    (asked,) = pending(run)
    edited = {"to": "Ann", "amount": "90"}
    decide.edit(asked, seen=asked.as_shown(), by=bob, arguments=edited)
    server.ledger_fault("drop_after")
    work()
    (asked,) = pending(run)
    assert asked.kind == Approval.Kind.UNKNOWN
    return asked


@pytest.mark.parametrize(
    ("said", "came"), [("respond", "responded"), ("reject", "left"), ("", "unknown")]
)
def test_what_people_said_of_a_call_in_doubt_is_no_approval_of_it(
    in_doubt, server, work, alice, bob, workspace, admin, said, came
):
    """Bob let it happen; what alice found out, or gave up, is told apart from that."""
    seen = in_doubt.as_shown()
    if said == "respond":
        decide.respond(in_doubt, seen=seen, by=alice, response="It is there.")
    if said == "reject":
        decide.reject(in_doubt, seen=seen, by=alice, reason="Nobody answers.")
    server.will_say("Done.")
    work()
    (effect,) = server.ledger()
    found = trace(exported_lines(workspace, admin), effect["key"])
    (once,) = found.tries
    assert (once.approvers, once.by) == (frozenset([str(bob.user_id)]), "edit")
    assert (once.revision, once.again) == (2, False)
    assert found.came == came


def test_what_is_run_again_has_both_who_let_it_and_who_said_it_had_not_happened(
    in_doubt, server, work, alice, bob, workspace, admin
):
    """They were wrong: the ledger has it twice, under one key, and the log has both."""
    decide.approve(in_doubt, seen=in_doubt.as_shown(), by=alice)
    server.will_say("Done.")
    work()
    assert {each["key"] for each in server.ledger()} == {str(in_doubt.call_id)}
    lines = exported_lines(workspace, admin)
    first, second = trace(lines, str(in_doubt.call_id)).tries
    assert (first.approvers, first.again) == (frozenset([str(bob.user_id)]), False)
    assert (second.approvers, second.again) == (frozenset([str(alice.user_id)]), True)
    assert first.digest != second.digest
