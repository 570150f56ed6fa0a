"""Threads to archive, and a second database to restore them into."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from django.db import connection

from checkpoints import gate
from checkpoints.access import Reason, SystemPrincipal, unscoped
from checkpoints.clock import now
from checkpoints.keys import hierarchy
from checkpoints.log import source
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.log.hydrate import read
from checkpoints.log.threads import fork
from checkpoints.models import Archive, Branch, Thread
from checkpoints.pure import codec, ops

ROOT = Path(__file__).resolve().parents[2]


def say(branch: Branch, *texts: str) -> Branch:
    """The branch with a step for each text."""
    at = writer(branch)
    for text in texts:
        message = {"id": text, "role": "assistant", "content": text}
        op = ops.append("/messages", message)
        at = commit(at, NewStep(kind="model", ops=[op], label=text))
    branch.refresh_from_db()
    return branch


def grow(main: Branch, *, steps: int = 6) -> list[Branch]:
    """The main branch with some steps, a fork of it, and a fork of the fork."""
    say(main, *(f"main {number}" for number in range(steps)))
    middle = main.checkpoints.get(step=steps // 2)
    side = fork(middle, name="side", by_id=None, ops=[ops.put("", "goal", "else")])
    say(side, "side 1", "side 2")
    deep = fork(side.checkpoints.latest("step"), name="deep", by_id=None)
    return [main, side, say(deep, "deep 1")]


def age(thread: Thread, days: float = 40) -> Thread:
    """The thread as if its last step was so long ago."""
    with unscoped(Reason.TEST):
        then = now() - timedelta(days=days)
        Thread.objects.filter(pk=thread.pk).update(created_at=then)
        Branch.objects.filter(thread=thread).update(updated_at=then)
    return thread


def graced() -> None:
    """Let the grace period of every verified archive be over."""
    with unscoped(Reason.TEST):
        Archive.objects.filter(status="verified").update(
            verified_at=now() - timedelta(days=2)
        )


def stored(archived: Archive) -> source.Source:
    return source.stored(archived.store, archived.object_name)


def states(thread_id: Any) -> dict[tuple[str, int], bytes]:
    """The canonical state at every step of every branch, read through the gate."""
    with unscoped(Reason.TEST):
        thread = Thread.objects.get(pk=thread_id)
        seen = gate.admit(
            SystemPrincipal("test", thread.workspace_id),
            purpose="test",
            threads=[thread],
        )
        found = {}
        for branch in Branch.objects.filter(thread=thread):
            history = read(seen, branch)
            numbers = [record.step for record in history.records]
            for number, state in zip(numbers, history.states(*numbers), strict=True):
                found[str(branch.pk), number] = codec.canonical(state)
    return found


def database(name: str) -> str:
    """The address of another database of the tests' server."""
    return urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}"))


@contextmanager
def empty_database() -> Iterator[str]:
    """The name of a database that was migrated, and has no row of ours."""
    name = f"holdpoint_empty_{os.getpid()}"
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        server.execute(f"CREATE DATABASE {name}")
        try:
            manage("migrate", "--verbosity", "0", database=name)
            yield name
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def looking_at(name: str) -> Iterator[None]:
    """This process's queries go to that database, with no key in memory."""
    was = connection.settings_dict["NAME"]
    connection.close()
    hierarchy.forget()
    connection.settings_dict["NAME"] = name
    try:
        yield
    finally:
        connection.close()
        hierarchy.forget()
        connection.settings_dict["NAME"] = was


def manage(
    *command: str, database: str, code: int = 0, **env: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": address(database), **env},
        text=True,
        capture_output=True,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


address = database
