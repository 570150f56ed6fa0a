"""Two branches beside each other, and two steps: what each took, and where they part."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest

from agents.models import Approval
from agents.pages.compare import rows
from checkpoints.access import Reason
from checkpoints.log.threads import fork
from checkpoints.models import AuditEvent, Checkpoint
from tests.conftest import as_owner
from tests.pages.conftest import append, reply, result
from tests.pages.test_thread_page import text


def openings(purpose: str) -> list[AuditEvent]:
    return list(
        AuditEvent.objects.unscoped(Reason.TEST).filter(action="open", purpose=purpose)
    )


def page_of(a, b) -> str:
    return f"/threads/compare/{a.pk}/{b.pk}/"


def diff_of(a, b) -> str:
    return f"/threads/diff/{a}/{b}/"


def words(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def table(page: str) -> str:
    """The aligned steps, in words."""
    return words(page.partition('id="cmp-steps"')[2])


@pytest.fixture
def again(trip, alice):
    """A branch from step 0 that does what main did, with ids of its own, and one more."""
    source = Checkpoint.objects.unscoped(Reason.TEST).get(pk=trip.at(0))
    branch = fork(source, name="again", by_id=alice.user_id)
    (quote,) = [reply("", ("quote_fare", '{"flight": "TP 209"}'), run=trip.run.pk)]
    return append(branch, quote, result("look", "nothing", label="Look"))


def test_two_branches_with_what_each_took(browser, trip, alice):
    page = text(browser(alice).get(page_of(trip.branch, trip.cheap)))
    said = words(page)
    assert "A · main @4" in said
    assert "cheaper-model" in said
    assert "waiting" in said.partition("Outcome")[2][:200]
    for measure in (
        "Steps 5 6 +1; 3 shared",
        "Cost $0.004 $0.004",
        "Approvals asked 1 0",
    ):
        assert measure in said
    assert "Model scripted scripted" in said


def test_a_fork_asked_nothing_that_its_source_asked_later(browser, trip, alice):
    """It has the reply that main's request is about, which main asked a step later; and
    what it asks itself about that reply is not main's."""
    source = Checkpoint.objects.unscoped(Reason.TEST).get(pk=trip.at(3))
    made = append(fork(source, name="ten", by_id=alice.user_id), reply("Cheaper."))
    client = browser(alice)
    address = page_of(trip.branch, made)
    assert "Approvals asked 1 0" in words(text(client.get(address)))
    with as_owner():
        asked = Approval.objects.unscoped(Reason.TEST).filter(pk=trip.approval.pk)
        asked.update(branch=made)
    assert "Approvals asked 0 1" in words(text(client.get(address)))


def test_the_first_divergence_is_named_and_open(browser, trip, alice):
    page = text(browser(alice).get(page_of(trip.branch, trip.cheap)))
    said = table(page)
    assert "Steps 0\N{EN DASH}2 are the same history." in said
    assert "First difference: step 3 of B" in said
    assert "/params/model" in said
    assert 'id="cmp-diff"' in page
    assert 'id="row-0" aria-current="true"' in page
    assert "scripted-mini" in said
    assert trip.page(3) in page  # each side's steps lead to it
    assert trip.page(3, "cheap") in page


def test_the_next_difference_is_a_link_away_and_so_is_the_one_before(
    browser, trip, alice
):
    client = browser(alice)
    page = text(client.get(page_of(trip.branch, trip.cheap)))
    assert '?at=1#row-1" hx-get' in page
    page = text(client.get(page_of(trip.branch, trip.cheap), {"at": 1}))
    assert 'id="row-1" aria-current="true"' in page
    assert "Cheaper it is." in table(page)
    assert 'data-hotkey="p"' in page
    assert diff_of(trip.at(3), trip.at(4, "cheap")) in page
    part = text(client.get(f"/f{page_of(trip.branch, trip.cheap)}", {"at": 1}))
    assert part.lstrip().startswith("<section")
    assert 'id="row-1" aria-current="true"' in part


