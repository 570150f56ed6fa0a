"""/metrics and /readyz: who may read them, and what they tell of runs and workers."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from agents.models import Run, Worker
from agents.runs import roster
from checkpoints import clock
from checkpoints.access import Reason
from checkpoints.models import Branch
from tests.conftest import as_owner

pytestmark = pytest.mark.django_db

TOKEN = "a-long-token"


@pytest.fixture
def scrape(client: Client, settings):
    """Asks with the token; {'name{label="value"}': value}."""
    settings.METRICS_TOKEN = TOKEN

    def scrape() -> dict[str, float]:
        answer = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200
        assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
        found = {}
        for line in answer.content.decode().splitlines():
            if not line.startswith("# "):
                name, value = re.fullmatch(r"(\S+) (\S+)", line).groups()  # type: ignore[union-attr]
                assert name not in found
                found[name] = float(value)
        return found

    return scrape


def test_without_a_token_it_is_not_there_outside_of_a_demo(client: Client, settings):
    settings.METRICS_TOKEN, settings.LOCAL = None, False
    assert client.get("/metrics").status_code == 404
    settings.LOCAL = True
    assert client.get("/metrics").status_code == 200


@pytest.mark.parametrize("sent", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}"])
def test_another_token_gets_a_404(client: Client, settings, sent):
    settings.METRICS_TOKEN, settings.LOCAL = TOKEN, True
    answer = client.get("/metrics", headers={"Authorization": sent})
    assert answer.status_code == 404
    assert b"holdpoint_" not in answer.content


def test_nobody_works_and_nothing_happens(scrape):
    found = scrape()
    assert found['holdpoint_runs{status="ready",queue="agents"}'] == 0
    assert found['holdpoint_queue_workers{queue="agents"}'] == 0
    assert found['holdpoint_rings{queue="agents"}'] >= 0
    assert found['holdpoint_workers{state="idle"}'] == 0
    assert found["holdpoint_redis_up"] == 1
    assert "holdpoint_sweep_age_seconds" not in found


def test_runs_of_every_workspace_are_counted(scrape, trip, make_trip, alice):
    runs = Run.objects.unscoped(Reason.TEST)
    ago = clock.now() - timedelta(seconds=90)
    runs.filter(pk=make_trip(alice).run.pk).update(status="ready", ready_at=ago)
    runs.filter(pk=make_trip(alice).run.pk).update(
        status="failed", finished_at=clock.now(), error_class="model_unreachable"
    )
    runs.filter(pk=make_trip(alice).run.pk).update(status="ready", queue="slow")
    found = scrape()
    assert found['holdpoint_runs{status="waiting",queue="agents"}'] == 1
    assert found['holdpoint_runs{status="ready",queue="agents"}'] == 1
    assert found['holdpoint_runs{status="ready",queue="slow"}'] == 1
    assert 90 <= found['holdpoint_oldest_ready_seconds{queue="agents"}'] < 120
    assert found['holdpoint_oldest_ready_seconds{queue="slow"}'] < 60
    assert found['holdpoint_runs_failed_hour{error_class="model_unreachable"}'] == 1
    assert found["holdpoint_approvals_pending"] == 4
    assert found["holdpoint_steps_5m"] > 10
    assert found['holdpoint_step_seconds_5m{quantile="0.95"}'] == pytest.approx(1.1)


def test_each_worker_has_its_series(scrape):
    with as_owner():
        roster.beat("h:1:one", roster.Sign("agents", turns=7))
        roster.beat("h:1:two", roster.Sign("agents", busy=timedelta(seconds=3)))
        roster.beat('h:1:"gone"', roster.Sign("agents"))
        roster.end('h:1:"gone"', Worker.Ending.LOST)
    found = scrape()
    assert found['holdpoint_worker_turns_total{worker="h:1:one"}'] == 7
    assert found['holdpoint_worker_memory_bytes{worker="h:1:one"}'] > 1e6
    assert found['holdpoint_workers{state="busy"}'] == 1
    assert found['holdpoint_queue_workers{queue="agents"}'] == 2
    assert found["holdpoint_sweep_age_seconds"] < 10
    assert not [name for name in found if "gone" in name]


def test_without_redis_it_says_so(scrape, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    found = scrape()
    assert found["holdpoint_redis_up"] == 0
    assert not [name for name in found if name.startswith("holdpoint_rings")]


def test_it_reports_workers_the_reaper_and_what_waits_for_them(
    client: Client, trip, make_trip, alice
):
    """Of every workspace, and without anyone being signed in."""
    runs = Run.objects.unscoped(Reason.TEST)
    ago = clock.now() - timedelta(seconds=90)
    runs.filter(pk=make_trip(alice).run.pk).update(status="ready", ready_at=ago)
    runs.filter(pk=make_trip(alice).run.pk).update(
        status="ready", ready_at=ago, wake_at=clock.now() + timedelta(hours=1)
    )
    Branch.objects.unscoped(Reason.TEST).filter(pk=trip.branch.pk).update(
        holder=trip.run.pk, lease_until=ago
    )
    with as_owner():
        roster.beat("h:1:one", roster.Sign("agents"))
        roster.beat("h:1:two", roster.Sign("agents"))
        Worker.objects.filter(pk="h:1:two").update(beat_at=ago)
    said = client.get("/readyz").json()
    assert said["status"] == "ok"
    assert said["workers"] == {"alive": 1, "silent": 1}
    assert said["reaper"]["last_sweep_s"] < 10
    assert 90 <= said["reaper"]["overdue_s"] < 120
    assert 90 <= said["runs"].pop("oldest_ready_s") < 120
    counts = {"ready": 1, "running": 0, "waiting": 1, "later": 1}
    assert said["runs"] == counts
    [(name, line)] = said["queues"].items()
    assert 90 <= line.pop("oldest_ready_s") < 120
    assert (name, line.pop("rings") >= 0) == ("agents", True)
    assert line == {**counts, "workers": 1}
