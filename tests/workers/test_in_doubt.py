"""Calls that may have happened: their tool is asked, or a person; never tried blindly."""

from __future__ import annotations

from threading import Timer
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.approvals import decide
from agents.errors import BadDeclaration, InvalidDecision, NotEligible
from agents.models import Approval, Run, ToolCall
from agents.runs import start, stop
from agents.tools import IdempotencyKey, never, tool
from checkpoints.models import Membership
from tests.conftest import as_owner
from tests.pages.forms import hash_on_page
from tests.workers.conftest import kinds, pending
from tests.workers.desk.agents import _sent, desk
from tests.workers.desk.ledger import post

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def in_doubt(begin, work, server) -> Run:
    """A run that sent something, and whose tool broke before the answer came."""
    server.will_call("c1", "send", text="the tickets")
    server.ledger_fault("drop_after")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "waiting"
    return run


def call_of(run: Run) -> ToolCall:
    return ToolCall.objects.get(run=run)


def sent(server) -> list[str]:
    return [effect["body"]["text"] for effect in server.ledger()]


def told(server) -> str:
    return server.requests[-1]["messages"][-1]["content"]


def enter(person) -> Client:
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=person.user_id))
    return client


def form(
    person: Client, approval: Approval, decision: str, **more: Any
) -> dict[str, Any]:
    return {
        "decision": decision,
        "revision": approval.revision,
        "digest": bytes(approval.digest).hex(),
        "shown": hash_on_page(person, approval),
        **more,
    }


def test_a_call_that_broke_waits_for_a_person_who_sees_what_was_tried(
    in_doubt, server, bob
):
    (asked,) = pending(in_doubt)
    assert (asked.kind, asked.allowed) == ("unknown", ["respond", "approve", "reject"])
    assert call_of(in_doubt).status == "unknown"
    assert kinds(in_doubt) == ["input", "model", "interrupt"]
    page = " ".join(enter(bob).get(f"/inbox/{asked.pk}/").content.decode().split())
    assert "Whether this happened is not known" in page
    assert "broke (<code hx-ignore>RemoteDisconnected</code>)" in page
    assert "the tickets" in page
    assert str(call_of(in_doubt).pk) in page
    for verb in ("It happened", "It did not: run it again", "Leave it…"):
        assert verb in page
    assert "outcome unknown" in enter(bob).get("/inbox/").content.decode()
    assert sent(server) == ["the tickets"]


def test_cancelled_while_nobody_knows_its_page_says_that_nobody_knows(
    in_doubt, server, bob, alice
):
    (asked,) = pending(in_doubt)
    stop.cancel(in_doubt, by=alice)
    asked.refresh_from_db()
    assert (asked.status, call_of(in_doubt).status) == ("cancelled", "unknown")
    page = " ".join(enter(bob).get(f"/inbox/{asked.pk}/").content.decode().split())
    came = page.partition('id="apr-outcome"')[2].partition("</section>")[0]
    assert "Whether it happened is not known, and need not be said any more." in came
    assert "the agent was told so" not in came
    assert "It was not done" not in came
    assert sent(server) == ["the tickets"]


def test_it_happened_and_the_agent_goes_on_with_the_result(in_doubt, work, server, bob):
    (asked,) = pending(in_doubt)
    server.will_say("They are on their way.")
    browser = enter(bob)
    posted = form(browser, asked, "respond", response="MSG-1")
    assert browser.post(f"/inbox/{asked.pk}/decide", posted).status_code == 303
    page = browser.get(f"/inbox/{asked.pk}/").content.decode()
    assert f"The agent has the result of {asked}" in page
    work()
    in_doubt.refresh_from_db()
    assert in_doubt.status == "succeeded"
    assert told(server).endswith("gave its result:\nMSG-1")
    assert sent(server) == ["the tickets"]
    assert call_of(in_doubt).status == "responded"
    page = enter(bob).get(f"/inbox/{asked.pk}/").content.decode()
    assert "Found to have happened by Bob" in page


def test_it_did_not_happen_and_is_made_again_with_the_same_key(
    begin, work, server, bob
):
    server.will_call("c1", "send", text="the tickets")
    server.ledger_fault("drop")
    server.will_say("Sent.")
    run = begin()
    work()
    assert server.ledger() == []
    (asked,) = pending(run)
    browser = enter(bob)
    browser.post(f"/inbox/{asked.pk}/decide", form(browser, asked, "approve"))
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    (effect,) = server.ledger()
    assert effect["key"] == str(call_of(run).pk)
    assert (call_of(run).status, call_of(run).attempts) == ("succeeded", 2)
    assert kinds(run)[2:] == ["interrupt", "decision", "tool", "model"]


