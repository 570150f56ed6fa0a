"""django-rq's pages: for superusers, with ids only, and safe to open whatever Redis holds."""

from __future__ import annotations

import os
import pickle
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from redis import Redis
from rq.registry import FailedJobRegistry

from agents import queue
from agents.pure.queues import QUEUE

PAGES = [
    "home",
    "jobs",
    "queue_details",
    "finished_jobs",
    "failed_jobs",
    "scheduled_jobs",
    "started_jobs",
    "deferred_jobs",
    "workers",
]
NAME = QUEUE


@pytest.fixture
def root(db) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture(autouse=True)
def nobody_imported_this() -> None:
    """It is a module of Python that nobody needs, and that is noticed when it is imported."""
    sys.modules.pop("this", None)


@pytest.fixture
def redis(settings) -> Iterator[Redis]:
    """An empty database of this pytest process's own, for us and for the pages."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    url = f"{settings.REDIS_URL.partition('?')[0]}?db={12 + number}"
    settings.REDIS_URL = url
    settings.RQ_QUEUES = {NAME: {**settings.RQ_QUEUES[NAME], "URL": url}}
    with queue.connect(timeout=5) as connection:
        connection.flushdb()
        yield connection
        connection.flushdb()


def pages(job: str = "") -> list[str]:
    found = []
    for space in ("django_rq:", "admin:django_rq_"):
        for name in PAGES:
            args = [] if name == "home" else [0]
            found.append(reverse(space + name, args=args))
        if job:
            found.append(reverse(f"{space}job_detail", args=[0, job]))
    return found


def shown(root: Client, job: str = "") -> str:
    """All that the pages say. Each answers, whatever is in Redis."""
    said = []
    for path in pages(job):
        response = root.get(path)
        assert response.status_code == 200, path
        said.append(response.content.decode())
    return "\n".join(said)


def test_a_ring_is_seen_by_its_ids(root, redis):
    run = uuid4()
    queue.ring(run, fence=3, n=1)
    assert str(run) in shown(root, f"{run}-3-1")


def test_a_job_that_failed_is_seen_without_what_was_said(root, redis):
    run = uuid4()

    def fail(run_id: str) -> None:
        raise ValueError("Helen Marsh flies to New York")

    queue.ring(run, fence=1, n=1)
    queue.listen(fail, name=str(uuid4()), stopping=lambda: False, burst=True)
    job = f"{run}-1-1"
    assert job in FailedJobRegistry(NAME, redis).get_job_ids()
    text = shown(root, job)
    assert job in text
    assert "Helen" not in text


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


def plant(redis: Redis, **fields: Any) -> str:
    """A job as whoever writes Redis may write it, abandoned by its worker and failed."""
    job = str(uuid4())
    stored: dict[Any, Any] = {
        "created_at": "2026-11-21T00:00:00.000000Z",
        "data": zlib.compress(b'["os.getcwd", null, [], {}]'),
        "status": "started",
        "origin": NAME,
        **fields,
    }
    redis.hset(f"rq:job:{job}", mapping=stored)
    redis.zadd(f"rq:wip:{NAME}", {f"{job}:{uuid4().hex}": 1})
    redis.zadd(f"rq:failed:{NAME}", {job: 2**40})
    return job


def test_no_page_opens_a_pickle(root, redis, tmp_path):
    made = tmp_path / "made"
    trap = pickle.dumps(Trap(made))
    pickle.loads(trap)  # noqa: S301  # it is one
    assert made.exists()
    made.unlink()
    root.raise_request_exception = False  # what is no JSON may well fail
    for number, _ in enumerate(pages("job")):
        job = plant(redis, meta=trap, data=zlib.compress(trap), result=trap)
        path = pages(job)[number]
        root.get(path)
        assert not made.exists(), path


def test_no_page_imports_what_a_job_names(root, redis):
    names = ("failure_callback_name", "success_callback_name", "stopped_callback_name")
    for number, _ in enumerate(pages("job")):
        job = plant(redis, **dict.fromkeys(names, "this.s"))
        path = pages(job)[number]
        assert root.get(path).status_code == 200, path
        assert "this" not in sys.modules, path


@pytest.mark.parametrize(
    "act", ["requeue_job", "delete_job", "enqueue_job", "stop_job"]
)
def test_acting_on_a_planted_job_runs_nothing(act, root, redis):
    job = plant(redis, failure_callback_name="this.s", stopped_callback_name="this.s")
    root.post(reverse(f"django_rq:{act}", args=[0, job]))
    heard: list[str] = []
    queue.listen(heard.append, name=str(uuid4()), stopping=lambda: False, burst=True)
    assert not heard
    assert "this" not in sys.modules
