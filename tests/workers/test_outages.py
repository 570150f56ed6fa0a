"""Redis emptied, stopped, hanging or not there yet: runs go on, a little later."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from agents import queue
from project.up.paths import Problem
from project.up.valkey import Valkey
from tests.workers.conftest import ended, kinds, wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.unmeasured,
]


class OwnRedis:
    """A server of this test's own, to mistreat."""

    def __init__(self, folder: Path) -> None:
        self.valkey = Valkey(folder, folder, durable=False)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.valkey.socket.unlink(missing_ok=True)
        command = self.valkey.child().command
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(self.valkey.answers)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture
def redis(settings) -> Iterator[OwnRedis]:
    folder = Path(tempfile.mkdtemp(prefix="hp-"))  # a socket's path must be short
    try:
        server = OwnRedis(folder)
    except Problem:
        pytest.skip("no Valkey or Redis to start")
    settings.REDIS_URL = server.valkey.url
    yield server
    server.kill()
    shutil.rmtree(folder)


def runs_well(begin, server, message: str) -> None:
    server.will_say("Hello.")
    run = begin(message)
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"


def test_while_redis_hangs_one_ring_waits_for_it_and_not_each(redis):
    redis.start()
    assert queue.ring(uuid4(), fence=1, n=1)
    redis.send(signal.SIGSTOP)
    began = time.monotonic()
    assert not any(queue.ring(uuid4(), fence=1, n=1) for _ in range(20))
    assert time.monotonic() - began < 10
    redis.send(signal.SIGCONT)
    wait_until(lambda: queue.ring(uuid4(), fence=1, n=1))


def test_a_redis_that_is_emptied_again_and_again_loses_no_run(
    redis, workers, begin, server
):
    redis.start()
    workers.start()
    server.will_call_all(
        *(("c", "wait", {"seconds": 0.1 + n / 1000}) for n in range(5))
    )
    server.will_say("Done.")
    runs = [begin("one")]
    while not ended(runs[0]):
        with queue.connect(timeout=10) as connection:
            connection.flushall()
        time.sleep(0.05)
    assert kinds(runs[0]) == ["input", "model", *["tool"] * 5, "model"]
    runs_well(begin, server, "two")


def test_a_redis_that_stops_and_comes_back_costs_time_only(
    redis, workers, begin, server
):
    workers.start()  # before there is a Redis
    runs_well(begin, server, "none yet")
    redis.start()
    runs_well(begin, server, "it came")
    redis.kill()
    runs_well(begin, server, "it went")
    redis.start()
    runs_well(begin, server, "it came back")
    redis.send(signal.SIGSTOP)
    started = time.monotonic()
    server.will_say("Hello.")
    run = begin("it hangs")
    assert time.monotonic() - started < 10  # whoever starts a run does not wait for it
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"
    redis.send(signal.SIGCONT)
    said = workers.log.read_text()
    outages = said.count("Redis does not answer")
    assert 1 <= outages <= 4  # once each, in each process
