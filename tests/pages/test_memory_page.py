"""The Memory page: whose entries, by prefix and by words, changed without losing anything."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.utils.html import strip_tags

from agents.models import ToolCall
from checkpoints import entries
from checkpoints.access import Reason, RunPrincipal
from checkpoints.clock import now
from checkpoints.entries import Scope
from checkpoints.grants import grant_for
from checkpoints.models import Entry
from checkpoints.pure.names import name

USER, WORKSPACE = Scope.USER, Scope.WORKSPACE
SEAT = name(["travellers", "marsh"], "seat")


def text(response) -> str:
    """What a reader of the page has before them, its markup taken away."""
    return " ".join(unescape(strip_tags(response.content.decode())).split())


def listed(response) -> list[str]:
    """The names in the list."""
    table = response.content.decode().partition('id="entries"')[2].partition("</table>")
    links = re.findall(r'<a class="mono"[^>]*>(.*?)</a>', table[0])
    return [unescape(strip_tags(link)) for link in links]


def value(by, scope=USER, of=SEAT) -> Any:
    found = entries.get(by, scope, of)
    return found and found.value


@pytest.fixture
def seat(alice) -> str:
    """The address of an entry of everyone's, at version 1: alice put it."""
    row = entries.put(alice, WORKSPACE, SEAT, "aisle")
    return f"/memory/{row.entry_id}/"


def save(client, address, words, *, expected=1, **more):
    sent = {"do": "save", "value": words, "kind": "text", "expected": expected, **more}
    return client.post(address, sent)


# The list


def test_the_list_shows_ones_own_and_apart_from_it_the_workspaces(browser, alice, bob):
    entries.put(alice, USER, SEAT, "hers")
    entries.put(bob, USER, name([], "bob"), "his")
    entries.put(bob, WORKSPACE, name([], "all"), "everyone's")
    page = browser(alice).get("/memory/")
    assert listed(page) == ["travellers/marsh/seat"]
    assert '"hers"' in text(page)
    assert "his" not in text(page).replace("this", "").replace("history", "")
    page = browser(alice).get("/memory/?scope=workspace")
    assert listed(page) == ["all"]
    assert "Bob" in text(page)


def test_words_that_mean_the_same_find_it_where_a_model_knows_meanings(
    browser, alice, llm, settings
):
    settings.OPENAI_BASE_URL, settings.OPENAI_API_KEY = llm.base_url, llm.api_key
    settings.EMBEDDING_MODEL = "scripted-embedding-1"
    entries.put(alice, Scope.USER, name([], "way"), "Call a taxi from Gul")
    page = browser(alice).get("/memory/?q=cab").content.decode()
    assert "Call a taxi from Gul" in page
    assert "by-words" not in page
    llm.embedding_fault("503")
    page = browser(alice).get("/memory/?q=cab").content.decode()
    assert "answered with 503. 1 entry was searched by words alone." in page
    assert "No entry has these words" in page


def test_a_prefix_is_matched_by_whole_parts_and_leads_down_and_up(browser, alice):
    for customer in ("acme", "acme-corp", "a/b"):
        entries.put(alice, USER, name(["c", customer], "tier"), 1)
    client = browser(alice)
    page = client.get("/memory/?in=c")
    assert listed(page) == ["c/a~1b/tier", "c/acme/tier", "c/acme-corp/tier"]
    for part in ("c/acme", "c/acme-corp", "c/a~1b"):
        assert f'href="/memory/?in={part.replace("/", "%2F")}"' in page.content.decode()
    assert listed(client.get("/memory/?in=c/acme")) == ["c/acme/tier"]
    assert listed(client.get("/memory/?in=c/acme/")) == ["c/acme/tier"]
    assert listed(client.get("/memory/?in=c/a~1b")) == ["c/a~1b/tier"]
    page = client.get("/memory/?in=c/acm")
    assert "Nothing is kept in this namespace" in text(page)
    assert 'href="/memory/?in=c"' in page.content.decode()
    assert "is no path" in text(client.get("/memory/?in=c~x"))


