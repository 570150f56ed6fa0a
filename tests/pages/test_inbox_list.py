"""The Inbox's list: tabs, headings, filters, pages, folding, and what an open list hears."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from agents.approvals.decide import approve
from agents.models import Approval, Snooze
from agents.pages.inbox import find, queue
from agents.pages.inbox.queue import FOLDED
from checkpoints.access import Reason
from checkpoints.models import AuditEvent, Group, Membership
from tests.agents.waiting import GOOD, make_waiting
from tests.conftest import as_owner
from tests.pages.forms import hash_on_page

pytestmark = pytest.mark.django_db(transaction=True)

PART = "/f/inbox/"


@pytest.fixture
def ask(alice, make_thread):
    """Makes a request: ask(flight="TP 1", due_at=…)."""

    def ask(flight="TP 209", *, owner=alice, tool="book", **columns) -> Approval:
        arguments = {**GOOD, "flight": flight}
        if tool == "ask_traveller":
            arguments = {"question": flight}
        made = make_waiting(make_thread(owner=owner), owner, (tool, arguments))[0]
        if columns:
            Approval.objects.unscoped(Reason.TEST).filter(pk=made.pk).update(**columns)
        made.refresh_from_db()
        return made

    return ask


def text(client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def flights(page: str) -> list[str]:
    """Titles of the list, in their order."""
    listed = page.partition('id="inbox-list"')[2].partition("</section>")[0]
    return re.findall(r"Book (TP \d+), ", listed)


def headings(page: str) -> list[str]:
    listed = page.partition('id="inbox-list"')[2].partition("</section>")[0]
    return re.findall(r'<h2 class="ov">([^<]+)</h2>', listed)


def shown(page: str) -> str:
    """What the list says that it shows, as the query of its next request."""
    (found,) = re.findall(r"(shown=[^\"]*)\"", page)
    return found.replace("&amp;", "&")


def bound(monkeypatch, name: str, value: int) -> None:
    """Another bound, for statements that are compiled anew: no other test sees either."""
    monkeypatch.setattr(find, name, value)
    firsts, places = queue._FIRST.values(), queue._PLACES.values()
    for each in (*firsts, *places, find._COUNTED, *find._WAITING.values()):
        monkeypatch.setattr(each, "_statements", {})


def soon(**span) -> datetime:
    return timezone.now() + timedelta(**span)


def test_what_is_due_comes_first_then_priority_risk_and_age(browser, alice, ask):
    ask("TP 6", risk="low")
    ask("TP 5", risk="critical")
    ask("TP 4", risk="low", priority=1)
    ask("TP 3", due_at=soon(days=3))
    ask("TP 2", due_at=find.end_of_today() - timedelta(seconds=1))
    ask("TP 1", due_at=soon(minutes=-5))
    page = text(browser(alice), "/inbox/")
    assert flights(page) == [f"TP {n}" for n in range(1, 7)]
    assert headings(page) == ["Overdue", "Due today", "Due later", "No deadline"]


def test_mine_is_what_a_person_may_decide_and_team_is_everything(
    browser, alice, bob, omar, workspace, ask
):
    with as_owner():
        finance = Group.objects.unscoped(Reason.TEST).create(
            workspace=workspace, name="Finance"
        )
        finance.members.add(
            Membership.objects.unscoped(Reason.TEST).get(user=bob.user_id)
        )
    ask("TP 1")
    ask("TP 2", terms={"groups": [str(finance.pk)]})
    ask("TP 3", assigned_to_id=bob.user_id)
    ask("TP 4", terms={"exclude": ["starter"]})  # alice has started it
    step = {"after": 60, "group": str(finance.pk)}
    board = {"groups": [str(uuid4())], "escalation": [{"after": 30}, step]}
    ask("TP 5", terms=board, level=1)
    ask("TP 6", terms=board, level=2)  # which asks finance, too
    ask("Which seat?", tool="ask_traveller")
    of = {
        person.name: flights(text(browser(person), "/inbox/?show=mine"))
        for person in (alice, bob, omar)
    }
    assert of == {
        "Alice": ["TP 1"],
        "Bob": ["TP 1", "TP 2", "TP 3", "TP 4", "TP 6"],
        "Omar": [],
    }
    assert "Which seat?" in text(browser(omar), "/inbox/?show=mine")
    everything = [f"TP {n}" for n in range(1, 7)]
    assert flights(text(browser(alice), "/inbox/?show=team")) == everything
    assert flights(text(browser(omar), "/inbox/")) == everything  # who decides nothing
    page = text(browser(bob), f"/inbox/?show=team&group={finance.pk}")
    assert flights(page) == ["TP 2"]


def test_a_snoozed_request_is_in_its_own_tab_until_then(browser, alice, bob, ask):
    one, other = ask("TP 1"), ask("TP 2")
    for request, until in ((one, soon(hours=1)), (other, soon(hours=-1))):
        Snooze.objects.create(
            workspace=request.workspace,
            thread=request.thread,
            approval=request,
            by_id=alice.user_id,
            until=until,
        )
    client = browser(alice)
    assert flights(text(client, "/inbox/")) == ["TP 2"]
    assert flights(text(client, "/inbox/?show=snoozed")) == ["TP 1"]
    assert flights(text(browser(bob), "/inbox/")) == ["TP 1", "TP 2"]


def test_filters_are_in_the_address_and_can_be_cleared(browser, alice, bob, ask):
    ask("TP 1", risk="low")
    ask("TP 2", claimed_by_id=bob.user_id)
    ask("TP 3", asked_at=soon(days=-2), claimed_by_id=alice.user_id)
    client = browser(alice)
    for query, left in {
        "risk=low": ["TP 1"],
        "claimed=me": ["TP 3"],
        "claimed=others": ["TP 2"],
        "claimed=nobody": ["TP 1"],
        "age=day": ["TP 3"],
        "agent=waiting-desk&tool=book": ["TP 3", "TP 2", "TP 1"],
        "agent=nobody": [],
        "tool=ask_traveller": [],
        "q=tp+2": ["TP 2"],
        "q=tp&risk=low": ["TP 1"],
        "risk=odd&age=odd&claimed=odd&group=odd&after=odd": ["TP 3", "TP 2", "TP 1"],
    }.items():
        assert flights(text(client, f"/inbox/?{query}")) == left, query
    page = text(client, "/inbox/?agent=nobody")
    assert "No request matches" in page
    assert 'href="/inbox/">Clear filter' in page


def test_a_search_opens_what_the_other_filters_leave_and_is_recorded(
    browser, alice, ask
):
    ask("TP 1", risk="low"), ask("TP 2"), ask("TP 3")
    text(browser(alice), "/inbox/?q=tp+3")
    searched = AuditEvent.objects.unscoped(Reason.TEST).filter(purpose="search inbox")
    assert searched.get().detail["count"] == 3


def test_who_may_not_read_searches_nothing(browser, auditor, ask):
    ask("TP 1")
    assert "Sealed" in text(browser(auditor), "/inbox/?q=tp+1")


def test_older_requests_are_on_the_next_page(browser, alice, ask, monkeypatch):
    bound(monkeypatch, "PAGE", 2)
    for n in range(1, 6):
        ask(f"TP {n}", risk=["low", "medium"][n % 2])
    client, seen, address = browser(alice), [], "/inbox/"
    while address:
        page = text(client, address)
        seen.append(flights(page))
        found = re.search(r'href="([^"]+)" rel="next"', page)
        address = found[1].replace("&amp;", "&") if found else ""
    assert seen == [["TP 1", "TP 3"], ["TP 5", "TP 2"], ["TP 4"]]


def test_decided_requests_are_the_newest_first(browser, alice, ask, monkeypatch):
    bound(monkeypatch, "PAGE", 2)
    for n in range(1, 4):
        request = ask(f"TP {n}")
        approve(request, seen=request.as_shown(), by=alice)
    client = browser(alice)
    page = text(client, "/inbox/?show=decided")
    assert flights(page) == ["TP 3", "TP 2"]
    (older,) = re.findall(r'href="([^"]+)" rel="next"', page)
    assert flights(text(client, older.replace("&amp;", "&"))) == ["TP 1"]


def test_counts_are_cut_where_nobody_would_count_on(browser, alice, ask, monkeypatch):
    bound(monkeypatch, "MOST", 2)
    for n in range(3):
        ask(f"TP {n}")
    page = text(browser(alice), "/inbox/")
    assert 'Mine <span class="num">2+</span>' in page


def test_equal_requests_are_folded_and_in_a_long_list_those_of_one_tool(
    browser, alice, ask
):
    client = browser(alice)
    same, twin, other = ask("TP 1"), ask("TP 1"), ask("TP 2")
    for request, alike in ((same, b"a"), (twin, b"a"), (other, b"b")):
        Approval.objects.unscoped(Reason.TEST).filter(pk=request.pk).update(alike=alike)
    page = text(client, "/inbox/")
    assert "+1 similar" in page
    assert f'id="apr-{same.pk}-alike"' in page
    for n in range(FOLDED - 2):
        ask(f"TP 1{n}")
    assert f"+{FOLDED} similar" in text(client, "/inbox/")
    assert "+1 similar" in text(client, "/inbox/?tool=book")


# A list that is open


def test_what_comes_is_announced_and_never_put_between(browser, alice, ask):
    client = browser(alice)
    ask("TP 2")
    page = text(client, "/inbox/")
    ask("TP 1", due_at=soon(minutes=5))
    part = text(client, f"{PART}?{shown(page)}")
    assert flights(part) == ["TP 2"]
    assert "Show 1 new" in part
    assert 'data-hotkey="."' in part
    assert flights(text(client, "/inbox/")) == ["TP 1", "TP 2"]


def test_below_the_page_nothing_is_new(browser, alice, ask, monkeypatch):
    bound(monkeypatch, "PAGE", 2)
    client = browser(alice)
    for n in range(3):
        ask(f"TP {n}")
    page = text(client, "/inbox/")
    ask("TP 9", risk="low")
    assert "new" not in text(client, f"{PART}?{shown(page)}").partition("</section>")[0]
    ask("TP 8", risk="critical")
    assert "Show 1 new" in text(client, f"{PART}?{shown(page)}")


def test_what_others_decided_says_so_for_a_moment(browser, alice, bob, ask):
    client = browser(alice)
    one, two = ask("TP 1"), ask("TP 2")
    ask("TP 3")
    page = text(client, "/inbox/")
    approve(one, seen=one.as_shown(), by=bob)
    approve(two, seen=two.as_shown(), by=alice)
    part = text(client, f"{PART}?{shown(page)}")
    assert flights(part) == ["TP 1", "TP 3"]  # what one decided oneself is gone
    assert "parting" in part
    assert "Bob</span>" in part
    assert "load delay:5s" in part
    Approval.objects.unscoped(Reason.TEST).filter(pk=one.pk).update(
        decided_at=soon(seconds=-6)
    )
    assert flights(text(client, f"{PART}?{shown(part)}")) == ["TP 3"]


def test_a_full_page_that_asks_again_still_leads_to_the_next(
    browser, alice, ask, monkeypatch
):
    bound(monkeypatch, "PAGE", 2)
    client = browser(alice)
    for n in range(1, 5):
        ask(f"TP {n}")
    page = text(client, "/inbox/")
    for _ in range(2):
        page = text(client, f"{PART}?{shown(page)}")
        assert flights(page) == ["TP 1", "TP 2"]
        assert 'rel="next"' in page
        assert 'id="inbox-new"' not in page


def test_what_left_is_made_up_for_at_the_end(browser, alice, ask, monkeypatch):
    bound(monkeypatch, "PAGE", 2)
    client = browser(alice)
    first, *_ = [ask(f"TP {n}") for n in range(1, 6)]
    page = text(client, "/inbox/")
    approve(first, seen=first.as_shown(), by=alice)
    part = text(client, f"{PART}?{shown(page)}")
    assert flights(part) == ["TP 2", "TP 3"]
    assert "new" not in part.partition("</section>")[0]
    assert 'rel="next"' in part


def test_the_list_goes_on_where_it_was_after_a_decision(browser, alice, ask):
    client = browser(alice)
    low = [ask(f"TP {n}", risk="low") for n in range(3)]
    ask("TP 9", risk="critical")
    posted = {
        "decision": "approve",
        "revision": low[1].revision,
        "digest": bytes(low[1].digest).hex(),
        "shown": hash_on_page(client, low[1]),
    }
    headers = {
        "HX-Request": "true",
        "HX-Current-URL": f"http://testserver/inbox/{low[1].pk}/?show=team&risk=low",
    }
    answer = client.post(f"/inbox/{low[1].pk}/decide", posted, headers=headers)
    assert (
        f'href="/inbox/{low[2].pk}/?show=team&amp;risk=low"' in answer.content.decode()
    )
    assert "#inbox-list" in answer["HX-Trigger"]


def test_the_navigation_counts_what_waits_for_this_person(browser, alice, omar, ask):
    ask("TP 1"), ask("Which seat?", tool="ask_traveller")
    assert ">2<" in text(browser(alice), "/f/waiting")
    client = browser(alice)
    first = client.get("/f/waiting")
    again = client.get("/f/waiting", headers={"HX-PTag": first["HX-PTag"]})
    assert again.status_code == 304
