"""The page of a board: what is on it, who wrote it, what is locked; restore, take away."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.utils.html import strip_tags

from agents.models import ToolCall
from checkpoints import entries, entry_locks
from checkpoints.access import Board, Reason, RunPrincipal
from checkpoints.errors import LockLost
from checkpoints.grants import grant_for
from checkpoints.models import EntryLock
from checkpoints.pure.names import name

PLAN = name(["trip"], "plan")
MINUTE = timedelta(minutes=1)


def text(response) -> str:
    """What a reader of the page has before them, its markup taken away."""
    return " ".join(unescape(strip_tags(response.content.decode())).split())


def principal(trip, alice, *, run=None, line=None) -> RunPrincipal:
    grant = grant_for(alice, trip.thread.pk)
    board = Board(trip.branch.pk, line or trip.branch.pk)
    of = run or trip.run.pk
    return RunPrincipal(of, alice.workspace_id, trip.thread.pk, grant.pk, board)


@pytest.fixture
def run(trip, alice) -> RunPrincipal:
    """The trip's run, which wrote the plan twice: in its call for a quote, and since."""
    run = principal(trip, alice)
    board, call = Board(trip.branch.pk), trip.calls["quote"].pk
    entries.put(run, board, PLAN, "by train", request_key=call)
    entries.put(run, board, PLAN, "by air", expected=1)
    return run


@pytest.fixture
def page(trip) -> str:
    return f"/threads/{trip.thread.pk}/board/"


@pytest.fixture
def plan(run, alice, page) -> str:
    """The address of the plan's entry, at version 2."""
    found = entries.get(alice, run.board.public, PLAN)
    assert found is not None
    return f"{page}{found.entry.pk}/"


def value(by, run) -> Any:
    found = entries.get(by, run.board.public, PLAN)
    return found and found.value


def restore(client, address, version, *, expected=2):
    return client.post(address, {"version": version, "expected": expected})


def test_the_board_lists_entries_with_versions_and_leads_to_the_thread(
    browser, viewer, run, page, plan, trip
):
    shown = browser(viewer).get(page)
    assert shown.status_code == 200
    assert "trip/plan" in text(shown)
    assert '"by air"' in text(shown)
    assert f'href="{plan}?branch={trip.branch.pk}"' in shown.content.decode()
    thread = browser(viewer).get(f"/threads/{trip.thread.pk}/")
    assert f'href="{page}?branch={trip.branch.pk}"' in thread.content.decode()


def test_a_version_names_the_agent_the_run_and_the_step_that_wrote_it(
    browser, viewer, plan, trip
):
    shown = browser(viewer).get(plan)
    agent = trip.run.agent_version.agent.name
    call = ToolCall.objects.unscoped(Reason.TEST).get(pk=trip.calls["quote"].pk)
    step = call.result_checkpoint
    assert step is not None
    run = str(trip.run.pk)[-4:]
    assert f"{agent}, run {run}, step {step.step}" in text(shown)
    address = f'href="/threads/{trip.thread.pk}/at/{step.pk}/"'
    assert address in shown.content.decode()
    assert "Restore" not in text(shown)  # viewers read


def test_where_nothing_is_the_page_says_what_would_be(browser, alice, page):
    shown = text(browser(alice).get(page))
    assert "Nothing is on this board" in shown
    assert "A fork begins with an empty board of its own" in shown


def test_a_fork_has_a_board_of_its_own(browser, alice, run, page, plan, trip):
    client = browser(alice)
    fork = f"?branch={trip.cheap.pk}"
    assert "Nothing is on this board" in text(client.get(page + fork))
    assert client.get(plan + fork).status_code == 404
    for nothing in (f"?branch={uuid4()}", "?branch=x", "?line=x"):
        assert client.get(page + nothing).status_code == 404


def test_what_an_agent_keeps_for_itself_is_a_part_of_its_own(browser, alice, run, page):
    entries.put(run, run.board, name([], "doubt"), "is it true?")
    shown = browser(alice).get(page)
    assert "doubt" not in text(shown)
    [part] = re.findall(r'href="([^"]*line=[^"]*)"', shown.content.decode())
    shown = browser(alice).get(unescape(part))
    assert "is it true?" in text(shown)
    assert "trip/plan" not in text(shown)