def test_words_find_an_entry_by_name_and_value(browser, alice):
    entries.put(alice, USER, SEAT, "never near the galley")
    entries.put(alice, USER, name([], "visa"), "UAE")
    client = browser(alice)
    assert listed(client.get("/memory/?q=Galley")) == ["travellers/marsh/seat"]
    assert "No entry has these words" in text(client.get("/memory/?q=train"))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/memory/", "Nothing of yours is remembered"),
        ("/memory/?scope=workspace", "Nothing is remembered for everyone"),
        ("/memory/?gone=1", "Nothing was deleted"),
        ("/memory/?scope=board", "Nothing of yours is remembered"),
    ],
)
def test_where_nothing_is_the_page_says_what_would_be(browser, alice, address, said):
    page = browser(alice).get(address)
    assert page.status_code == 200
    assert said in text(page)


# One entry


def test_an_entry_shows_its_value_its_end_and_who_wrote_each_version(
    browser, alice, bob, seat
):
    ends = now() + timedelta(days=3)
    entries.put(bob, WORKSPACE, SEAT, {"row": 12}, expected=1, expires_at=ends)
    page = browser(alice).get(seat)
    assert listed(page) == ["travellers/marsh/seat"]
    shown = text(page)
    assert '{"row":12}' in shown.replace(" ", "")
    assert f'value="{ends.date().isoformat()}"' in page.content.decode()
    history = shown.partition("History")[2]
    assert history.index("Bob") < history.index("Alice")
    assert "Restore" in history


def test_what_a_run_wrote_leads_to_the_step_that_wrote_it(browser, alice, trip):
    grant = grant_for(alice, trip.thread.pk)
    run = RunPrincipal(trip.run.pk, alice.workspace_id, trip.thread.pk, grant.pk)
    row = entries.put(run, WORKSPACE, SEAT, 1, request_key=trip.calls["quote"].pk)
    call = ToolCall.objects.unscoped(Reason.TEST).get(pk=trip.calls["quote"].pk)
    step = call.result_checkpoint
    assert step is not None
    page = browser(alice).get(f"/memory/{row.entry_id}/")
    address = f'href="/threads/{trip.thread.pk}/at/{step.pk}/"'
    assert address in page.content.decode()
    assert f"step {step.step}" in text(page)


def test_a_run_that_one_may_not_see_is_named_without_a_link(
    browser, make_trip, alice, bob
):
    trip = make_trip(alice, visibility="private")
    grant = grant_for(alice, trip.thread.pk)
    run = RunPrincipal(trip.run.pk, alice.workspace_id, trip.thread.pk, grant.pk)
    row = entries.put(run, WORKSPACE, SEAT, 1, request_key=trip.calls["quote"].pk)
    page = browser(bob).get(f"/memory/{row.entry_id}/").content.decode()
    assert "run " in page
    assert str(trip.thread.pk) not in page


def test_anothers_own_entry_is_not_there(browser, alice, bob, other):
    hers = entries.put(alice, USER, SEAT, "hers").entry_id
    ours = entries.put(alice, WORKSPACE, SEAT, "ours").entry_id
    assert browser(bob).get(f"/memory/{hers}/").status_code == 404
    assert save(browser(bob), f"/memory/{hers}/", "mine").status_code == 404
    assert browser(other).get(f"/memory/{ours}/").status_code == 404
    assert save(browser(other), f"/memory/{ours}/", "mine").status_code == 404
    assert (value(alice), value(alice, WORKSPACE)) == ("hers", "ours")


def test_a_viewer_reads_and_is_offered_no_change(browser, viewer, seat, alice):
    client = browser(viewer)
    page = client.get(seat)
    assert "aisle" in text(page)
    assert "<textarea" not in page.content.decode()
    assert "Restore" not in text(page)
    assert "new=1" not in page.content.decode()
    assert save(client, seat, "mine").status_code == 403
    assert client.post("/memory/", {"path": "a", "value": "b"}).status_code == 403
    assert value(alice, WORKSPACE) == "aisle"


