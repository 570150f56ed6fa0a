"""The stream of a page: it names what changed, carries nothing, and holds no connection."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connections
from django.test import AsyncClient

from agents.approvals.decide import approve
from agents.models import Approval
from checkpoints.access import Reason
from tests.agents.waiting import make_waiting
from tests.conftest import as_owner

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 30  # seconds


def run(listening):
    """As `asyncio.run`; the thread that Django's views ran in keeps no connection."""

    async def and_close():
        try:
            return await listening
        finally:
            await sync_to_async(connections.close_all)()

    # In a thread of its own: a browser's loop may run in this one.
    with ThreadPoolExecutor(max_workers=1) as thread:
        here = copy_context()
        return thread.submit(here.run, asyncio.run, and_close()).result()


def streamed(person, act, *, last=""):
    """What a stream of this person says at first, and once more after `act`."""

    async def listen():
        client = AsyncClient()
        with as_owner():
            user = await User.objects.aget(pk=person.user_id)
            await client.aforce_login(user)
        headers = {"Last-Event-ID": last} if last else {}
        answer: Any = await client.get("/live", headers=headers)
        assert answer.status_code == 200
        assert answer["Content-Type"] == "text/event-stream"
        said = aiter(answer.streaming_content)
        found = [await anext(said)]
        if not last:
            found.append(await anext(said))
        await sync_to_async(act)()
        async with asyncio.timeout(PATIENCE):
            found.append(await anext(said))
        await answer.streaming_content.aclose()
        return [part.decode() for part in found]

    return run(listen())


@pytest.fixture
def waiting(alice, make_thread) -> Approval:
    return make_waiting(make_thread(owner=alice), alice)[0]


def test_a_stream_tells_that_a_request_was_decided_and_nothing_else(
    alice, bob, waiting
):
    opened, first, changed = streamed(
        bob, lambda: approve(waiting, seen=waiting.as_shown(), by=alice)
    )
    assert opened == "retry: 1000\n: open\n\n"
    assert first.startswith("event: inbox\nid: ")
    assert changed.startswith("event: inbox\nid: ")
    assert changed != first
    assert str(waiting.pk) not in changed
    assert "data:" not in changed


def test_who_comes_back_hears_at_once_what_was_missed(alice, waiting):
    _, changed = streamed(alice, lambda: None, last="an older one")
    assert changed.startswith("event: inbox\nid: ")


def test_other_workspaces_are_not_heard_of(alice, other, waiting):
    def act():
        approve(waiting, seen=waiting.as_shown(), by=alice)
        mine = Approval.objects.unscoped(Reason.TEST)
        assert mine.get(pk=waiting.pk).status == "approved"

    async def listen():
        client = AsyncClient()
        with as_owner():
            await client.aforce_login(await User.objects.aget(pk=other.user_id))
        answer: Any = await client.get("/live")
        said = aiter(answer.streaming_content)
        await anext(said)
        await anext(said)
        await sync_to_async(act)()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):  # seconds: three times as long as one looks
                await anext(said)

    run(listen())


def test_without_streams_there_is_none_and_pages_ask(browser, alice, settings, waiting):
    client = browser(alice)
    assert client.get("/live").status_code == 204  # not over ASGI
    page = client.get("/inbox/").content.decode()
    assert 'hx-trigger="inbox from:body, every 4s"' in page
    assert "hx-sse" not in page


def test_pages_over_asgi_listen_unless_streams_are_off(alice, settings, waiting):
    async def page():
        client = AsyncClient()
        with as_owner():
            await client.aforce_login(await User.objects.aget(pk=alice.user_id))
        answer = await client.get("/inbox/")
        return answer.content.decode(), (await client.get("/live")).status_code

    listening, status = run(page())
    assert 'hx-sse:connect="/live"' in listening
    assert status == 200
    settings.STREAMS = False
    asking, status = run(page())
    assert "hx-sse" not in asking
    assert status == 204
