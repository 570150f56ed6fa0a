"""“Approve and remember…”: the sheet, what it makes, and what it refuses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from agents.approvals.decide import approve, edit, reject
from agents.models import Approval, Run, StickyRule
from agents.policies import sticky, stored
from agents.policies.judge import Judge
from agents.policies.remembered import exact
from agents.pure.terms import Terms
from checkpoints import clock
from checkpoints.access import Reason, unscoped
from checkpoints.models import Membership
from tests.agents.waiting import (
    DESK,
    GOOD,
    at_once,
    make_calls,
    make_waiting,
    opener_for,
)
from tests.conftest import as_owner
from tests.pages.forms import fields

pytestmark = pytest.mark.django_db(transaction=True)

DEARER = {**GOOD, "price": "1300.00"}
CHEAPER = {**GOOD, "price": "1100.00"}
FRAGMENT = {"HX-Request": "true"}


@pytest.fixture(autouse=True)
def everything():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def asked(make_thread, alice) -> Approval:
    """To book TP 209 for 1200.00, by a run of alice's."""
    (asked,) = make_waiting(make_thread(owner=alice), alice)
    return asked


@pytest.fixture
def desk(browser, bob) -> Client:
    return browser(bob)


def sheet(client: Client, approval: Approval) -> str:
    return client.get(f"/inbox/{approval.pk}/remember").content.decode()


def filled(client: Client, approval: Approval, **typed: Any) -> dict[str, Any]:
    """What the sheet would send as it stands, but for what is typed; None: left out."""
    sent = {**fields(sheet(client, approval), "sheet-form"), **typed}
    return {name: value for name, value in sent.items() if value is not None}


def save(client: Client, approval: Approval, sent: dict[str, Any], **headers: Any):
    return client.post(f"/inbox/{approval.pk}/remember/save", sent, **headers)


def fresh(approval: Approval) -> Approval:
    return Approval.objects.select_related("run__thread").get(pk=approval.pk)


def what_it_says(approval: Approval) -> list[dict[str, Any]]:
    (rule,) = StickyRule.objects.all()
    (when,) = sticky.shown([rule], opener_for(approval.run))
    assert when is not None
    return when["all"]


def next_call(run: Run, arguments: dict[str, Any]) -> str:
    """What the run's worker does with its next call."""
    (row,) = make_calls(run, ("book", arguments))
    rules = stored.in_force(run.workspace_id, run.agent_version.agent_id)
    judge = Judge(run, rules, opener_for(run))
    return judge.judge(row, DESK.tool("book"), arguments).kind


def test_it_opens_narrow_and_saves_exactly_this_call(asked, desk):
    page = desk.get(f"/inbox/{asked.pk}/").content.decode()
    assert f'href="/inbox/{asked.pk}/remember"' in page
    assert 'data-hotkey="Shift+A,A"' in page
    sent = filled(desk, asked)
    assert sent["scope"] == ["once"]
    assert sent["ends"] == ["24"]
    assert sent["keep"] == ["0", "1"]
    assert sent["how-1"] == ["eq"]
    assert "how-0" not in sent  # a flight's name is no number
    assert next_call(asked.run, GOOD) == "require"
    answer = save(desk, asked, sent)
    assert answer.status_code == 303
    assert fresh(asked).status == "approved"
    (rule,) = StickyRule.objects.all()
    assert (rule.scope, rule.approval_id) == ("once", asked.pk)
    ends_in = rule.expires_at - clock.now()
    assert timedelta(hours=23) < ends_in <= timedelta(days=1)
    assert what_it_says(asked) == exact(GOOD)["all"]
    assert next_call(asked.run, DEARER) == "require"
    assert next_call(asked.run, GOOD) == "auto_approve"
    assert next_call(asked.run, GOOD) == "require"  # once


def test_with_script_the_pane_says_so(asked, desk):
    part = desk.get(f"/f/inbox/{asked.pk}/remember", headers=FRAGMENT)
    assert 'id="sheet-form"' in part.content.decode()
    assert "<html" not in part.content.decode()
    answer = save(desk, asked, filled(desk, asked), headers=FRAGMENT)
    assert answer.status_code == 200
    assert "Such calls go ahead until the rule ends" in answer.content.decode()
    assert StickyRule.objects.count() == 1


def test_at_most_lets_go_what_costs_less(asked, desk):
    sent = filled(desk, asked, scope="run", ends="720", **{"how-1": "lte"})
    assert save(desk, asked, sent).status_code == 303
    path = {"path": "/price", "op": "lte", "value": "1200.00"}
    assert what_it_says(asked)[1] == path
    assert next_call(asked.run, CHEAPER) == "auto_approve"
    assert next_call(asked.run, DEARER) == "require"