def test_to_an_auditor_it_is_sealed(browser, auditor, seat):
    for address in ("/memory/", "/memory/?scope=workspace&q=aisle", seat):
        page = browser(auditor).get(address)
        assert page.status_code == 200
        assert "What is remembered is sealed" in text(page)
        assert "aisle" not in text(page)
        assert "marsh" not in text(page)


# Changing it


def test_a_new_entry_is_put_under_the_name_that_is_typed(browser, alice):
    client = browser(alice)
    page = client.get("/memory/?scope=workspace&in=travellers&new=1")
    assert 'value="travellers/"' in page.content.decode()
    sent = {
        "scope": "workspace",
        "path": "travellers/o~1sei/seat",
        "value": '{"row": 12}',
        "kind": "json",
        "ends": "2099-12-31",
    }
    answer = client.post("/memory/", sent)
    assert answer.status_code == 303
    found = entries.get(alice, WORKSPACE, name(["travellers", "o/sei"], "seat"))
    assert found is not None
    assert found.value == {"row": 12}
    assert str(found.row.expires_at).startswith("2099-12-31")
    assert "Kept, as a new entry" in text(client.get(answer["Location"]))


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"path": ""}, "A key has 1 to 200 characters"),
        ({"path": "a//b"}, "1 to 200 characters"),
        ({"path": "a/b", "kind": "json", "value": "{"}, "The value is no JSON"),
        ({"path": "a/b", "ends": "soon"}, "A last day is written as"),
        ({"path": "a/b", "ends": "2020-01-01"}, "has passed"),
        ({"path": "a/b", "value": "a" * 70_000}, "cannot be kept"),
    ],
)
def test_what_cannot_be_kept_is_said_and_what_was_typed_stays(
    browser, alice, sent, said
):
    sent = {"scope": "user", "value": "typed with care", "kind": "text", **sent}
    page = browser(alice).post("/memory/", sent)
    assert page.status_code == 422
    assert said in text(page)
    assert sent["value"][:30] in unescape(page.content.decode())
    assert not Entry.objects.unscoped(Reason.TEST).exists()


def test_saving_makes_the_next_version_and_an_end_that_is_not_touched_stays(
    browser, alice, seat
):
    ends = now() + timedelta(hours=30)
    entries.put(alice, WORKSPACE, SEAT, "aisle", expected=1, expires_at=ends)
    client = browser(alice)
    shown = client.get(seat).content.decode()
    [day] = re.findall(r'name="ends" value="([^"]*)"', shown)
    answer = save(client, seat, "window", expected=2, ends=day)
    assert "Saved, as version 3." in text(client.get(answer["Location"]))
    found = entries.get(alice, WORKSPACE, SEAT)
    assert found is not None
    assert (found.value, found.row.expires_at) == ("window", ends)
    save(client, seat, "window", expected=3)
    found = entries.get(alice, WORKSPACE, SEAT)
    assert found is not None
    assert found.row.expires_at is None


def test_two_who_edit_at_once_see_both_and_nothing_typed_is_lost(
    browser, alice, bob, seat
):
    entries.put(bob, WORKSPACE, SEAT, "window", expected=1)
    client = browser(alice)
    page = save(client, seat, "galley, after all", ends="2099-01-31")
    assert page.status_code == 409
    shown = text(page)
    assert "Not saved: Bob saved version 2 meanwhile." in shown
    both = shown.partition("Theirs, version 2")[2].partition("History")[0]
    assert both.index('"window"') < both.index("galley, after all")
    assert 'value="2099-01-31"' in page.content.decode()
    [expected] = re.findall(r'name="expected" value="(\d+)"', page.content.decode())[:1]
    assert value(alice, WORKSPACE) == "window"
    assert save(client, seat, "galley, after all", expected=expected).status_code == 303
    assert value(alice, WORKSPACE) == "galley, after all"


