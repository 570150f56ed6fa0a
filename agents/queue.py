"""The doorbell: the only module that knows RQ.

A ring is an RQ job that carries a run's id, as a hint. Losing, doubling, delaying
or reordering rings changes when a run goes on, never how. What comes out of Redis
is therefore not trusted: a job may name one function, with one id, and nothing in
it is imported, called back or posted anywhere.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn
from uuid import UUID

import django_rq
from django.conf import settings
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Queue, SimpleWorker
from rq.exceptions import DequeueTimeout, DuplicateJobError, StopRequested
from rq.job import Job
from rq.serializers import DefaultSerializer, JSONSerializer

logger = logging.getLogger(__name__)

QUEUE = "agents"  # one: with several, RQ falls back to a pop that can lose a job
WORK = "agents.queue.work_run"  # a name on the wire; nothing is imported by it

PATIENCE = 1.0  # seconds that a request may wait for Redis
LISTEN = (
    1  # seconds in one blocking pop: how soon an idle worker sees that it shall stop
)
OUTAGE = 2.0  # seconds without an answer to a pop until Redis counts as gone
HEARTBEAT = 10.0  # seconds between signs of life in RQ's worker list
RING_TTL = 3600  # seconds; the hash of a lost job would stay for ever
FAILURE_TTL = 3600  # seconds that a failed job stays on the queue pages

Work = Callable[[str], None]


class NotAllowed(Exception):
    """A job names something other than the one function that a ring may name."""


class JobFailed(Exception):
    """Stands for an exception that a job raised: its class, without what it says."""


class HoldpointJob(Job):
    """An RQ job that can do one thing: pass a run's id to the worker that took it."""

    work: Work | None = None  # set by the worker

    @property
    def func(self) -> Work:
        if (
            self.func_name != WORK
            or self.instance is not None
            or self.kwargs
            or len(self.args) != 1
            or not isinstance(self.args[0], str)
            or self.work is None
        ):
            raise NotAllowed(f"Job {self.id} is not a ring.")
        return self.work

    def perform(self) -> None:
        """Run it. What an exception says could be state, and RQ would store it."""
        try:
            super().perform()
        except Exception as error:
            logger.exception("a ring failed", extra={"ids": {"ring": self.id}})
            failure = JobFailed(f"{type(error).__module__}.{type(error).__qualname__}")
        else:
            return
        raise failure


_restore = Job.restore


def _restore_without_calls(job: Job, raw_data: Any) -> None:
    """Read the stored job, without what would import, call or repeat something."""
    _restore(job, raw_data)
    job._success_callback_name = None
    job._failure_callback_name = None
    job._stopped_callback_name = None
    job.webhooks = []
    job.retries_left = job.retry_intervals = None
    job.repeats_left = job.repeat_intervals = None
    job._dependency_ids = []


# Where nobody says otherwise, RQ opens pickles and calls what a stored job names, and
# django-rq's pages say nothing while they count jobs: whoever writes Redis could run code
# in the web process. There is no other RQ in our processes, so its defaults are ours.
Job.restore = _restore_without_calls  # type: ignore[method-assign,assignment]
DefaultSerializer.dumps = JSONSerializer.dumps
DefaultSerializer.loads = JSONSerializer.loads


def connect(*, timeout: float) -> Redis:
    """A client that gives up after `timeout` seconds and leaves retrying to us."""
    return Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=timeout,
        socket_connect_timeout=min(timeout, PATIENCE),
        retry=Retry(NoBackoff(), 0),
    )


def queue(connection: Redis) -> Queue:
    """The queue of rings, as settings describe it."""
    return django_rq.get_queue(
        QUEUE,
        connection=connection,
        job_class=HoldpointJob,
        serializer=JSONSerializer,
        commit_mode="auto",  # callers ring after commit, and say so with on_commit
    )


def ring(run_id: UUID, *, fence: int, n: int) -> bool:
    """Ask a worker to look at the run; False when Redis cannot be told.

    The id names the run, the fence it was last held under and how often it rang
    since, so that it is new each time: the hash of a lost job would block an id that
    could come again. Never raises what Redis raises: the reaper rings later.
    """
    try:
        queue(_ringer()).enqueue_call(
            WORK,
            args=(str(run_id),),
            timeout=-1,
            result_ttl=0,
            ttl=RING_TTL,
            failure_ttl=FAILURE_TTL,
            description=f"work on run {run_id}",
            job_id=f"{run_id}-{fence}-{n}",
            unique=True,
        )
    except DuplicateJobError:
        return True
    except (RedisError, OSError) as error:
        _outage.seen(error)
        return False
    _outage.over()
    return True


