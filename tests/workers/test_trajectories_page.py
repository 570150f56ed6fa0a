"""The Trajectories page: counted and shown before it is exported; files taken in whole."""

from __future__ import annotations

import io
import json
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from agents.debug import trajectories
from agents.debug.trajectories import Wanted, runs, write
from agents.runs.ask_again import ask_again
from checkpoints.models import AuditEvent, Checkpoint, Thread
from tests.conftest import as_owner
from tests.workers import test_trajectories as exports

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

done, failed = exports.done, exports.failed
PAGE = "/threads/trajectories/"


@pytest.fixture
def browser() -> Any:
    def browser(person: Any) -> Client:
        client = Client()
        with as_owner():
            client.force_login(User.objects.get(pk=person.user_id))
        return client

    return browser


def look(client: Client, **wanted: Any) -> str:
    answer = client.get(PAGE, {"look": "1", **wanted})
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def exported(client: Client, **wanted: Any) -> list[dict[str, Any]]:
    answer: Any = client.post(reverse("agents:trajectories_export"), wanted)
    assert answer.status_code == 200
    assert "trajectories.jsonl" in answer["Content-Disposition"]
    text = b"".join(answer.streaming_content).decode()
    return [json.loads(line) for line in text.splitlines()]


def send(client: Client, content: bytes, name: str = "log.jsonl", **more: Any) -> Any:
    sent = {"visibility": "private", "request_key": str(uuid4()), **more}
    address = reverse("agents:trajectories_import")
    return client.post(address, {"file": SimpleUploadedFile(name, content), **sent})


def conversation(*said: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text} for text in said]
    return {"messages": messages, **more}


def jsonl(*values: Any) -> bytes:
    return "\n".join(
        value if isinstance(value, str) else json.dumps(value) for value in values
    ).encode()


def openings() -> list[str]:
    return list(
        AuditEvent.objects.filter(action="open").values_list("purpose", flat=True)
    )


def test_the_page_opens_nothing_until_it_is_asked_to_look(done, alice, browser):
    done()
    before = openings()
    shown = browser(alice).get(PAGE).content.decode()
    assert 'id="found"' not in shown
    assert openings() == before


def test_it_counts_and_shows_what_the_file_would_hold(
    done, failed, alice, browser, monkeypatch
):
    word = f"4242-{'x' * 8}"
    done(f"Book <b>it</b> with {word}.")
    client = browser(alice)
    shown = look(client)
    assert '<b class="b5 num">1</b> run match' in shown
    assert "All were looked at" in shown
    assert f"Book &lt;b&gt;it&lt;/b&gt; with {word}." in shown
    assert "7 messages" in shown
    assert openings().count("trajectories page") == 1
    assert not AuditEvent.objects.filter(action="export").exists()
    shown = look(client, outcome="failed")
    assert (
        '<span class="num">1</span>: <span hx-ignore>the agent gave no answer' in shown
    )
    assert "No run is what was asked for" in look(client, verdict="bad")
    monkeypatch.setenv("HOLDPOINT_SECRET_CARD", word)
    shown = look(client)
    assert word not in shown
    assert "<dt>masked</dt><dd hx-ignore>CARD</dd>" in shown


def test_it_looks_at_a_few_and_says_where_it_stopped(done, alice, browser, monkeypatch):
    done(), done("Another.")
    monkeypatch.setattr(trajectories, "LOOKED", 1)
    before = openings().count("trajectories page")
    shown = look(browser(alice))
    assert '<b class="b5 num">2</b> runs match' in shown
    assert 'The first <b class="num">1</b> were looked at' in shown
    assert openings().count("trajectories page") == before + 1


def test_the_file_is_what_the_command_writes_and_on_the_record(done, alice, browser):
    done(), done("Book it, too.", edited="1500")
    client = browser(alice)
    out = io.StringIO()
    write(Wanted(), alice, out, via="command")
    written = [json.loads(line) for line in out.getvalue().splitlines()]
    before = AuditEvent.objects.filter(action="export", via="web").count()
    assert exported(client) == written
    assert len(exported(client, unedited="on")) == 1
    events = AuditEvent.objects.filter(action="export", via="web")
    assert events.count() == before + 3


def test_filters_that_make_no_sense_are_said_and_nothing_is_opened(
    done, alice, browser
):
    client = browser(alice)
    before = openings()
    for wanted in ({"version": "x"}, {"agent": "nobody"}, {"most": "0"}):
        answer = client.get(PAGE, {"look": "1", **wanted})
        assert answer.status_code == 422
        assert "Nothing was looked up." in answer.content.decode()
        refused = client.post(reverse("agents:trajectories_export"), wanted)
        assert refused.status_code == 422
    assert openings() == before


def test_who_may_read_exports_and_who_may_not_does_not(
    done, auditor, viewer, other, browser
):
    done()
    sealed = browser(auditor)
    assert sealed.get(PAGE).status_code == 403
    assert sealed.post(reverse("agents:trajectories_export")).status_code == 403
    assert len(exported(browser(viewer))) == 1
    assert exported(browser(other)) == []
    assert 'id="import-chats"' not in browser(viewer).get(PAGE).content.decode()
    assert send(browser(viewer), jsonl(conversation("Hi."))).status_code == 403


def test_what_was_exported_is_imported_again(done, alice, browser):
    done()
    client = browser(alice)
    [example] = exported(client)
    answer = send(client, jsonl(example, conversation("Hi.")))
    assert answer.status_code == 303
    made = Thread.objects.filter(origin="import")
    assert {thread.visibility for thread in made} == {"private"}
    assert {thread.owner_id for thread in made} == {alice.user_id}
    assert len(made) == 2
    event = AuditEvent.objects.filter(action="import", via="web").latest("at")
    assert event.actor_id == alice.user_id


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (jsonl(conversation("Hi."), "{no"), "line 2 is not JSON that we take"),
        (jsonl(conversation("Hi."), {"messages": []}), "line 2: there is no message"),
        (jsonl(conversation("Hi."), conversation("Hi.")), "line 2 has the same"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (b"", "there is no conversation in it"),
        (jsonl(conversation(*["x"] * 2_001)), "It has 2,001 messages"),
        (b" " * (8 * 1024 * 1024 + 1), "this page takes 8 MB"),
    ],
)
def test_a_file_that_cannot_be_taken_says_where_and_leaves_nothing(
    alice, browser, content, said
):
    answer = send(browser(alice), content)
    assert answer.status_code == 422
    shown = answer.content.decode()
    assert said in shown
    assert "Nothing of it was imported." in shown
    assert not Thread.objects.filter(origin="import").exists()


def test_what_is_here_already_is_not_imported_half(alice, bob, browser):
    mine, new = conversation("Hi.", id="mine"), conversation("Ho.", id="new")
    assert send(browser(bob), jsonl(mine)).status_code == 303
    shown = send(browser(bob), jsonl(new, mine)).content.decode()
    assert "mine was imported before, as thread" in shown
    shown = send(browser(alice), jsonl(new, mine)).content.decode()
    assert "mine was imported before, as a thread that is not shared with you" in shown
    assert Thread.objects.filter(origin="import").count() == 1


def test_answers_that_were_asked_for_again_are_no_examples(done, server, work, alice):
    run = done()
    step = Checkpoint.objects.select_related(
        "thread", "branch", "parent__branch", "parent__thread"
    ).filter(branch=run.branch_id, kind="model")
    ask_again(step.latest("step"), times=2, by=alice, request_key=uuid4())
    work()
    assert [each.pk for each in runs(Wanted(), alice)] == [run.pk]