def test_who_edits_what_was_deleted_meanwhile_sees_that_and_may_save(
    browser, alice, bob, seat
):
    entries.delete(bob, WORKSPACE, SEAT)
    page = save(browser(alice), seat, "mine")
    assert page.status_code == 409
    assert "Bob deleted it, which is version 2" in text(page)
    assert "mine" in page.content.decode()
    assert save(browser(alice), seat, "mine", expected=2).status_code == 303
    assert value(alice, WORKSPACE) == "mine"


def test_a_new_entry_whose_name_is_taken_shows_the_one_that_is_there(
    browser, alice, bob, seat
):
    sent = {"scope": "workspace", "path": SEAT.path, "value": "mine", "kind": "text"}
    page = browser(bob).post("/memory/", sent)
    assert page.status_code == 409
    assert "Not saved: Alice saved version 1" in text(page)
    assert '"aisle"' in text(page)
    assert "mine" in page.content.decode()


def test_what_is_deleted_is_listed_as_gone_and_comes_back(browser, alice, seat):
    client = browser(alice)
    answer = client.post(seat, {"do": "delete", "expected": "1"})
    page = client.get(answer["Location"])
    assert "Deleted. Its history keeps it for 30 days" in text(page)
    assert listed(client.get("/memory/?scope=workspace")) == []
    gone = client.get("/memory/?scope=workspace&gone=1")
    assert listed(gone) == ["travellers/marsh/seat"]
    client.post(seat, {"do": "restore", "version": "1", "expected": "2"})
    assert value(alice, WORKSPACE) == "aisle"
    assert listed(client.get("/memory/?scope=workspace")) == ["travellers/marsh/seat"]


def test_deleting_or_restoring_what_changed_meanwhile_does_nothing(
    browser, alice, bob, seat
):
    entries.put(bob, WORKSPACE, SEAT, "window", expected=1)
    for sent in ({"do": "delete"}, {"do": "restore", "version": "1"}):
        page = browser(alice).post(seat, {**sent, "expected": "1"})
        assert page.status_code == 409
        assert "Bob saved version 2 meanwhile. This is how it is now." in text(page)
    assert value(alice, WORKSPACE) == "window"


def test_a_double_click_saves_once(browser, alice, seat):
    client = browser(alice)
    key = "7d7b6a52-0000-4000-8000-000000000001"
    for _ in range(2):
        assert save(client, seat, "window", request_key=key).status_code == 303
    found = entries.get(alice, WORKSPACE, SEAT)
    assert found is not None
    assert found.row.version == 2


def test_what_agents_wrote_is_text_wherever_it_is_shown(browser, alice):
    bad = "<script>alert(1)</script>\u202e"
    row = entries.put(alice, USER, name([bad], bad), bad)
    for address in ("/memory/", f"/memory/{row.entry_id}/", "/memory/?q=alert"):
        page = browser(alice).get(address).content.decode()
        assert "<script>alert" not in page
        # But in the field that edits it, beside which it can be seen.
        assert "\u202e" not in re.sub(r"(?s)<textarea.*?</textarea>", "", page)
        assert "U+202E" in page


def test_secrets_are_not_kept(browser, alice, monkeypatch):
    monkeypatch.setenv("HOLDPOINT_SECRET_AIRLINE", "s3cr3t-of-the-airline")
    sent = {"path": "a/b", "kind": "json", "value": '{"key": "s3cr3t-of-the-airline"}'}
    browser(alice).post("/memory/", {"scope": "user", **sent})
    assert "s3cr3t" not in str(value(alice, of=name(["a"], "b")))
    sent = {"path": "s3cr3t-of-the-airline", "value": "x"}
    page = browser(alice).post("/memory/", {"scope": "user", **sent})
    assert (page.status_code, "secret" in text(page)) == (422, True)
