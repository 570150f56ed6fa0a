"""Rings: what Redis may say, and what is stored there."""

from __future__ import annotations

import json
import pickle
from uuid import uuid4

import pytest
from rq.job import Job
from rq.serializers import JSONSerializer

from agents import queue


class Pickles:
    """What RQ uses by default where it is not told otherwise."""

    dumps = staticmethod(pickle.dumps)
    loads = staticmethod(pickle.loads)


@pytest.fixture
def redis():
    with queue.connect(timeout=10) as connection:
        yield connection


@pytest.fixture
def heard():
    """Takes every ring that there is; gives the ids that it heard."""

    def heard(work=None) -> list[str]:
        ids: list[str] = []
        queue.listen(work or ids.append, name="t", stopping=lambda: False, burst=True)
        return ids

    return heard


def test_a_ring_is_heard_once_and_leaves_nothing_behind(heard, redis):
    run_id = uuid4()
    assert queue.ring(run_id, fence=1, n=1)
    assert queue.ring(run_id, fence=1, n=1)  # the same ring: not a second job
    assert heard() == [str(run_id)]
    assert heard() == []
    assert not list(redis.scan_iter(f"*{run_id}*"))


def test_while_it_is_answered_redis_knows_nothing_of_it(heard, redis):
    """A worker that dies leaves nothing there to be called a failed job."""
    left = []

    def work(run_id: str) -> None:
        left.append(list(redis.scan_iter(f"*{run_id}*")))
        left.append(list(redis.scan_iter("rq:queue:*intermediate*")))

    queue.ring(uuid4(), fence=1, n=1)
    heard(work)
    assert left == [[], []]


def test_a_lost_job_does_not_block_the_next_ring(heard, redis):
    run_id = uuid4()
    queue.ring(run_id, fence=1, n=1)
    redis.delete("rq:queue:agents")  # its hash stays
    assert queue.ring(run_id, fence=1, n=2)
    assert heard() == [str(run_id)]


def test_a_job_that_names_another_function_is_not_run(heard, redis, tmp_path):
    made = tmp_path / "made"
    jobs: list[tuple[str, list[object]]] = [
        ("os.system", [f"touch {made}"]),
        ("agents.queue.ring", [str(uuid4())]),
        (queue.WORK, [str(uuid4()), "more"]),
        (queue.WORK, [{"not": "an id"}]),
    ]
    for name, args in jobs:
        queue.queue(redis).enqueue_call(name, args=args)
    assert heard() == []
    assert not made.exists()


def test_a_pickle_is_not_opened(heard, redis, tmp_path):
    made = tmp_path / "made"
    job = Job.create(
        "os.system",
        args=(f"touch {made}",),
        connection=redis,
        serializer=Pickles,
        origin="agents",
    )
    job.save()
    redis.rpush("rq:queue:agents", job.id)
    assert heard() == []
    assert not made.exists()


def test_callbacks_and_webhooks_of_a_stored_job_are_dropped(heard, redis, tmp_path):
    made = tmp_path / "made"
    run_id = uuid4()
    queue.ring(run_id, fence=1, n=1)
    key = f"rq:job:{run_id}-1-1"
    redis.hset(
        key,
        mapping={
            "success_callback_name": "os.mkdir",
            "failure_callback_name": "os.mkdir",
            "webhooks": json.dumps([{"url": f"file://{made}", "on": ["finished"]}]),
            "repeats_left": 5,
            "repeat_intervals": "[0]",
        },
    )
    assert heard() == [str(run_id)]
    assert heard() == []


def test_what_an_exception_says_does_not_reach_redis(heard, redis):
    def fail(run_id: str) -> None:
        raise ValueError("the secret of Anna Weber")

    run_id = uuid4()
    queue.ring(run_id, fence=1, n=1)
    heard(fail)
    job = queue.HoldpointJob.fetch(
        f"{run_id}-1-1", connection=redis, serializer=JSONSerializer
    )
    result = job.latest_result()
    assert result is not None
    assert result.exc_string is not None
    assert "builtins.ValueError" in result.exc_string
    assert "Anna" not in result.exc_string
    assert job.meta == {}
    assert job.description == f"work on run {run_id}"
