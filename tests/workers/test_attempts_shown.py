"""What people read of a model call: its attempts, how far it is, who answered."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents.models import Run
from agents.runs import start
from tests.conftest import as_owner

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def reader(alice) -> Client:
    """Alice's browser."""
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=alice.user_id))
    return client


def page(reader, run: Run, **query) -> str:
    address = reverse("agents:thread", args=[run.thread_id])
    return reader.get(address, query).content.decode()


def test_each_attempt_is_an_event_of_its_step(begin, work, server, reader):
    server.fault("429", retry_after="0.1")
    server.always("Hello.")
    run = begin()
    work()
    shown = page(reader, run, step=1, tab="context")
    events = shown.partition('id="attempts"')[2].partition("</section>")[0]
    assert "429: asked too often" in events
    assert "waited 100ms" in events
    assert events.index("asked too often") < events.index("answered")
    assert "asked too often" in shown.partition('id="context"')[2]
    assert 'id="attempts"' not in page(reader, run, step=0)


def test_a_call_that_failed_shows_them_too(begin, work, server, reader):
    server.fault("500")
    server.fault("drop")
    run = begin()
    work()
    shown = page(reader, run)
    events = shown.partition('id="attempts"')[2].partition("</section>")[0]
    assert "status 500" in events
    assert "the connection was cut" in events


def test_what_a_server_rejected_is_said(begin, work, server, reader):
    server.fault("no_stream_options")
    server.always("Hello.")
    run = begin()
    work()
    assert "asked again without stream_options" in page(reader, run)


def test_a_changed_model_is_said_on_the_step_and_before_a_fork(
    begin, work, server, reader, alice
):
    server.always("Hello.")
    run = begin()
    work()
    server.fault("changed", times=None)
    start.send_message(run.branch, message="And now?", by=alice)
    work()
    changed = "-next; step 1, where a model answered last before it, by scripted"
    assert changed in page(reader, run)
    assert 'id="model-changed"' not in page(reader, run, step=1)
    first = run.branch.checkpoints.get(step=1)
    fork = reader.get(reverse("agents:fork", args=[run.thread_id, first.pk]))
    assert changed in fork.content.decode()
    last = run.branch.checkpoints.get(step=3)
    fork = reader.get(reverse("agents:fork", args=[run.thread_id, last.pk]))
    assert 'id="model-changed"' not in fork.content.decode()


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"characters": 1240}, "answering, 1,240 characters"),
        ({"characters": 0}, "waiting for the model"),
        (
            {"attempt": 2, "outcome": "429", "wait": 3.0},
            "attempt 2 of 4, waiting 3 s after 429",
        ),
        (
            {"attempt": 2, "characters": 7},
            "attempt 2 of 4, answering, 7 characters",
        ),
        ({"step": 7, "characters": 1240}, ""),
        (None, ""),
    ],
)
def test_how_far_a_reply_is_stands_on_both_pages(begin, reader, told, words):
    run = begin()
    answering = {"step": 1, "attempt": 1, "attempts": 4, **told} if told else None
    Run.objects.filter(pk=run.pk).update(status="running", answering=answering)
    fragment = reader.get(reverse("agents:run_answering", args=[run.pk]))
    assert f">{words}</span>" in fragment.content.decode()
    assert "every 1s" in fragment.content.decode()
    for shown in (page(reader, run), reader.get("/runs/").content.decode()):
        assert f">{words}</span>" in shown.partition(f'id="answering-{run.pk}"')[2]
    Run.objects.filter(pk=run.pk).update(status="succeeded")
    fragment = reader.get(reverse("agents:run_answering", args=[run.pk]))
    assert "every 1s" not in fragment.content.decode()
