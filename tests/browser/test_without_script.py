"""Every flow in a browser that runs no script: each action is a link or a form first.

What is not here has a run without script beside the one with it: signing in
(test_shell.py), starting a run and sending messages (test_start.py), approving, editing,
rejecting and answering (test_approve.py), looking through a thread (test_browse.py),
forking (test_fork.py), drafting, trying and saving policies (test_policies.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from agents.models import Approval, StickyRule
from checkpoints import audit_chain
from checkpoints.access import Reason, Role
from checkpoints.models import ApiToken
from tests.agents.waiting import COSTS
from tests.browser import states
from tests.browser.conftest import PHONE, Open

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

Ask = Callable[..., Approval]
Plain = Callable[..., Page]


@pytest.fixture
def ask(make_thread, alice) -> Iterator[Ask]:
    yield states.ask_of(make_thread, alice)
    COSTS.clear()


@pytest.fixture
def ada(join):
    return join("ada", Role.ADMIN, can_approve=True)


@pytest.fixture
def plain(open_: Open) -> Plain:
    """Opens a page where no script runs."""

    def plain(path: str, as_: str = "bob", **more) -> Page:
        page = open_(path, as_=as_, script=False, **more)
        assert page.locator("h1").count() == 1
        return page

    return plain


def status(approval: Approval) -> str:
    return fresh(approval).status


def fresh(approval: Approval) -> Approval:
    return Approval.objects.unscoped(Reason.TEST).get(pk=approval.pk)


def at(approval: Approval, more: str = "") -> str:
    return f"/inbox/{approval.pk}/{more}"


def said(page: Page, text: str) -> None:
    expect(page.locator(".toast")).to_contain_text(text)


def more(page: Page, name: str) -> None:
    """Press what stands in the menu of further actions."""
    page.locator("#apr-more > summary").click()
    page.locator("#apr-more .menu").get_by_text(name).locator("visible=true").click()


def test_arguments_are_edited_as_json(plain, bob, ask):
    asked = ask("json")
    page = plain(at(asked))
    page.click("#apr-actions >> text=Edit")
    page.get_by_role("button", name="JSON").click()
    page.fill("#apr-json", "{")
    page.click("text=Approve with edits and run")
    expect(page.locator("#apr-json-e")).to_be_visible()
    page.fill("#apr-json", json.dumps({"flight": "TP 1", "price": "99.50", "seats": 1}))
    page.get_by_role("button", name="Diff").click()
    expect(page.locator("#apr-diff")).to_contain_text("99.50")
    page.click("text=Approve with edits and run")
    expect(page.locator("#apr-args")).to_contain_text("99.50")
    assert status(asked) == "approved"


def test_a_decision_is_taken_back(plain, bob, ask):
    asked = ask("undone", grace=60)
    page = plain(at(asked))
    page.click("text=Approve and run")
    page.locator("#apr-grace").get_by_role("button", name="Undo").click()
    said(page, "Taken back")
    assert status(asked) == "pending"


def test_what_is_long_is_opened_and_read_before_it_is_approved(plain, bob, ask):
    asked = ask("long", ("send", {"to": "Helen", "fields": {"text": "word " * 900}}))
    page = plain(at(asked))
    page.click("text=Approve and run")
    assert status(asked) == "pending"
    for box in page.locator("[data-read]").all():
        if not box.evaluate("box => box.open"):
            box.locator("summary").click()
        if box.locator("[name=read]").count():
            box.locator("[name=read]").check()
    page.click("text=Approve and run")
    assert status(asked) == "approved"


def test_what_an_edit_leaves_is_opened_and_read_and_nothing_typed_is_lost(
    plain, bob, ask
):
    asked = ask(
        "long", ("send", {"to": "He\u200blen", "fields": {"text": "word " * 900}})
    )
    page = plain(at(asked))
    page.click("#apr-actions >> text=Edit")
    expect(page.locator("#arg-to-seen")).to_contain_text("He")
    expect(page.locator("#arg-to-seen .tok")).to_have_text("U+200B")
    page.fill("#arg-to", "Ana")
    page.click("text=Approve with edits and run")
    expect(page.locator("#apr-errors")).to_contain_text("Open fields first")
    expect(page.locator("#arg-to")).to_have_value("Ana")
    expect(page.locator("#apr-form .was")).to_have_count(1)  # the rest is as it was
    assert status(asked) == "pending"
    page.locator("#apr-long [name=read]").check()
    page.click("text=Approve with edits and run")
    expect(page.locator("#apr-args")).to_contain_text("Ana")
    assert status(asked) == "approved"


def test_words_and_password_are_asked_for(plain, bob, ask):
    asked = ask("careful", risk="critical", reauthenticate=True, typed=True)
    page = plain(at(asked))
    page.click("text=Approve and run")
    expect(page.locator("#typed-e")).to_be_visible()
    page.fill("[name=typed]", "book")
    page.fill("[name=password]", "bob")
    page.click("text=Approve and run")
    assert status(asked) == "approved"


def test_an_option_is_the_answer(plain, bob, ask):
    options = {"question": "Which seat?", "options": ["Aisle", "Window"]}
    asked = ask("seat", ("ask_traveller", options))
    page = plain(at(asked))
    page.get_by_label("Window").check()
    page.click("text=Send answer")
    expect(page.locator("#apr-log")).to_contain_text("Window")
    assert status(asked) == "responded"


def test_it_is_looked_after_without_a_decision(plain, alice, bob, ask):
    asked = ask("care")
    page = plain(at(asked))
    page.get_by_role("button", name="Claim").click()
    said(page, "You look after")
    page.get_by_role("button", name="Let go").click()
    said(page, "free again")
    more(page, "Assign to…")
    page.select_option("#to", label="Alice")
    page.locator("#apr-sheet").get_by_role("button", name="Assign").click()
    said(page, "is assigned")
    assert fresh(asked).assigned_to_id == alice.user_id
    page.click("#apr-actions >> text=Snooze…")
    page.get_by_role("radio", name="a day").check()
    page.locator("#apr-sheet").get_by_role("button", name="Snooze").click()
    said(page, "comes back in a day")
    page.goto(at(asked))
    page.click("text=Bring back")
    said(page, "is back in your list")
    more(page, "Write a note…")
    page.locator("#apr-sheet").get_by_role("button", name="Keep the note").click()
    expect(page.locator("#note-e")).to_be_visible()
    page.fill("#note", "Ask Helen first.")
    page.locator("#apr-sheet").get_by_role("button", name="Keep the note").click()
    expect(page.locator("#apr-log")).to_contain_text("Ask Helen first.")
    more(page, "Escalate")
    said(page, "more urgent")
    assert (status(asked), fresh(asked).priority) == ("pending", 1)


def test_it_is_claimed_and_snoozed_on_a_phone(plain, bob, ask):
    page = plain(at(ask("phone")), size=PHONE)
    more(page, "Claim")
    said(page, "You look after")
    more(page, "Snooze")
    page.locator("#apr-sheet").get_by_role("button", name="Snooze").click()
    said(page, "comes back in an hour")


def test_a_guard_is_asked_again(plain, bob, ask):
    asked = ask("booth", ("rent", {"what": "booth", "price": "1200.00"}))
    page = plain(at(asked))
    page.get_by_role("button", name=re.compile("[Cc]heck")).first.click()
    expect(page.locator("#apr-guard")).to_contain_text("Checking")
    assert fresh(asked).guard_asked_at


def test_requests_are_decided_together(plain, bob, ask):
    three = [ask(name) for name in ("one", "two", "three")]
    page = plain("/inbox/")
    for one in three[:2]:
        page.get_by_label(f"Select {one}").check()
    page.locator("#batch").get_by_role("button", name="Approve").click()
    expect(page.locator("#batch-list tbody tr")).to_have_count(2)
    page.click("#batch-actions .btn.ok")
    expect(page.locator("h1")).to_have_text("2 of 2 approved")
    assert [status(one) for one in three] == ["approved", "approved", "pending"]


def test_a_canned_reason_is_enough_to_reject_together(plain, bob, ask):
    two = [ask("one"), ask("two")]
    page = plain("/inbox/")
    for one in two:
        page.get_by_label(f"Select {one}").check()
    page.locator("#batch").get_by_role("button", name="Reject").click()
    page.click("#batch-actions .btn.no")
    expect(page.locator("#batch-problems")).to_be_visible()
    page.get_by_label("Not within policy").check()
    page.click("#batch-actions .btn.no")
    expect(page.locator("h1")).to_have_text("2 of 2 rejected")
    page.goto(at(two[0]))
    expect(page.locator("#apr-log")).to_contain_text("Not within policy")


def test_what_is_remembered_is_revoked(plain, ada, ask):
    asked = ask("again")
    page = plain(at(asked), as_="ada")
    more(page, "Approve and remember…")
    page.get_by_text("this agent").click()
    page.get_by_role("button", name="Save rule and approve").click()
    expect(page.locator("#apr-outcome")).to_be_visible()
    page.goto("/policies/")
    page.locator("#remembered").get_by_role("button", name="Revoke").click()
    expect(page.locator(".toast")).to_be_visible()
    (rule,) = StickyRule.objects.unscoped(Reason.TEST)
    assert rule.revoked_at
    assert rule.scope == "agent"


def test_the_glass_is_broken(plain, ada, ask):
    asked = ask("alone", risk="high", approvers=2)
    page = plain(at(asked), as_="ada")
    more(page, "Break the glass…")
    page.click("text=Approve alone and run")
    expect(page.locator("#reason-e")).to_be_visible()
    page.fill("#reason", "The gate closes in ten minutes.")
    page.click("text=Approve alone and run")
    expect(page.locator("#apr-log")).to_contain_text("The gate closes")
    assert status(asked) == "approved"


def test_an_agent_is_looked_at_and_a_call_tried(plain, bob, ask):
    ask("known")  # an agent is listed once it has run
    page = plain("/agents/")
    page.locator("main").get_by_role("link", name="waiting-desk").first.click()
    for tab in ("Tools", "Versions", "Policies"):
        page.locator("main nav").get_by_role("link", name=tab).first.click()
        expect(page.locator("main nav [aria-current]").first).to_contain_text(tab)
    page.select_option("#test-tool", "rent")
    page.get_by_role("button", name="Choose").click()
    page.fill("[name='arg/what']", "booth")
    page.fill("[name='arg/price']", "10")
    page.click("text=Test this call")
    expect(page.locator("#test-result")).to_contain_text("would ask")


def test_a_channel_is_made_tested_and_switched_off(plain, ada):
    page = plain("/channels/", as_="ada")
    page.fill("[name=name]", "ops")
    page.check("[value=webhook]")
    page.click("text=Make the channel")
    expect(page.locator(".err").first).to_be_visible()
    page.fill("[name=address]", "https://ops.example/in")
    page.click("text=Make the channel")
    expect(page.locator("#secret")).to_contain_text("whsec_")
    page.click("text=Send a test")
    expect(page.locator("#deliveries tbody tr")).to_have_count(1)
    page.click("text=Switch off")
    expect(page.get_by_role("button", name="Switch on ops")).to_be_visible()


def test_a_token_is_made_and_revoked(plain, ada):
    page = plain("/tokens/", as_="ada")
    page.fill("[name=name]", "nightly")
    page.check("[name=scopes][value=read]")
    page.click("text=Make the token")
    expect(page.locator("#token")).to_contain_text("hp_")
    page.get_by_role("button", name="Revoke nightly").click()
    expect(page.locator("main table")).to_contain_text("revoked")
    assert ApiToken.objects.unscoped(Reason.TEST).get().revoked_at


def test_the_audit_log_is_filtered_verified_and_exported(plain, ada, ask):
    asked = ask("audited")
    page = plain(at(asked), as_="ada")
    page.click("text=Approve and run")
    page.goto("/audit/")
    page.select_option("[name=action]", "approve")
    page.click("#filters >> text=Apply")
    expect(page.locator("#audit tbody tr")).to_have_count(1)
    page.get_by_role("button", name=re.compile("[Vv]erify")).first.click()
    said(page, "The chain holds")
    audit_chain.link_pending()  # as a worker does: what is exported is the chain
    page.locator("#export summary").click()
    with page.expect_download() as download:
        page.click("#export >> text=JSONL")
    rows = download.value.path().read_text().splitlines()
    # All of it is exported, whatever the page was narrowed to.
    assert any('"approve"' in row for row in rows)
    assert any('"open"' in row for row in rows)


def test_threads_and_runs_are_filtered(plain, alice, ask):
    ask("sought")
    ask("other")
    page = plain("/threads/", as_="alice")
    page.fill("[name=q]", "sought")
    page.locator("[name=q]").press("Enter")
    expect(page.locator("#threads a.t")).to_have_count(1)
    page.goto("/runs/")
    expect(page.locator("#runs a.t")).to_have_count(2)
    page.locator("main nav").get_by_role("link", name="Failed").first.click()
    expect(page.locator("#runs a.t")).to_have_count(0)


def test_a_run_is_paused_resumed_and_cancelled(plain, alice, ask):
    asked = ask("stopped")
    page = plain(f"/threads/{asked.thread_id}/", as_="alice")
    page.get_by_role("button", name="Pause").first.click()
    page.get_by_role("button", name="Resume").first.click()
    page.get_by_role("button", name="Cancel run").first.click()
    expect(page.locator("#thread-status")).to_contain_text("cancelled")
    assert status(asked) == "cancelled"


def test_how_long_things_are_kept_is_said(plain, ada):
    page = plain("/retention/", as_="ada")
    new = page.locator("section", has=page.locator("#p-new"))
    new.locator("[name=keep_days]").fill("14")
    new.locator("button.pri, button").last.click()
    expect(page.locator(".toast")).to_be_visible()