def test_steps_that_did_the_same_are_the_same_whatever_their_ids(
    browser, trip, again, alice
):
    page = text(browser(alice).get(page_of(trip.branch, again)))
    assert 'title="the same">=<' in page
    assert "First difference: step 2" in table(page)


def test_a_branch_beside_itself_has_one_history(browser, trip, alice):
    page = text(browser(alice).get(page_of(trip.branch, trip.branch)))
    assert "The same history" in table(page)


def test_two_threads_are_compared_from_their_first_step(
    browser, trip, make_trip, alice
):
    other = make_trip(alice, title="Another board week")
    page = text(browser(alice).get(page_of(trip.branch, other.branch)))
    assert "Another board week" in page
    assert "No difference in steps 0 to 4" in table(page)
    [event] = openings("compare")
    assert event.detail["count"] == 2


def test_it_can_be_kept_as_it_stands(browser, trip, alice):
    client = browser(alice)
    page = text(client.get(page_of(trip.branch, trip.cheap)))
    assert "?a_to=4&amp;b_to=5" in page
    trip.cheap = append(trip.cheap, reply("And on."))
    kept = text(client.get(page_of(trip.branch, trip.cheap), {"a_to": 3, "b_to": 4}))
    assert "Steps 4 5 +1" in words(kept)
    assert "And on." not in kept
    now = text(client.get(page_of(trip.branch, trip.cheap)))
    assert "And on." in now


def test_long_branches_are_shown_in_windows_and_aligned_in_parts(
    browser, trip, again, alice, monkeypatch
):
    monkeypatch.setattr(rows, "PART", 40)
    monkeypatch.setattr(rows, "WINDOW", 10)
    steps = [
        step for n in range(30) for step in (reply(f"{n}"), result("look", f"{n}"))
    ]
    other = [
        step for n in range(30) for step in (reply(f"{n}"), result("look", f"{n}!"))
    ]
    one, two = append(trip.branch, *steps), append(again, *other)
    client = browser(alice)
    page = text(client.get(page_of(one, two)))
    assert page.count('<tr id="row-') == 10
    assert "Later rows" in page
    assert "Earlier rows" not in page
    assert "The steps after these" in page
    later = text(client.get(page_of(one, two), {"at": 25}))
    assert 'id="row-25" aria-current="true"' in later
    assert "Earlier rows" in later
    following = text(client.get(page_of(one, two), {"part": 1}))
    assert "The steps before these" in following
    assert "The steps after these" not in following
    beyond = text(client.get(page_of(one, two), {"part": 9, "at": 7}))
    assert '<tr id="row-' not in beyond


@pytest.mark.parametrize(
    "query", ["at=9999", "at=-1", "at=x", "a_to=999", "part=x", "b_to=%00"]
)
def test_an_odd_address_is_no_trouble(browser, trip, alice, query):
    text(browser(alice).get(f"{page_of(trip.branch, trip.cheap)}?{query}"))


# What is shown is opened, and nothing else


def test_opening_both_is_recorded_once_with_its_steps(browser, trip, alice):
    browser(alice).get(page_of(trip.branch, trip.cheap))
    [event] = openings("compare")
    assert event.object_id == trip.thread.pk
    assert event.detail["steps"] == "0-4 and 0-5"


def test_an_auditor_sees_structure_and_times_and_opens_nothing(browser, trip, auditor):
    client = browser(auditor)
    page = text(client.get(page_of(trip.branch, trip.cheap), {"at": 1}))
    said = words(page)
    assert "sealed" in said
    assert "Steps 5 6 +1" in said
    for secret in ("Board week", "cheaper-model", "Cheaper it is", "scripted-mini"):
        assert secret not in page
    assert "model call" in table(page)
    page = text(client.get(diff_of(trip.at(3), trip.at(4, "cheap"))))
    assert "sealed" in page
    assert "Board week" not in page
    page = text(client.get("/threads/compare/"))
    assert "Board week" not in page
    assert not openings("compare")
    assert not openings("diff")
    assert not openings("choose what to compare")


