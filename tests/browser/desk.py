"""The demo as `./dev up` starts it, for tests that look at it from outside.

A database of its own with the seeded trips, a web process, a worker, and the scripted
model with its ledger. Nothing here reaches into the product: what happens, happens through
pages; what came of it is on pages or in the ledger.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

import psycopg
import redis
from psycopg import sql

from agents.demo.model import wire
from checkpoints.db.session import DatabaseRole
from project.up.processes import dies_with_us
from tests.llm import ScriptedModel
from tests.measuring import unwatched
from tests.roles import as_role

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0  # seconds for a process to start, on a machine with much else to do
FIRST_QUEUE = 8  # Redis's database of the first desk; 0 is the other tests'
PASSWORD = "holdpoint"


class Desk:
    """`with Desk(folder) as desk:`, then browse `desk.address`."""

    def __init__(self, folder: Path) -> None:
        number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        self.log = folder / "desk.log"
        self.name = f"desk_{os.getpid()}"
        self.database = _on(os.environ["DATABASE_URL"], self.name)
        self.redis = _queue(os.environ["REDIS_URL"], FIRST_QUEUE + number)
        self.model = ScriptedModel()
        self.address = f"http://127.0.0.1:{_free_port()}"
        self.env = {
            **os.environ,
            "DATABASE_URL": self.database,
            "REDIS_URL": self.redis,
            "HOLDPOINT_DEMO": "True",
            "HOLDPOINT_MODEL": "scripted-1",
            "HOLDPOINT_DEMO_LEDGER": self.model.ledger_url,
            "OPENAI_BASE_URL": self.model.base_url,
            "OPENAI_API_KEY": self.model.api_key,
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Desk:
        self._maintain("CREATE DATABASE {}")
        self.model.start()
        try:
            self._start_all()
        except BaseException:
            self.__exit__()  # a database and processes would be left behind
            raise
        return self

    def _start_all(self) -> None:
        self._manage("migrate", "--no-input", "-v0")
        self._manage("seed_demo")
        self._start(DatabaseRole.WORKER, "manage.py", "worker", "--pool", "1")
        port = urlsplit(self.address).port
        web = ["project.asgi:application", "--port", str(port), "--lifespan", "off"]
        web += ["--timeout-graceful-shutdown", "1"]
        self._start(DatabaseRole.WEB, "-m", "uvicorn", *web)
        eventually(self._answers, PATIENCE, said=self.last_words)

    def __exit__(self, *reason: object) -> None:
        for process in self.processes:
            # Not SIGTERM: uvicorn dies of it for good, and coverage writes nothing.
            process.send_signal(signal.SIGINT)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.model.stop()
        redis.Redis.from_url(self.redis).flushdb()
        self._maintain("DROP DATABASE {} WITH (FORCE)")

    # What the agent will do

    def will_refund(self, booking: str, amount: str = "240.00") -> None:
        """Whoever mentions this booking gets the agent to ask for its refund."""
        refund = {
            "booking": booking,
            "passenger": "Helen Marsh",
            "amount": amount,
            "reason": f"{booking} is not needed any more.",
        }
        self.will(booking, [("refund_ticket", refund)], f"Refunded {booking}.")

    def will(
        self, match: str, calls: list[tuple[str, dict[str, Any]]], then: str
    ) -> None:
        """Answer a message with `match` by these calls, and their results by `then`."""
        made = [
            wire.call(tool, given, f"{match}-{n}")
            for n, (tool, given) in enumerate(calls)
        ]
        self.model.always(wire.use(made), match=match, turn=0)
        self.model.always(then, match=match, turn=1)

    # What came of it

    def effects(self, kind: str, text: str) -> list[dict[str, Any]]:
        """Effects outside that name `text`, repeats included."""
        return [one for one in self.model.ledger(kind) if text in str(one["body"])]

    # Processes

    def last_words(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-3000:]

    def _start(self, role: DatabaseRole, *command: str) -> None:
        with self.log.open("ab") as log:
            env = as_role(self.env, role)
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, *command],
                    cwd=ROOT,
                    # Pages are measured where their tests are.
                    env=unwatched(env) if role is DatabaseRole.WEB else env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=dies_with_us(signal.SIGKILL),
                )
            )

    def _manage(self, *command: str) -> None:
        done = subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=ROOT,
            env=unwatched(self.env),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _answers(self) -> bool:
        for process in self.processes:
            assert process.poll() is None, self.last_words()
        try:
            with urllib.request.urlopen(f"{self.address}/readyz", timeout=5) as answer:  # noqa: S310
                return bool(answer.status == HTTPStatus.OK)
        except (URLError, OSError):
            return False

    def _maintain(self, statement: str) -> None:
        url = _on(os.environ["DATABASE_URL"], "postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(self.name)))


def eventually(
    holds: Callable[[], Any], seconds: float = PATIENCE, said: Callable[[], str] = str
) -> Any:
    """Waits until it holds; gives what it gave."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"It did not happen. {said()}"
        time.sleep(0.1)
    return found


def _on(url: str, database: str) -> str:
    """The same server, another database."""
    return re.sub(r"^(\w+://[^/]*)/[^?]*", rf"\1/{database}", url)


def _queue(url: str, number: int) -> str:
    """The same Redis, another numbered database."""
    if "?" in url:
        return re.sub(r"db=\d+", f"db={number}", url)
    return re.sub(r"/\d*$", "", url) + f"/{number}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