def test_what_is_not_ticked_may_be_anything(asked, desk):
    sent = filled(desk, asked, scope="run", keep="0")
    assert save(desk, asked, sent).status_code == 303
    assert [one["path"] for one in what_it_says(asked)] == ["/flight"]
    assert next_call(asked.run, DEARER) == "auto_approve"
    assert next_call(asked.run, {**GOOD, "flight": "X"}) == "require"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"ends": None}, "Choose when the rule ends."),
        ({"ends": "9999"}, "Choose when the rule ends."),
        ({"scope": None}, "Choose where it holds."),
        ({"keep": None}, "Keep one argument, at least."),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_approved(asked, desk, typed, said):
    sent = filled(desk, asked, **{"how-1": "lte", **typed})
    for headers in ({}, FRAGMENT):
        answer = save(desk, asked, sent, headers=headers)
        assert answer.status_code == 422
        page = answer.content.decode()
        assert said in page
        assert fields(page, "sheet-form")["how-1"] == ["lte"]  # kept
    assert fresh(asked).is_pending
    assert not StickyRule.objects.exists()


def test_a_stale_form_is_refused_and_makes_no_rule(asked, desk):
    sent = filled(desk, asked)
    Approval.objects.filter(pk=asked.pk).update(revision=asked.revision + 1)
    answer = save(desk, asked, sent, headers=FRAGMENT)
    assert answer.status_code == 409
    assert "changed since it was shown" in answer.content.decode()
    tried = desk.post(
        f"/inbox/{asked.pk}/remember/save", {**sent, "do": "try"}, headers=FRAGMENT
    )
    assert tried.status_code == 409
    assert fresh(asked).is_pending
    assert not StickyRule.objects.exists()


def test_who_was_slower_makes_no_rule(asked, desk, alice):
    sent = filled(desk, asked)
    reject(asked, seen=asked.as_shown(), by=alice, reason="No.")
    answer = save(desk, asked, sent, headers=FRAGMENT)
    assert answer.status_code == 409
    assert not StickyRule.objects.exists()


def test_sent_twice_it_makes_one_rule_and_says_so_twice(asked, desk, bob):
    sent = filled(desk, asked, scope="run", **{"how-1": "lte"})
    for _ in range(2):
        answer = save(desk, asked, sent, headers=FRAGMENT)
        assert answer.status_code == 200
        assert "Such calls go ahead until the rule ends" in answer.content.decode()
        assert "no rule" not in answer.content.decode()
    other = save(desk, asked, {**sent, "scope": "agent"}, headers=FRAGMENT)
    assert "this form saved no rule" in other.content.decode()
    (rule,) = StickyRule.objects.all()
    assert rule.scope == "run"
    sticky.revoke(rule, bob)
    again = save(desk, asked, sent, headers=FRAGMENT).content.decode()
    assert "was revoked since" in again
    assert StickyRule.objects.count() == 1


def test_two_clicks_at_once_are_both_told_of_the_one_rule(asked, desk):
    sent = filled(desk, asked)
    answers = at_once(
        *[lambda: save(desk, asked, sent, headers=FRAGMENT).content.decode()] * 4
    )
    for said in answers:
        assert "Such calls go ahead until the rule ends" in str(said)
    assert StickyRule.objects.count() == 1


def test_what_is_long_is_opened_before(make_thread, alice, desk):
    long = {"to": "x", "fields": {"text": "word " * 400}}
    (asked,) = make_waiting(
        make_thread(owner=alice), alice, ("send", long), terms=Terms(), risk="low"
    )
    page = sheet(desk, asked)
    assert 'form="sheet-form"' in page
    answer = save(desk, asked, filled(desk, asked))
    assert answer.status_code == 422
    assert "Open fields first" in answer.content.decode()
    assert fresh(asked).is_pending
    assert not StickyRule.objects.exists()
    token = page.partition('name="read" value="')[2].partition('"')[0]
    assert save(desk, asked, filled(desk, asked, read=token)).status_code == 303
    assert StickyRule.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"risk": "critical"}, "critical is asked about each time"),
        ({"terms": Terms(approvers=2).as_json()}, "more than one person"),
        ({"terms": Terms(typed=True).as_json()}, "a word typed"),
    ],
)
def test_where_it_is_not_offered_the_sheet_says_why(asked, desk, change, why):
    sent = filled(desk, asked)
    Approval.objects.filter(pk=asked.pk).update(**change)
    page = desk.get(f"/inbox/{asked.pk}/").content.decode()
    assert 'id="apr-actions"' in page
    assert "/remember" not in page
    page = sheet(desk, asked)
    assert why in page
    assert "Save rule and approve" not in page
    assert save(desk, asked, sent).status_code == 403
    assert fresh(asked).is_pending