def test_a_board_is_seen_by_those_who_see_its_thread(
    browser, make_trip, alice, bob, other
):
    trip = make_trip(alice, visibility="private")
    run = principal(trip, alice)
    row = entries.put(run, Board(trip.branch.pk), PLAN, "by train")
    entry_locks.take(run, PLAN, lasts=MINUTE)
    lock = EntryLock.objects.unscoped(Reason.TEST).get()
    page = f"/threads/{trip.thread.pk}/board/"
    assert "by train" in text(browser(alice).get(page))
    for who in (bob, other):
        client = browser(who)
        assert client.get(page).status_code == 404
        assert client.get(f"/f{page}").status_code == 404
        assert restore(client, f"{page}{row.entry_id}/", 1).status_code == 404
        sent = {"lock": lock.pk, "fence": lock.fence}
        assert client.post(page, sent).status_code == 404
        # Nor by the way of memory, where it is nobody's.
        assert client.get(f"/memory/{row.entry_id}/").status_code == 404
    assert browser(alice).get(f"/memory/{row.entry_id}/").status_code == 404


def test_to_an_auditor_it_is_sealed(browser, auditor, plan, page):
    for address in (page, plan):
        shown = browser(auditor).get(address)
        assert "What agents share is sealed" in text(shown)
        assert "by air" not in text(shown)
        assert "trip/plan" not in text(shown)
    assert browser(auditor).get(f"/f{page}").status_code == 403


# Restore


def test_an_operator_brings_a_version_back(browser, bob, viewer, plan, run):
    assert restore(browser(viewer), plan, 1).status_code == 403
    client = browser(bob)
    answer = restore(client, plan, 1)
    assert answer.status_code == 303
    shown = text(client.get(answer["Location"]))
    assert "Version 1 is back, as version 3." in shown
    assert shown.count("by train") > 1
    assert value(bob, run) == "by train"


def test_restoring_what_an_agent_wrote_meanwhile_does_nothing(browser, bob, plan, run):
    entries.put(run, run.board.public, PLAN, "on foot", expected=2)
    answer = restore(browser(bob), plan, 1)
    assert answer.status_code == 409
    assert "saved version 3 meanwhile. This is how it is now." in text(answer)
    assert value(bob, run) == "on foot"


def test_what_cannot_be_restored_is_said(browser, bob, plan):
    answer = restore(browser(bob), plan, 9)
    assert answer.status_code == 422
    assert "Version 9 has no value" in text(answer)


# Locks


def test_a_lock_is_shown_with_its_holder_and_an_operator_takes_it_away(
    browser, bob, viewer, plan, page, run, trip
):
    lock = entry_locks.take(run, PLAN, lasts=MINUTE)
    shown = browser(viewer).get(page)
    holder = f"{trip.run.agent_version.agent.name}, run {str(trip.run.pk)[-4:]}"
    assert holder in text(shown).partition("Locked")[2]
    assert "Take away" not in text(shown)
    sent = {"lock": str(lock.pk), "fence": lock.fence}
    assert browser(viewer).post(page, sent).status_code == 403
    answer = restore(browser(bob), plan, 1)
    assert answer.status_code == 409
    assert "It is locked by run" in text(answer)
    client = browser(bob)
    answer = client.post(page, sent)
    assert "The lock was taken away" in text(client.get(answer["Location"]))
    again = client.post(page, sent)
    assert again.status_code == 409
    assert "had ended already" in text(again)
    with pytest.raises(LockLost):
        entries.put(run, run.board.public, PLAN, 1, expected=2, fence=lock.fence)


@pytest.mark.parametrize("lock", ["", "x", str(UUID(int=7))])
def test_a_lock_that_is_none_is_not_found(browser, bob, page, lock):
    assert browser(bob).post(page, {"lock": lock, "fence": "1"}).status_code == 404


# Live


def test_the_list_is_drawn_anew_when_something_was_written_or_locked(
    browser, alice, run, page
):
    client = browser(alice)
    shown = client.get(page).content.decode()
    [tag] = re.findall(r'hx-ptag="([^"]*)"', shown)

    def asked(tag: str):
        return client.get(f"/f{page}", headers={"HX-PTag": tag})

    assert asked(tag).status_code == 304
    entries.put(run, run.board.public, PLAN, "on foot", expected=2)
    written = asked(tag)
    assert written.status_code == 200
    assert "on foot" in text(written)
    lock = entry_locks.take(run, PLAN, lasts=MINUTE)
    locked = asked(written["HX-PTag"])
    assert "Take away" in text(locked)
    assert asked(locked["HX-PTag"]).status_code == 304
    entry_locks.release(run, lock, fence=lock.fence)
    assert "Take away" not in text(asked(locked["HX-PTag"]))


def test_what_agents_wrote_is_text_wherever_it_is_shown(browser, alice, trip, page):
    bad = "<script>alert(1)</script>\u202e"
    run = principal(trip, alice)
    row = entries.put(run, Board(trip.branch.pk), name([bad], bad), bad)
    entry_locks.take(run, name([bad], bad), lasts=MINUTE)
    for address in (page, f"{page}{row.entry_id}/", f"/f{page}"):
        shown = browser(alice).get(address).content.decode()
        assert "<script>alert" not in shown
        assert "\u202e" not in shown
        assert "U+202E" in shown
