"""The Runs page: what it lists, and what Retry and Cancel answer."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.db import connection

from agents.models import Run, ToolCall, Worker
from agents.pages.run_list import find
from agents.runs import roster
from agents.tools import Limits, registry
from checkpoints import clock, gate
from checkpoints.access import Reason
from checkpoints.ids import uuid7
from checkpoints.models import Branch
from tests.conftest import as_owner

pytestmark = pytest.mark.django_db


def runs():
    return Run.objects.unscoped(Reason.TEST)


def page(client, path: str = "/runs/") -> str:
    return client.get(path).content.decode()


def press(client, run: Run, verb: str) -> str:
    """The page that pressing the run's button leads to."""
    answer = client.post(f"/runs/{run.pk}/{verb}")
    assert answer.status_code == 303
    return page(client, answer["Location"])


def test_a_failed_run_says_where_and_why_and_offers_a_retry(browser, trip, alice):
    runs().filter(pk=trip.run.pk).update(
        status="failed", failed_step=4, error_class="tool_stopped"
    )
    listed = page(browser(alice), "/runs/?show=failed")
    assert "step 4: " in listed
    assert "tool_stopped" in listed
    assert f"/runs/{trip.run.pk}/retry" in listed


def test_who_may_not_read_why_is_told_what_it_means(browser, trip, auditor):
    why = gate.seal(trip.run, "error", "Rua Augusta 1 is closed.")
    runs().filter(pk=trip.run.pk).update(
        status="failed", failed_step=4, error_class="tool_stopped", error=why
    )
    listed = page(browser(auditor), "/runs/?show=failed")
    assert "The tool stopped the run. Fork an earlier step" in listed
    assert "Rua Augusta" not in listed
    runs().filter(pk=trip.run.pk).update(status="ready", error_class="store_full")
    shown = page(browser(auditor), trip.page())
    assert "There is no room left where large values are kept." in shown


@pytest.mark.parametrize("status", ["waiting", "succeeded"])
def test_a_run_that_cannot_be_tried_again_says_so(browser, trip, alice, status):
    runs().filter(pk=trip.run.pk).update(status=status)
    assert f"This run is {status}" in press(browser(alice), trip.run, "retry")
    assert not runs().filter(retry_of=trip.run).exists()


def test_a_run_whose_agent_no_app_registers_any_more_says_so(browser, trip, alice):
    runs().filter(pk=trip.run.pk).update(status="failed")
    agent = trip.run.agent_version.agent
    agent.name = "retired"
    agent.save(update_fields=["name"])
    assert "No agent is called" in press(browser(alice), trip.run, "retry")


def test_a_waiting_run_is_cancelled_at_once(browser, trip, alice):
    assert "Cancelled." in press(browser(alice), trip.run, "cancel")
    assert runs().get(pk=trip.run.pk).status == "cancelled"
    assert "It was over already" in press(browser(alice), trip.run, "cancel")


def test_one_record_that_does_not_open_hides_no_other(browser, trip, make_trip, alice):
    make_trip(alice, title="Another trip")
    with connection.cursor() as cursor:
        for table, column in (
            ("agents_toolcall", "title"),
            ("checkpoints_thread", "title"),
        ):
            key = "thread_id" if table == "agents_toolcall" else "id"
            cursor.execute(
                f"UPDATE {table} SET {column} = %s WHERE {key} = %s",  # noqa: S608
                [bytes(100), trip.thread.pk],
            )
    client = browser(alice)
    assert "Another trip" in page(client)
    inbox = client.get(f"/inbox/{trip.approval.pk}/")
    assert inbox.status_code == 200
    assert "This request cannot be opened." in inbox.content.decode()
    assert client.get("/inbox/").status_code == 200


def test_another_workspace_can_neither_retry_nor_cancel(browser, trip, other):
    for verb in ("retry", "cancel"):
        assert browser(other).post(f"/runs/{trip.run.pk}/{verb}").status_code == 404


def test_a_viewer_can_neither_retry_nor_cancel(browser, trip, viewer):
    for verb in ("retry", "cancel"):
        assert browser(viewer).post(f"/runs/{trip.run.pk}/{verb}").status_code == 403


# How the work goes


def worker(name: str, **more) -> None:
    with as_owner():
        roster.beat(f"h:1:{name}", roster.Sign("agents", **more))


