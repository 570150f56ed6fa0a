"""Several requests at once: shown together first, each with a result of its own."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.approvals import guards
from agents.approvals.decide import approve
from agents.models import Approval, Decision, Snooze
from agents.pure.terms import Terms
from agents.runs import looks
from checkpoints.access import Reason, UserPrincipal
from checkpoints.models import AuditEvent, Group, Membership
from tests.agents.waiting import COSTS, GOOD, make_waiting

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def three(alice, make_thread) -> list[Approval]:
    return [
        make_waiting(
            make_thread(owner=alice), alice, ("book", {**GOOD, "flight": f"TP {n}"})
        )[0]
        for n in (1, 2, 3)
    ]


def chosen(client, do, approvals):
    """The page that shows what was selected, and what its form gives back."""
    ids = "&".join(f"id={one.pk}" for one in approvals)
    page = client.get(f"/inbox/batch?do={do}&{ids}")
    assert page.status_code == 200
    text = page.content.decode()
    return text, re.findall(r'name="seen" value="([^"]+)"', text)


def statuses(approvals):
    rows = Approval.objects.unscoped(Reason.TEST)
    return [rows.get(pk=one.pk).status for one in approvals]


def test_what_is_shown_is_approved_and_each_has_its_result(browser, bob, alice, three):
    client = browser(bob)
    text, seen = chosen(client, "approve", three)
    assert all(f"TP {n}" in text for n in (1, 2, 3))
    assert statuses(three) == ["pending"] * 3  # looking decides nothing
    approve(three[1], seen=three[1].as_shown(), by=alice)
    answer = client.post("/inbox/batch", {"do": "approve", "seen": seen})
    text = answer.content.decode()
    assert "2 of 3 approved" in text
    assert "Alice approved this" in text
    assert statuses(three) == ["approved"] * 3


def test_a_rejection_wants_a_reason_for_all(browser, bob, three):
    client = browser(bob)
    _, seen = chosen(client, "reject", three)
    answer = client.post("/inbox/batch", {"do": "reject", "seen": seen, "reason": " "})
    assert answer.status_code == 422
    assert statuses(three) == ["pending"] * 3
    client.post("/inbox/batch", {"do": "reject", "seen": seen, "reason": "Too dear."})
    assert statuses(three) == ["rejected"] * 3


def test_what_cannot_be_decided_so_is_left_out_and_says_why(
    browser, bob, alice, make_thread, three
):
    arguments = {**GOOD, "flight": "TP 9\n" * 40}
    long = make_waiting(make_thread(owner=alice), alice, ("book", arguments))[0]
    asked = {"question": "Window or aisle?"}
    question = make_waiting(make_thread(owner=alice), alice, ("ask_traveller", asked))
    text, seen = chosen(browser(bob), "approve", [*three, long, *question])
    assert len(seen) == 3
    assert "2 will be left out" in text
    assert "open it by itself" in text


def test_what_changed_since_it_was_shown_is_left(browser, bob, three):
    client = browser(bob)
    _, seen = chosen(client, "approve", three[:1])
    tampered = [re.sub(":[0-9a-f]{64}:", f":{'0' * 64}:", seen[0])]
    client.post("/inbox/batch", {"do": "approve", "seen": tampered})
    assert statuses(three) == ["pending"] * 3


@pytest.mark.parametrize("do", ["approve", "reject"])
def test_a_line_that_does_not_say_what_was_shown_is_left(browser, bob, three, do):
    client = browser(bob)
    _, seen = chosen(client, do, three)
    ends = ("", ":", ":00")
    cut = [text.rpartition(":")[0] + end for text, end in zip(seen, ends, strict=True)]
    posted = {"do": do, "seen": cut, "reason": "Too dear."}
    answer = " ".join(client.post("/inbox/batch", posted).content.decode().split())
    assert f"0 of 3 {do}" in answer
    assert statuses(three) == ["pending"] * 3


def test_snoozed_requests_leave_the_list(browser, bob, three):
    client = browser(bob)
    _, seen = chosen(client, "snooze", three[:2])
    client.post("/inbox/batch", {"do": "snooze", "seen": seen, "until": "day"})
    assert Snooze.objects.unscoped(Reason.TEST).filter(by=bob.user_id).count() == 2
    assert 'Snoozed <span class="num">2' in client.get("/inbox/").content.decode()


def test_requests_are_assigned_to_who_may_decide_them(browser, bob, alice, three):
    client = browser(bob)
    _, seen = chosen(client, "assign", three)
    client.post("/inbox/batch", {"do": "assign", "seen": seen, "to": alice.user_id})
    rows = Approval.objects.unscoped(Reason.TEST)
    assert {one.assigned_to_id for one in rows.all()} == {alice.user_id}


@pytest.mark.parametrize("to", ["²", "", "9" * 5000])
def test_whom_nobody_knows_is_assigned_nothing(browser, bob, three, to):
    client = browser(bob)
    _, seen = chosen(client, "assign", three[:1])
    answer = client.post("/inbox/batch", {"do": "assign", "seen": seen, "to": to})
    assert answer.status_code in (200, 422)
    rows = Approval.objects.unscoped(Reason.TEST)
    assert {one.assigned_to_id for one in rows.all()} == {None}


def test_foreign_and_odd_ids_are_not_there(browser, other, bob, three):
    text, seen = chosen(browser(other), "approve", three)
    assert (seen, "TP 1" in text) == ([], False)
    assert browser(bob).get("/inbox/batch?do=sell").status_code == 400
    assert (
        "Nothing is selected"
        in browser(bob).get("/inbox/batch?do=approve&id=odd").content.decode()
    )


def test_what_is_too_long_to_be_read_together_is_not_approved_so(
    browser, bob, alice, make_thread, three
):
    """Even where a form says that it was shown: no form of the page does."""
    arguments = {**GOOD, "flight": "TP 9\n" * 40}
    (long,) = make_waiting(make_thread(owner=alice), alice, ("book", arguments))
    client = browser(bob)
    _, seen = chosen(client, "approve", three[:1])
    digest = bytes(long.digest).hex()
    seen.append(f"{long.pk}:{long.revision}:{digest}:{'00' * 32}")
    answer = client.post("/inbox/batch", {"do": "approve", "seen": seen})
    assert "1 of 2 approved" in answer.content.decode()
    assert "open it by itself" in answer.content.decode()
    assert statuses([long, three[0]]) == ["pending", "approved"]


@pytest.mark.parametrize(
    ("to", "status"),
    [("²", 422), ("-1", 422), ("bob", 422), ("9" * 10, 200), ("9" * 5_000, 200)],
)
def test_nobody_has_such_a_number(browser, bob, three, to, status):
    client = browser(bob)
    _, seen = chosen(client, "assign", three[:1])
    answer = client.post("/inbox/batch", {"do": "assign", "seen": seen, "to": to})
    assert answer.status_code == status
    assert "1 of 1 assigned" not in answer.content.decode()
    assert (
        Approval.objects.unscoped(Reason.TEST).get(pk=three[0].pk).assigned_to is None
    )


def test_many_are_looked_at_with_as_many_queries_as_few(
    browser, bob, alice, make_thread, workspace
):
    """Who may decide is asked for all of them together, and is what it is for each."""
    group = Group.objects.create(workspace=workspace, name="Finance")
    group.members.set(Membership.objects.unscoped(Reason.TEST))
    terms = Terms(
        groups=(str(group.pk),), exclude=("starter", "author", "editor"), approvers=1
    )

    def asked(count: int, by: UserPrincipal) -> list[Approval]:
        return [
            make_waiting(make_thread(owner=by), by, terms=terms)[0]
            for _ in range(count)
        ]

    client = browser(bob)
    few, many, mine = asked(2, alice), asked(9, alice), asked(1, bob)
    counts = []
    chosen(client, "approve", few)  # keys are known from here on
    for some in (few, many):
        with CaptureQueriesContext(connection) as queries:
            _, seen = chosen(client, "approve", some)
        assert len(seen) == len(some)
        counts.append(len(queries))
    assert counts[0] == counts[1]
    text, seen = chosen(client, "approve", [*mine, *few])
    assert len(seen) == 2
    assert "You started this run." in text
    # Who is left out may refuse what they asked for.
    assert len(chosen(client, "reject", [*mine, *few])[1]) == 3
    group.members.clear()
    text, seen = chosen(client, "approve", [*mine, *few])
    assert not seen
    assert "asks Finance. You are in none of these groups." in text


def test_the_line_that_the_list_had_goes_with_each_decision(browser, bob, three):
    client = browser(bob)
    for do, one in (("approve", three[0]), ("reject", three[1])):
        _, seen = chosen(client, do, [one])
        client.post("/inbox/batch", {"do": do, "seen": seen, "reason": "Too dear."})
        made = Decision.objects.unscoped(Reason.TEST).get(approval=one)
        assert made.shown is not None
        assert bytes(made.shown).hex() == seen[0].rpartition(":")[2]
        event = AuditEvent.objects.unscoped(Reason.TEST).get(
            action=do, object_id=one.pk
        )
        assert event.detail["shown"] == "list"
    assert statuses(three) == ["approved", "rejected", "pending"]


def test_what_was_another_line_in_the_list_is_left(browser, bob, three):
    client = browser(bob)
    _, seen = chosen(client, "approve", three[:2])
    seen[0] = seen[0].rpartition(":")[0] + ":" + "0" * 64
    answer = client.post("/inbox/batch", {"do": "approve", "seen": seen})
    assert "is not what was shown" in answer.content.decode()
    assert statuses(three) == ["pending", "approved", "pending"]


@pytest.mark.parametrize(
    "now", [{"place": "hall 9", "booth": "1500.00"}, {"booth": "unknown"}]
)
def test_what_a_guard_found_is_not_approved_on_a_list(
    browser, bob, alice, make_thread, now
):
    """Its lines do not say it: another price and place, or that nobody knows."""
    booth = {"what": "booth", "price": "1200.00"}
    rent = make_waiting(make_thread(owner=alice), alice, ("rent", booth))[0]
    before = rent.as_shown()
    try:
        COSTS.update(now)
        guards.ask_check(rent, alice)
        looks.check(rent.pk)
    finally:
        COSTS.clear()
    client = browser(bob)
    text, seen = chosen(client, "approve", [rent])
    assert seen == []
    assert "Its guard says more than fits here" in text
    rent = Approval.objects.unscoped(Reason.TEST).get(pk=rent.pk)
    for was in (before, rent.as_shown()):  # as a form that was made before, or by hand
        sent = f"{rent.pk}:{was.revision}:{was.digest.hex()}:"
        client.post("/inbox/batch", {"do": "approve", "seen": [sent]})
    assert statuses([rent]) == ["pending"]