def test_left_in_doubt_the_agent_is_told_so_and_it_stays_on_record(
    in_doubt, work, server, bob
):
    (asked,) = pending(in_doubt)
    server.will_say("I will look later.")
    page = enter(bob).get(f"/inbox/{asked.pk}/reject").content.decode()
    assert f"Leave {asked} in doubt" in page
    browser = enter(bob)
    posted = form(browser, asked, "reject", reason="Nobody answers there.")
    browser.post(f"/inbox/{asked.pk}/decide", posted)
    work()
    in_doubt.refresh_from_db()
    assert in_doubt.status == "succeeded"
    assert "is not known" in told(server)
    assert "Nobody answers there." in told(server)
    call = call_of(in_doubt)
    assert (call.status, call.error_class) == ("unknown", "outcome_unknown")
    page = enter(bob).get(f"/inbox/{asked.pk}/").content.decode()
    assert "still not known" in page


def test_a_decision_to_run_it_again_holds_for_one_try(begin, work, server, bob):
    server.will_call("c1", "send", text="the tickets")
    server.ledger_fault("drop", times=2)
    run = begin()
    work()
    (first,) = pending(run)
    decide.approve(first, seen=first.as_shown(), by=bob)
    work()
    (again,) = pending(run)
    assert again.pk == first.pk
    assert again.revision == first.revision + 1
    assert bytes(again.digest) != bytes(first.digest)
    assert server.ledger() == []
    page = enter(bob).get(f"/inbox/{again.pk}/").content.decode()
    assert "(attempt 2)" in page
    assert "Told to run it again by Bob" in page


def test_a_call_that_was_edited_is_tried_again_as_edited(begin, work, server, bob):
    server.will_call("c1", "wire", to="Ann", amount="900")
    server.ledger_fault("drop")
    server.will_say("Wired.")
    run = begin()
    work()
    (asked,) = pending(run)
    edited = {"to": "Ann", "amount": "90"}
    decide.edit(asked, seen=asked.as_shown(), by=bob, arguments=edited)
    work()
    (asked,) = pending(run)
    assert (asked.kind, asked.rule) == ("unknown", "what came of a call is not known")
    page = enter(bob).get(f"/inbox/{asked.pk}/").content.decode()
    assert "What was tried" in page
    assert "1 edited" in page
    decide.approve(asked, seen=asked.as_shown(), by=bob)
    work()
    assert [effect["body"] for effect in server.ledger()] == [edited]
    assert told(server).startswith("A person changed the arguments")


def test_nobody_edits_what_is_in_doubt_and_only_approvers_decide_it(
    in_doubt, bob, omar
):
    (asked,) = pending(in_doubt)
    with pytest.raises(InvalidDecision, match="decided by: respond, approve, reject"):
        decide.edit(
            asked, seen=asked.as_shown(), by=bob, arguments={"text": "something else"}
        )
    with pytest.raises(NotEligible):
        decide.respond(asked, seen=asked.as_shown(), by=omar, response="It is there.")
    with pytest.raises(InvalidDecision, match="Write what it gave"):
        decide.respond(asked, seen=asked.as_shown(), by=bob, response=" ")


def test_an_answer_moved_to_a_call_in_doubt_does_not_hold(
    begin, work, server, bob, history
):
    server.will_call("c1", "question", question="Window or aisle?")
    run = begin()
    work()
    (asked,) = pending(run)
    decide.respond(asked, seen=asked.as_shown(), by=bob, response="Window")
    # Somebody who writes the database makes an answer a finding.
    Approval.objects.filter(pk=asked.pk).update(kind="unknown")
    work()
    (again,) = pending(run)
    assert again.revision == asked.revision + 1
    assert history(run.branch).record(3).label.startswith("Asked again")


def test_a_cancelled_run_leaves_its_call_in_doubt_and_the_next_one_is_told(
    in_doubt, work, server, alice
):
    assert stop.cancel(in_doubt, by=alice)
    assert call_of(in_doubt).status == "unknown"
    server.will_say("I do not know whether they went out.")
    start.send_message(in_doubt.branch, message="Well?", by=alice)
    work()
    message = server.requests[-1]["messages"][-2]
    assert message["role"] == "tool"
    assert "is not known" in message["content"]
    assert sent(server) == ["the tickets"]


def test_calls_of_the_same_reply_that_may_run_do(begin, work, server, bob):
    server.will_call_all(
        ("c1", "send", {"text": "the tickets"}), ("c2", "look", {"what": "the desk"})
    )
    server.ledger_fault("drop_after")
    server.will_say("Done.")
    run = begin()
    work()
    assert kinds(run) == ["input", "model", "tool", "interrupt"]
    (asked,) = pending(run)
    decide.respond(asked, seen=asked.as_shown(), by=bob, response="It is there.")
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"