def test_what_is_not_theirs_is_not_there(browser, trip, make_trip, alice, bob):
    hers = make_trip(alice, title="Private", visibility="private")
    client = browser(bob)
    for path in (
        page_of(trip.branch, hers.branch),
        page_of(hers.branch, trip.branch),
        diff_of(trip.at(1), hers.at(1)),
        diff_of(hers.at(1), trip.at(1)),
        diff_of(trip.at(1), uuid4()),
        f"/threads/compare/?branch={hers.branch.pk}",
        f"/threads/compare/?thread={trip.thread.pk}&thread={hers.thread.pk}",
        "/threads/compare/?branch=nonsense",
    ):
        assert client.get(path).status_code == 404, path
    assert "Private" not in text(client.get("/threads/compare/"))


# Two steps


def test_any_two_steps_of_any_branches_and_threads(browser, trip, make_trip, alice):
    client = browser(alice)
    page = text(client.get(diff_of(trip.at(4), trip.at(4, "cheap"))))
    assert "/params/model" in page
    assert "3 messages unchanged" in words(page)
    assert "cheaper-model" in page
    other = make_trip(alice, title="Another board week")
    page = text(client.get(diff_of(trip.at(4), other.at(4))))
    assert "The two states are the same." in page  # ids are others
    assert "Another board week" in page
    assert len(openings("diff")) == 2
    page = text(client.get(diff_of(trip.at(4), other.at(0)), {"split": 1}))
    assert "split2" in page
    assert "/facts/fare" in page


def test_a_step_beside_itself_is_the_same(browser, trip, alice):
    page = text(browser(alice).get(diff_of(trip.at(2), trip.at(2))))
    assert "The two states are the same." in page


# Ways to get there


def test_a_fork_is_compared_with_its_source_from_its_page(browser, trip, alice):
    page = text(browser(alice).get(trip.page(4, "cheap")))
    assert f'href="{page_of(trip.branch, trip.cheap)}"' in page
    assert "Compare with source" in page


def test_the_branch_menu_leads_to_a_choice_of_branches(browser, trip, alice):
    client = browser(alice)
    page = text(client.get(trip.page(4)))
    ask = f"/threads/compare/?ask=1&amp;branch={trip.branch.pk}"
    assert ask in page
    asked = text(client.get(ask.replace("&amp;", "&")))
    assert f'value="{trip.branch.pk}" selected' in asked
    assert "cheaper-model, step 5" in asked
    chosen = client.get(
        "/threads/compare/", {"branch": [trip.branch.pk, trip.cheap.pk]}
    )
    assert chosen.status_code == 303
    assert chosen["Location"] == page_of(trip.branch, trip.cheap)
    again = text(client.get("/threads/compare/", {"branch": [trip.branch.pk, ""]}))
    assert f'value="{trip.branch.pk}" selected' in again


def test_two_selected_threads_are_compared_by_the_branches_that_tell_of_them(
    browser, trip, make_trip, alice
):
    other = make_trip(alice, title="Another board week")
    client = browser(alice)
    page = text(client.get("/threads/"))
    assert page.count('name="thread"') == 2
    assert "Compare selected" in page
    ids = [trip.thread.pk, other.thread.pk]
    chosen = client.get("/threads/compare/", {"thread": ids})
    assert chosen["Location"] == page_of(trip.branch, other.branch)
    third = make_trip(alice, title="A third")
    page = text(client.get("/threads/compare/", {"thread": [*ids, third.thread.pk]}))
    assert "Two can be compared at a time" in page
    page = text(client.get("/threads/compare/", {"thread": ids[:1]}))
    assert f'value="{trip.branch.pk}" selected' in page


def test_where_there_is_nothing_it_says_so(browser, alice):
    assert "Nothing to compare yet" in text(browser(alice).get("/threads/compare/"))
