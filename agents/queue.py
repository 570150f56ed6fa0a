"""The doorbell: the only module that knows RQ.

A ring is an RQ job that carries a run's id, as a hint, or that of a request whose guard
is to look again, or it says that there is something to deliver. Losing, doubling,
delaying or reordering rings changes when that is done, never how. What comes out of
Redis is therefore not trusted: a job may name one of three functions, with one id, and
nothing in it is imported, called back or posted anywhere.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from types import MappingProxyType
from typing import Any, NoReturn
from uuid import UUID

import django_rq
from django.conf import settings
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.exceptions import TimeoutError as RedisTimeout
from redis.retry import Retry
from rq import Queue, SimpleWorker
from rq.exceptions import DequeueTimeout, DuplicateJobError, StopRequested
from rq.job import Job, JobStatus
from rq.serializers import DefaultSerializer, JSONSerializer

from agents.pure.queues import QUEUE

logger = logging.getLogger(__name__)

# Names on the wire; nothing is imported by them.
WORK = "agents.queue.work_run"
CHECK = "agents.queue.check_guard"
DELIVER = "agents.queue.deliver"

PATIENCE = 1.0  # seconds that a request may wait for Redis
LISTEN = (
    1  # seconds in one blocking pop: how soon an idle worker sees that it shall stop
)
HUSH = 1.0  # seconds that nobody rings for after one waited in vain
OUTAGE = 2.0  # seconds without an answer to a pop until Redis counts as gone
HEARTBEAT = 10.0  # seconds between signs of life in RQ's worker list
RING_TTL = 3600  # seconds; the hash of a lost job would stay for ever
FAILURE_TTL = 3600  # seconds that a failed job stays on the queue pages

Work = Callable[[str], None]


class NotAllowed(Exception):
    """A job names something other than the functions that a ring may name."""


class JobFailed(Exception):
    """Stands for an exception that a job raised: its class, without what it says."""


class HoldpointJob(Job):
    """An RQ job that can do one thing: pass an id to the worker that took it."""

    duties: Mapping[str, Work] = MappingProxyType({})  # by name; set by the worker
    failure: JobFailed | None = None  # what it came to, once it was run

    @property
    def func(self) -> Work:
        work = self.duties.get(self.func_name or "")
        if (
            work is None
            or self.instance is not None
            or self.kwargs
            or len(self.args) != 1
            or not isinstance(self.args[0], str)
        ):
            raise NotAllowed(f"Job {self.id} is not a ring.")
        return work

    def perform(self) -> None:
        """Run it, once. What an exception says could be state, and RQ would store it."""
        if self.failure is None:
            try:
                super().perform()
            except Exception as error:
                logger.exception("a ring failed", extra={"ids": {"ring": self.id}})
                named = f"{type(error).__module__}.{type(error).__qualname__}"
                self.failure = JobFailed(named)
            else:
                return
        raise self.failure


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


def queue(connection: Redis, name: str = QUEUE) -> Queue:
    """A queue of rings, one of those that settings describe."""
    return django_rq.get_queue(
        name,
        connection=connection,
        job_class=HoldpointJob,
        serializer=JSONSerializer,
        commit_mode="auto",  # callers ring after commit, and say so with on_commit
    )


def ring(run_id: UUID, *, fence: int, n: int | str, on: str = QUEUE) -> bool:
    """Ask a worker that listens on the queue to look at the run; False when Redis
    cannot be told.

    The id names the run, the fence it was last held under and how often it rang
    since, so that it is new each time: the hash of a lost job would block an id that
    could come again. Never raises what Redis raises: the reaper rings later. While Redis
    hangs, one ring of a process waits for it, not each.
    """
    return _enqueue(
        WORK, run_id, job_id=f"{run_id}-{fence}-{n}", about="work on run", on=on
    )


def ring_check(approval_id: UUID, *, n: int | str, on: str = QUEUE) -> bool:
    """As `ring`, for the guard of a request, on the queue of its run; `n` is new each time."""
    return _enqueue(
        CHECK, approval_id, job_id=f"{approval_id}-{n}", about="check request", on=on
    )


def ring_delivery(pk: UUID, *, n: int | str) -> bool:
    """As `ring`: there is something to deliver, of this request, or this channel's test.

    On the first queue; whoever listens there sends whatever is due.
    """
    return _enqueue(
        DELIVER,
        pk,
        job_id=f"{pk}-deliver-{n}",
        about="deliver messages of",
        on=settings.QUEUES[0],
    )


def _enqueue(name: str, pk: UUID, *, job_id: str, about: str, on: str) -> bool:
    if on not in settings.RQ_QUEUES:
        return False  # it was listed when the run began; the Runs page says so
    if _outage.hangs():
        return False
    try:
        rings = queue(_ringer(), on)
        job = rings.create_job(
            name,
            args=(str(pk),),
            timeout=-1,
            result_ttl=0,
            ttl=RING_TTL,
            failure_ttl=FAILURE_TTL,
            description=f"{about} {pk}",
            job_id=job_id,
            status=JobStatus.QUEUED,
        )
        rings._enqueue_job(job, unique=True)
        # RQ does this first: it lists the queue for its pages. By now the ring is heard.
        rings.connection.sadd(rings.redis_queues_keys, rings.key)
    except DuplicateJobError:
        return True
    except (RedisError, OSError) as error:
        _outage.seen(error)
        return False
    _outage.over()
    return True


class HoldpointWorker(SimpleWorker):
    """RQ's worker without a fork per job, without remote commands and signals.

    `work` is called with each run that rings on the one queue, `check` with each request,
    `deliver` where there is something to deliver: with several queues, RQ falls back to a
    pop that can lose a job. The loop ends when `stopping()` says so, and when
    Redis goes away; `outage` then says how.
    """

    job_class = HoldpointJob
    log_result_lifespan = False

    def __init__(
        self,
        work: Work,
        *,
        name: str,
        stopping: Callable[[], bool],
        connection: Redis,
        on: str = QUEUE,
        check: Work | None = None,
        deliver: Work | None = None,
    ) -> None:
        super().__init__(
            [queue(connection, on)],
            name=name,
            connection=connection,
            serializer=JSONSerializer,
            job_class=HoldpointJob,
            log_job_description=False,
        )
        named = {WORK: work, CHECK: check, DELIVER: deliver}
        self._duties = {name: duty for name, duty in named.items() if duty}
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
        """Forget the ring, then answer it: PostgreSQL knows what there is to do.

        RQ's own bookkeeping takes as long as to claim the run, before that and after it;
        only of a ring that fails it tells its pages.
        """
        assert isinstance(job, HoldpointJob)  # job_class above
        job.duties = self._duties
        try:
            with self.connection.pipeline(transaction=False) as forget:
                forget.lrem(queue.intermediate_queue_key, 1, job.id)
                forget.delete(job.key)
                forget.execute()
            with suppress(JobFailed):
                job.perform()
            if job.failure is not None:
                super().execute_job(job, queue)  # which finds it failed
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
    work: Work,
    *,
    name: str,
    stopping: Callable[[], bool],
    on: str = QUEUE,
    burst: bool = False,
    check: Work | None = None,
    deliver: Work | None = None,
) -> None:
    """Call `work` with each run that rings on the queue, `check` with each request whose
    guard shall look, and `deliver` where there is something to deliver, until
    `stopping()`; in a burst, until none is left.

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
            on=on,
            check=check,
            deliver=deliver,
        )
        worker.work(burst=burst, logging_level="WARNING")
        if worker.outage is not None:
            raise worker.outage


def depths(*, timeout: float = PATIENCE) -> dict[str, int] | None:
    """How many rings nobody has heard yet, of each queue; None when Redis does not
    answer in time."""
    try:
        with connect(timeout=timeout) as connection, connection.pipeline() as asked:
            for name in settings.QUEUES:
                asked.llen(queue(connection, name).key)
            return dict(zip(settings.QUEUES, asked.execute(), strict=True))
    except (RedisError, OSError):
        return None


class _Outage:
    """Logs the beginning and the end of an outage, once each."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._hung_at: float | None = None

    def hangs(self) -> bool:
        """Whether somebody has just waited in vain, where a refusal comes at once."""
        at = self._hung_at
        return at is not None and time.monotonic() - at < HUSH

    def seen(self, error: Exception) -> None:
        if isinstance(error, RedisTimeout):
            self._hung_at = time.monotonic()
        if self._since is None:
            self._since = time.monotonic()
            logger.warning(
                "Redis does not answer (%s); runs are looked for in PostgreSQL until it does",
                type(error).__name__,
            )

    def over(self) -> None:
        self._hung_at = None
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