class HoldpointWorker(SimpleWorker):
    """RQ's worker without a fork per job, without remote commands and signals.

    `work` is called with each id that rings. The loop ends when `stopping()` says
    so, and when Redis goes away; `outage` then says how.
    """

    job_class = HoldpointJob
    log_result_lifespan = False

    def __init__(
        self, work: Work, *, name: str, stopping: Callable[[], bool], connection: Redis
    ) -> None:
        super().__init__(
            [queue(connection)],
            name=name,
            connection=connection,
            serializer=JSONSerializer,
            job_class=HoldpointJob,
            log_job_description=False,
        )
        self._work = work
        self._stopping = stopping
        self._alive_at = 0.0
        self.outage: RedisError | None = None

    @property
    def dequeue_timeout(self) -> int:
        return LISTEN

    @property
    def connection_timeout(self) -> int:
        return int(LISTEN + OUTAGE)

    def execute_job(self, job: Job, queue: Queue) -> None:
        assert isinstance(job, HoldpointJob)  # job_class above
        job.work = self._work
        try:
            super().execute_job(job, queue)
        except RedisError as error:
            self._give_up(error)

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """The next job; None when there is none and `timeout` is None (burst).

        RQ's own waits for Redis up to a minute at a time, and for ever.
        """
        while not self._stopping():
            try:
                return self._next(timeout)
            except DequeueTimeout:
                continue
            except RedisError as error:
                self._give_up(error)
        raise StopRequested

    def _give_up(self, error: RedisError) -> NoReturn:
        """RQ would log it with all its frames, each time."""
        self.outage = error
        raise StopRequested from error

    def _next(self, timeout: int | None) -> tuple[Job, Queue] | None:
        if time.monotonic() - self._alive_at > HEARTBEAT:
            self.heartbeat()
            self._alive_at = time.monotonic()
        if self.should_run_maintenance_tasks:
            self.run_maintenance_tasks()  # type: ignore[no-untyped-call]
        return self.queue_class.dequeue_any(
            self._ordered_queues,
            timeout,
            connection=self.connection,
            job_class=self.job_class,
            serializer=self.serializer,
            death_penalty_class=self.death_penalty_class,
        )

    def teardown(self) -> None:
        """Sign off from RQ's worker list; in an outage, time will."""
        if self.outage is None:
            super().teardown()  # type: ignore[no-untyped-call]

    def subscribe(self) -> None:
        """RQ's channel lets whoever reaches Redis stop workers and jobs. We do not listen."""

    def _install_signal_handlers(self) -> None:
        """RQ's handlers talk to Redis. The worker process has its own (runs/worker.py)."""


def listen(
    work: Work, *, name: str, stopping: Callable[[], bool], burst: bool = False
) -> None:
    """Call `work` with each id that rings, until `stopping()`; in a burst, until none is left.

    Raises RedisError when Redis cannot be reached or goes away, and OSError.
    """
    _ringer().ping()  # soon says whether Redis is there
    _outage.over()
    with connect(timeout=LISTEN + OUTAGE) as connection:
        worker = HoldpointWorker(
            work,
            # A name for once: after an outage, RQ's list still has the last.
            name=f"{name}.{secrets.token_hex(2)}",
            stopping=stopping,
            connection=connection,
        )
        worker.work(burst=burst, logging_level="WARNING")
        if worker.outage is not None:
            raise worker.outage


def depth(*, timeout: float = PATIENCE) -> int | None:
    """How many rings nobody has heard yet; None when Redis does not answer in time."""
    try:
        with connect(timeout=timeout) as connection:
            return queue(connection).count
    except (RedisError, OSError):
        return None


class _Outage:
    """Logs the beginning and the end of an outage, once each."""

    def __init__(self) -> None:
        self._since: float | None = None

    def seen(self, error: Exception) -> None:
        if self._since is None:
            self._since = time.monotonic()
            logger.warning(
                "Redis does not answer (%s); runs are looked for in PostgreSQL until it does",
                type(error).__name__,
            )

    def over(self) -> None:
        if self._since is not None:
            lasted = time.monotonic() - self._since
            self._since = None
            logger.warning("Redis answers again after %.0f s", lasted)


_outage = _Outage()
outage_seen = _outage.seen


def _ringer() -> Redis:
    return _ringer_for(settings.REDIS_URL)


@cache
def _ringer_for(url: str) -> Redis:
    return connect(timeout=PATIENCE)