def test_who_may_not_approve_is_told_so(asked, browser, omar):
    omars = browser(omar)
    assert "/remember" not in omars.get(f"/inbox/{asked.pk}/").content.decode()
    page = sheet(omars, asked)
    assert "Not offered here." in page
    now = asked.as_shown()
    sent = {"revision": now.revision, "digest": now.digest.hex(), "scope": "once"}
    assert save(omars, asked, {**sent, "ends": "1", "keep": "0"}).status_code == 403
    tried = omars.post(f"/f/inbox/{asked.pk}/remember/try", sent)
    assert tried.status_code == 403


@pytest.mark.parametrize("role", ["viewer", "auditor"])
@pytest.mark.parametrize("do", ["save", "try"])
@pytest.mark.parametrize("headers", [{}, FRAGMENT], ids=["page", "script"])
def test_who_lost_the_right_meanwhile_keeps_what_they_chose(
    asked, browser, bob, role, do, headers
):
    desk = browser(bob)
    sent = filled(desk, asked, scope="thread", ends="168", **{"how-1": "lte"}, do=do)
    its = Membership.objects.unscoped(Reason.TEST).filter(user_id=bob.user_id)
    its.update(role=role, can_approve=False)
    answer = save(desk, asked, sent, headers=headers)
    assert answer.status_code == 403
    kept = answer.content.decode().partition('id="apr-kept"')[2]
    assert "1 week" in kept
    assert "thread" in kept
    if role == "viewer":  # an auditor reads no state: the names of arguments are of it
        assert "price: at most" in kept
    assert fresh(asked).is_pending


def test_who_comes_too_late_keeps_what_they_chose(asked, desk, alice):
    sent = filled(desk, asked, ends="168")
    approve(asked, seen=asked.as_shown(), by=alice)
    answer = save(desk, asked, sent)
    assert answer.status_code == 409
    kept = answer.content.decode().partition('id="apr-kept"')[2]
    assert "1 week" in kept


def test_a_back_test_keeps_what_was_typed(asked, make_thread, desk, alice, bob):
    def other(arguments: dict[str, Any]) -> Approval:
        (found,) = make_waiting(make_thread(owner=alice), alice, ("book", arguments))
        return found

    no = other(CHEAPER)
    reject(no, seen=no.as_shown(), by=bob, reason="Not now.")
    changed = other({**GOOD, "price": "1150.00"})
    edit(changed, seen=changed.as_shown(), by=bob, arguments=dict(CHEAPER))
    other(DEARER)
    sent = filled(desk, asked, scope="agent", ends="720", do="try", **{"how-1": "lte"})
    answer = save(desk, asked, sent)
    assert answer.status_code == 200
    page = answer.content.decode()
    line = "In the last 30 days this would have approved 3 requests"
    assert line in page
    assert f"people rejected 1 of them: {no}" in page
    assert f"people changed 1 of them: {changed}" in page
    typed = fields(page, "sheet-form")
    assert (typed["scope"], typed["ends"]) == (["agent"], ["720"])
    assert typed["how-1"] == ["lte"]
    part = desk.post(f"/f/inbox/{asked.pk}/remember/try", sent, headers=FRAGMENT)
    assert line in part.content.decode()
    assert "<form" not in part.content.decode()
    assert fresh(asked).is_pending
    assert not StickyRule.objects.exists()


def test_an_approval_stands_where_the_rule_cannot_be_saved(asked, desk):
    sent = filled(desk, asked)
    with as_owner(), connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE agents_stickyrule ADD CONSTRAINT no_more CHECK (false) NOT VALID"
        )
    try:
        answer = save(desk, asked, sent, headers=FRAGMENT)
    finally:
        with as_owner(), connection.cursor() as cursor:
            cursor.execute("ALTER TABLE agents_stickyrule DROP CONSTRAINT no_more")
    assert answer.status_code == 200
    page = answer.content.decode()
    assert f"{asked} is approved, and that stands. The rule was not saved" in page
    assert fresh(asked).status == "approved"
    assert not StickyRule.objects.exists()


def test_foreign_text_is_text(make_thread, alice, desk):
    evil = {**GOOD, "flight": "<b hx-get=/>\u202eTP"}
    (asked,) = make_waiting(make_thread(owner=alice), alice, ("book", evil))
    page = sheet(desk, asked)
    assert "<b hx-get" not in page
    assert "\u202e" not in page.partition('id="apr-sheet"')[2]