def test_it_shows_workers_what_they_are_at_and_who_was_lost(browser, trip, alice):
    worker("w1", turns=12, busy=timedelta(seconds=3))
    worker("w2", busy=timedelta(seconds=3))
    worker("w3")
    worker("w4")
    with as_owner():
        roster.end("h:1:w4", Worker.Ending.LOST, cause="SIGKILL")
    Branch.objects.unscoped(Reason.TEST).filter(pk=trip.branch.pk).update(
        holder=trip.run.pk,
        worker="h:1:w1",
        lease_until=clock.now() + timedelta(seconds=59),
    )
    runs().filter(pk=trip.run.pk).update(status="running", attempts=1)
    shown = " ".join(page(browser(alice)).split())
    assert "3 alive" in shown
    assert f"{trip.thread.pk.hex[-4:]}</span> step {trip.branch.head_step + 1}" in shown
    assert "a run of another workspace" in shown  # w2's
    assert "<b>Worker w4 was lost</b>" in shown
    assert "(SIGKILL)" in shown
    assert re.search(r", lease [2-5]\d s", shown)
    assert "No worker is here" not in shown


def test_without_workers_and_without_redis_it_says_so_and_works(
    browser, trip, alice, settings
):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    shown = page(browser(alice))
    assert "No worker is here" in shown
    assert "Redis does not answer" in shown
    assert "Board week New York" in shown


def test_another_workspaces_failures_and_queue_are_not_counted(browser, trip, other):
    runs().filter(pk=trip.run.pk).update(
        status="failed", error_class="tool_stopped", finished_at=clock.now()
    )
    shown = page(browser(other))
    assert "No run failed." in shown
    assert "tool_stopped" not in shown


def test_a_poll_without_news_is_a_304(browser, trip, alice):
    client = browser(alice)

    def tag() -> str:
        return page(client).partition('hx-ptag="')[2].partition('"')[0]

    was, now = "", tag()
    while was != now:  # a minute that is over is news, and a ring of another test's
        was = now
        again = client.get("/f/runs/", headers={"HX-PTag": was})
        now = tag()
    assert again.status_code == 304
    runs().filter(pk=trip.run.pk).update(status="failed", finished_at=clock.now())
    drawn = client.get("/f/runs/", headers={"HX-PTag": tag})
    assert drawn.status_code == 200
    assert 'id="run-health"' in drawn.content.decode()


# Filters


@pytest.fixture
def failed(make_trip, alice):
    """Makes a run that failed: failed("A trip", step=5, ago=timedelta(hours=1))."""

    def make(title: str, *, step: int = 5, ago: timedelta = timedelta(hours=1), **more):
        trip = make_trip(alice, title=title)
        runs().filter(pk=trip.run.pk).update(
            status="failed",
            failed_step=step,
            finished_at=clock.now() - ago,
            **{"error_class": "tool_stopped", **more},
        )
        return trip

    return make


def test_all_runs_that_failed_at_step_5_in_the_last_24_hours(browser, failed, alice):
    failed("Just so")
    failed("Too early", ago=timedelta(hours=25))
    failed("Elsewhere", step=6)
    shown = page(browser(alice), "/runs/?step=5&since=day")
    assert "Just so" in shown
    assert "Too early" not in shown
    assert "Elsewhere" not in shown


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("error=model_unreachable", {"Second"}),
        ("error=tool_stopped&show=failed", {"First"}),
        ("agent=trip-planner&show=failed", {"First", "Second"}),
        ("agent=nobody", set()),
        ("tool=quote_fare", {"First", "Second"}),
        ("tool=wire_money", set()),
        ("cost=0.50", {"Second"}),
        ("cost=$0.50&since=hour", {"Second"}),
        ("show=failed&since=hour", {"First"}),
        ("show=done", set()),
    ],
)
def test_each_filter_leaves_what_it_says(browser, failed, alice, asked, found):
    failed("First", ago=timedelta(minutes=5))
    failed("Second", ago=timedelta(hours=5), error_class="model_unreachable", cost=2)
    shown = page(browser(alice), f"/runs/?{asked}")
    assert {title for title in ("First", "Second") if title in shown} == found
    assert ("No run matches" in shown) == (not found)


