"""A PostgreSQL of this test's own, durable, to crash while it commits."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connection

from checkpoints.keys import hierarchy
from project.up.paths import DATA, make_folder, socket_folder
from project.up.paths import forget_sockets as forget
from project.up.postgres import DATABASE, USER, Postgres
from tests.workers.conftest import ROOT, wait_until


class Cluster:
    """`crash()` is `pg_ctl stop -m immediate`: nothing is written on the way out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sockets = socket_folder(folder)
        self.postgres = Postgres(folder / "postgres", self.sockets, durable=True)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        child = self.postgres.child()
        child.before()
        self.process = subprocess.Popen(
            child.command,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=child.user,
            group=child.user,
            extra_groups=None if child.user is None else [],
        )
        wait_until(self.postgres.answers)

    def crash(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def remove(self) -> None:
        if self.process is not None:
            self.crash()
        self.postgres.remove()
        forget(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def own_cluster() -> Iterator[Cluster]:
    """It runs, is migrated, and this process's queries go to it."""
    cluster = Cluster(make_folder(DATA / "throwaway" / str(os.getpid())))
    try:
        cluster.start()
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": cluster.postgres.url},
            check=True,
        )
        with _looking_at(cluster):
            yield cluster
    finally:
        cluster.remove()


@contextmanager
def _looking_at(cluster: Cluster) -> Iterator[None]:
    here: dict[str, Any] = {
        "NAME": DATABASE,
        "USER": USER,
        "PASSWORD": "",
        "HOST": str(cluster.sockets),
        "PORT": "",
    }
    was = {name: connection.settings_dict[name] for name in here}
    connection.close()
    hierarchy.forget()
    connection.settings_dict.update(here)
    try:
        yield
    finally:
        connection.close()
        hierarchy.forget()
        connection.settings_dict.update(was)
