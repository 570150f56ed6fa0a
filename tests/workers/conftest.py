"""The test desk, runs that work in this process, and worker processes to kill."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection

from agents import queue
from agents.models import Approval, Run, Worker
from agents.runs import reaper, runner, start
from agents.tools import Agent, registry
from checkpoints.access import Reason, unscoped
from checkpoints.db.session import DatabaseRole
from checkpoints.models import Checkpoint
from tests.roles import VARIABLES, as_role
from tests.workers.desk import agents as desk

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0  # seconds until a test gives up waiting; a loaded machine is slow


@pytest.fixture(autouse=True)
def everything_visible() -> Iterator[None]:
    """Tests look at rows directly."""
    with unscoped(Reason.TEST):
        yield


@pytest.fixture(autouse=True)
def own_redis(settings) -> None:
    """A Redis database of this pytest process's own: here, rings have listeners."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) + 1
    settings.REDIS_URL = f"{settings.REDIS_URL.partition('?')[0]}?db={number}"
    with queue.connect(timeout=10) as redis:
        redis.flushdb()


@pytest.fixture
def server(llm, settings, monkeypatch) -> Any:
    """The model server and the ledger, known to this process."""
    settings.OPENAI_BASE_URL = llm.base_url
    settings.OPENAI_API_KEY = llm.api_key
    settings.MODEL_ATTEMPTS = 2
    monkeypatch.setenv("DESK_LEDGER", llm.ledger_url)
    return llm


@pytest.fixture
def begin(server, alice) -> Callable[..., Run]:
    """Starts a run of the test desk, which nobody works on yet."""

    def begin(message: str = "Book it.", **more: Any) -> Run:
        more.setdefault("by", alice)
        return start.start_run(agent=desk.desk.name, message=message, **more)

    return begin


@pytest.fixture
def deploy(monkeypatch) -> Callable[..., Agent]:
    """Other code of an agent is deployed, in this process: deploy(desk, system="…")."""

    def deploy(agent: Agent, **changes: Any) -> Agent:
        now = dataclasses.replace(agent, **changes)
        monkeypatch.setitem(registry._agents, agent.name, now)
        return now

    return deploy


@pytest.fixture
def work() -> Callable[[], None]:
    """Works on every ready run in this process, until there is none."""

    def work() -> None:
        for _ in range(20):
            ready = reaper.ready()
            if not ready:
                return
            for run_id in ready:
                runner.work(run_id)
        raise AssertionError("runs stay ready")

    return work


def kinds(run: Run) -> list[str]:
    """The kinds of the branch's own steps, in order."""
    steps = Checkpoint.objects.filter(branch=run.branch_id).order_by("step")
    return list(steps.values_list("kind", flat=True))


def pending(run: Run) -> list[Approval]:
    return list(Approval.objects.pending().filter(run=run).order_by("call__ordinal"))


def wait_until(true: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Polls until `true()` is; gives what it gave."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := true():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s")


def ended(run: Run) -> bool:
    run.refresh_from_db()
    return not run.is_live


def idle_since(moment: datetime, pid: int) -> bool:
    """Whether that worker has said since then that it is at nothing."""
    idle = Worker.objects.present().filter(pid=pid, busy_since=None)
    return idle.filter(beat_at__gt=moment).exists()


class Workers:
    """`manage.py worker` processes on the test database."""

    command: tuple[str, ...] = ("manage.py", "worker", "--pool")

    def __init__(self, env: dict[str, str], log: Path, *, root: Path = ROOT) -> None:
        self.root = root
        self._owners = {"DATABASE_URL": env["DATABASE_URL"]}
        self.env = as_role(env, DatabaseRole.WORKER)
        self.web_env = as_role(env, DatabaseRole.WEB)
        self.log = log
        self.started: list[subprocess.Popen[bytes]] = []

    @property
    def command_env(self) -> dict[str, str]:
        """What commands of the server get: the workers' settings, the owner's database."""
        own = {k: v for k, v in self.env.items() if k not in VARIABLES.values()}
        return own | self._owners

    def start(
        self, pool: int = 1, *, options: Sequence[str] = (), **env: str
    ) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *self.command, str(pool), *options],
                cwd=self.root,
                env={**self.env, **env},
                stdout=log,
                stderr=log,
            )
        self.started.append(process)
        return process

    def children(self, supervisor: subprocess.Popen[bytes]) -> list[int]:
        """Its workers: forked, so they bear its command line."""
        path = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children")
        try:
            return [
                int(pid)
                for pid in path.read_text().split()
                if self.command[0].encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
        except OSError:
            return []

    def kill_child(self, supervisor: subprocess.Popen[bytes]) -> bool:
        for pid in self.children(supervisor):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            return True
        return False

    def forget_rings(self) -> None:
        with queue.connect(timeout=10) as redis:
            redis.flushdb()

    def stop(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()  # its children die with it
        for process in self.started:
            process.wait()


def surroundings(settings: Any, server: Any) -> dict[str, str]:
    """The environment of processes that work on what this test works on."""
    database = connection.settings_dict
    host, port = database["HOST"], database["PORT"]
    socket = host.startswith("/")
    where = "" if socket else f"{host}:{port}" if port else host
    query = f"?host={quote(host)}&port={port}" if socket else ""
    who = f"{quote(database['USER'])}:{quote(database['PASSWORD'])}"
    return {
        **os.environ,
        "DATABASE_URL": f"postgresql://{who}@{where}/{database['NAME']}{query}",
        "REDIS_URL": settings.REDIS_URL,
        "BLOB_DIR": str(settings.BLOB_DIR),
        "HOLDPOINT_APPS": "tests.workers.desk",
        "OPENAI_BASE_URL": server.base_url,
        "OPENAI_API_KEY": server.api_key,
        "MODEL_ATTEMPTS": "2",
        "DESK_LEDGER": server.ledger_url,
        "LEASE_SECONDS": "2",
    }


@pytest.fixture
def workers(transactional_db, server, settings, tmp_path) -> Iterator[Workers]:
    running = Workers(surroundings(settings, server), tmp_path / "worker.log")
    yield running
    running.stop()