@pytest.mark.parametrize("asked", ["step=five", "step=-1", "cost=much", "cost=NaN"])
def test_what_cannot_be_asked_is_said_and_left_out(browser, failed, alice, asked):
    failed("First")
    shown = page(browser(alice), f"/runs/?{asked}")
    assert "It was left out." in shown
    assert "First" in shown


@pytest.mark.parametrize(
    "asked",
    [
        *("step=99999999999", "cost=1e99", "since=never", "show=else", "error=%00"),
        *(
            "before=x",
            "before=2026-11-22T06:00:00%2B16:00~nothing",
            "tool=%F0%9F%98%80",
        ),
    ],
)
def test_an_odd_address_has_a_page(browser, trip, alice, asked):
    assert browser(alice).get(f"/runs/?{asked}").status_code == 200


def test_the_rest_is_a_page_further_and_no_run_is_on_two(
    browser, trip, make_trip, alice, monkeypatch
):
    for n in range(4):
        make_trip(alice, title=f"Trip {n}")
    monkeypatch.setattr(find, "PAGE", 2)
    client, address, seen = browser(alice), "/runs/", []
    while address:
        shown = page(client, address)
        seen += re.findall(r'<tr id="run-([^"]+)"', shown)
        following = re.search(r'rel="next" href="([^"]+)"', shown)
        address = unescape(following[1]) if following else ""
    assert len(seen) == len(set(seen)) == 5


def test_a_superuser_finds_the_way_to_the_queues_own_pages(browser, trip, alice):
    client = browser(alice)
    assert "/django-rq/" not in page(client)
    User.objects.filter(pk=alice.user_id).update(is_superuser=True)
    assert "/django-rq/" in page(client)


# Queues, priorities, costs and what caches saved


def listed(client, path: str = "/runs/") -> str:
    return " ".join(page(client, path).split())


def test_it_says_loudly_that_nobody_listens_to_a_queue(browser, trip, alice):
    worker("w1")
    runs().filter(pk=trip.run.pk).update(status="ready", queue="slow")
    shown = listed(browser(alice))
    assert "<b>Nobody listens to the queue slow.</b>" in shown
    assert "the setting <code>QUEUES</code> does not list it" in shown
    with as_owner():
        roster.beat("h:1:w2", roster.Sign("slow"))
    shown = listed(browser(alice))
    assert "Nobody listens" not in shown
    assert "<code>slow</code>" in shown


def test_an_operator_changes_a_runs_priority(browser, trip, alice, viewer):
    path = f"/runs/{trip.run.pk}/priority"
    client = browser(alice)
    assert client.post(path, {"priority": "urgent"}).status_code == 400
    assert client.post(path, {"priority": "high"}).status_code == 303
    assert runs().get(pk=trip.run.pk).priority_name == "high"
    assert "<b>high priority</b>" in listed(client)
    assert browser(viewer).post(path, {"priority": "low"}).status_code == 403
    assert runs().get(pk=trip.run.pk).priority_name == "high"


def test_steps_count_towards_the_limit_of_the_runs_own_agent(
    browser, trip, alice, monkeypatch
):
    name = trip.run.agent_version.agent.name
    own = replace(registry.agent(name), limits=Limits(max_steps=12))
    monkeypatch.setitem(registry._agents, name, own)
    runs().filter(pk=trip.run.pk).update(status="running", steps=7)
    assert "7 of at most 12 steps" in listed(browser(alice))


def test_a_cost_says_how_many_calls_it_leaves_out(browser, trip, alice):
    runs().filter(pk=trip.run.pk).update(cost="0.25", unpriced=2)
    assert "+ 2 calls of unknown price" in listed(browser(alice))


def test_what_caches_saved_is_told_by_tool_and_agent(browser, trip, alice):
    client = browser(alice)
    assert "No call was answered from a cache." in listed(client)
    calls = ToolCall.objects.unscoped(Reason.TEST)
    source = calls.get(pk=trip.calls["quote"].pk)
    again = calls.get(pk=source.pk)
    again.pk, again.ordinal, again.recorded_from = uuid7(), 7, source
    again.save(force_insert=True)
    shown = listed(client)
    assert "in 1 call<" in shown
    assert "<code>quote_fare</code>" in shown