@pytest.mark.parametrize("fault", ["drop", "drop_after"])
def test_a_tool_that_can_find_out_is_asked_and_nobody_is(
    begin, work, server, history, fault
):
    server.will_call("c1", "deliver", text="the tickets")
    server.ledger_fault(fault)
    server.will_say("Delivered.")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert sent(server) == ["the tickets"]
    assert not Approval.objects.filter(run=run).exists()
    step = history(run.branch).record(2)
    assert bool(step.context and step.context["reconciled"]) == (fault == "drop_after")


def test_what_arrives_a_moment_after_its_call_broke_is_found(
    begin, work, server, deploy
):
    """The line broke, and the carrier had the parcel: it is not sent once more."""

    @tool(effect="external", title="Deliver {text}", approve=never, reconcile=_sent)
    def deliver(text: str, *, key: IdempotencyKey) -> None:
        """Deliver something by a carrier that is slow to say so."""
        Timer(0.2, post, ("deliveries", key, {"text": text})).start()
        raise ConnectionResetError

    deploy(desk, tools=[deliver])
    server.will_call("c1", "deliver", text="the tickets")
    server.will_say("Delivered.")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert len(server.ledger("deliveries")) == 1
    assert call_of(run).attempts == 1


def test_what_the_tool_found_is_said_on_its_step(begin, work, server, alice):
    server.will_call("c1", "deliver", text="the tickets")
    server.ledger_fault("drop_after")
    server.will_say("Delivered.")
    run = begin()
    work()
    checkpoint = call_of(run).result_checkpoint_id
    url = f"/threads/{run.thread_id}/at/{checkpoint}/"
    assert (
        "the tool found out what came of it" in enter(alice).get(url).content.decode()
    )


def test_what_never_happens_is_given_up_after_three_tries(begin, work, server):
    server.will_call("c1", "deliver", text="the tickets")
    server.ledger_fault("drop", times=5)
    server.will_say("It cannot be delivered.")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert "failed 3 times in a row. It says that this did not happen" in told(server)
    assert (call_of(run).status, call_of(run).attempts) == ("failed", 3)


def test_where_the_tool_cannot_tell_either_a_person_is_asked(
    begin, work, server, monkeypatch
):
    server.will_call("c1", "deliver", text="mute")  # its tool finds nothing out
    server.ledger_fault("drop_after")
    run = begin()
    work()
    (asked,) = pending(run)
    assert asked.kind == "unknown"
    assert call_of(run).error_class == "RemoteDisconnected"
    assert sent(server) == ["mute"]


def nothing() -> str:
    return ""


def test_reconcile_is_declared_where_it_means_something():
    def found(key: IdempotencyKey) -> str | None:
        return str(key)

    def asks(text: str) -> str | None:
        return text

    with pytest.raises(BadDeclaration, match="may simply be made again"):
        tool(effect="read", reconcile=found)(nothing)
    with pytest.raises(BadDeclaration, match="may simply be made again"):
        tool(effect="write", idempotent=True, reconcile=found)(nothing)
    with pytest.raises(BadDeclaration, match=r"not \['text'\]"):
        tool(effect="external", approve=never, reconcile=asks)(nothing)
    with_it = tool(effect="external", approve=never, reconcile=found)(nothing)
    without = tool(effect="external", approve=never)(nothing)
    assert with_it.spec()["reconcile"] != without.spec()["reconcile"]


@pytest.mark.parametrize("happened", [True, False])
def test_begun_as_people_approved_it_then_it_is_in_doubt_not_asked_about_anew(
    begin, work, server, alice, bob, happened
):
    """Approved, edited, begun, broken; and who approved has no right to any more."""
    server.will_call("c1", "book", item="a flight", price="1200")
    run = begin()
    work()
    (asked,) = pending(run)
    cheaper = {"item": "a flight", "price": "1100"}
    decide.edit(asked, seen=asked.as_shown(), by=bob, arguments=cheaper)
    server.ledger_fault("drop_after" if happened else "drop", times=3)
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "tool_broke")
    with as_owner():
        Membership.objects.filter(user_id=bob.user_id).update(can_approve=False)
    run = start.retry(run, by=alice)
    work()
    (asked,) = pending(run)
    assert asked.kind == "unknown"
    page = " ".join(enter(alice).get(f"/inbox/{asked.pk}/").content.decode().split())
    assert "Whether this happened is not known" in page
    assert "1100" in page.partition('id="apr-outcome"')[0]
    decide.approve(asked, seen=asked.as_shown(), by=alice)  # run it again
    server.will_say("Booked.")
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    bookings = [each["body"]["price"] for each in server.ledger() if each["applied"]]
    assert bookings == ["1100"]
    assert len({each["key"] for each in server.ledger()}) == 1
