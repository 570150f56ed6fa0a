"""From the audit export alone: who let each effect happen, what they saw, by which policy."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest

from agents.approvals import decide
from agents.models import Approval, Run, ToolCall
from agents.policies import stored
from checkpoints import audit_export
from checkpoints.access import Role, UserPrincipal
from checkpoints.audit_chain import link_pending
from checkpoints.models import AuditEvent
from tests.conftest import as_owner
from tests.workers.conftest import pending, wait_until

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


def test_what_has_no_effects_is_not_in_the_log(begin, server, work):
    server.will_call("c1", "look", what="seat")
    server.will_say("Nothing.")
    begin()
    work()
    assert ToolCall.objects.get().status == "succeeded"
    assert not AuditEvent.objects.filter(action__in=["begin", "execute"]).exists()
