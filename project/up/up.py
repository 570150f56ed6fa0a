"""`./dev up`: from a fresh clone to a running demo."""

from __future__ import annotations

import http.client
import os
import socket
from pathlib import Path

from project.up import services, venv
from project.up.paths import (
    DATA,
    LOGS,
    ROOT,
    RUNNING,
    Problem,
    forget_sockets,
    lock,
    note_running,
    running,
)
from project.up.processes import Child, Interrupted, Supervisor

FIRST_PORT = 8000
PORTS_TO_TRY = 50
# What another ./dev in this folder needs to know to reach the same servers.
SHARED = (
    "BLOB_DIR",
    "BLOB_STORE",
    "BLOB_S3_ENDPOINT",
    "BLOB_S3_REGION",
    "DATABASE_URL",
    "DATABASE_WEB_URL",
    "DATABASE_WORKER_URL",
    "REDIS_URL",
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
    "HOLDPOINT_APPS",
    "PYTHONPATH",  # where those may be
    "QUEUES",
    "KEY_PROVIDERS",
    "HOLDPOINT_MODEL",
    "HOLDPOINT_DEMO_LEDGER",
    "HOLDPOINT_DEMO",
)


def up(arguments: list[str]) -> int:
    if arguments:
        raise Problem(f"./dev up takes no arguments; found {' '.join(arguments)}.")
    held = lock("up.lock", wait=False)
    if held is None:
        other = running()
        raise Problem(
            f"Holdpoint already runs in this folder, at {other['address']}"
            f" (process {other['pid']}). Stop that one first, with Ctrl-C."
            if other
            else "Another ./dev in this folder is starting, or uses its servers."
        )
    with held:
        return _up()


def _up() -> int:
    host, port = os.environ.get("HOST", "127.0.0.1"), _port()
    services.ensure_venv()
    env = {
        **services.base_environment(),
        "HOLDPOINT_DEMO": os.environ.get("HOLDPOINT_DEMO", "True"),
        **services.keys(),
    }
    address = f"http://{'localhost' if host == '0.0.0.0' else host}:{port}"  # noqa: S104  # compared
    if not services.given("PUBLIC_URL"):
        env["PUBLIC_URL"] = address
    with Supervisor() as supervisor:
        try:
            found = services.start(supervisor, env, DATA, durable=True)
            scripted = _start_model(supervisor, found.env)
            # First: with a key missing, nothing is written.
            _manage(supervisor, found.env, "keys", "check")
            _manage(supervisor, found.env, "migrate", "--no-input", "-v0")
            demo = found.env["HOLDPOINT_DEMO"] == "True"
            logins = ""
            if demo:
                logins = _manage(supervisor, found.env, "seed_demo")
            else:  # then static files are served from where they are collected
                _manage(supervisor, found.env, "collectstatic", "--no-input", "-v0")
            supervisor.start(*_web_and_workers(found.env, host, port))
            supervisor.wait_until(lambda: _answers(host, port), address, seconds=60)
            shared = {name: found.env[name] for name in SHARED if name in found.env}
            note_running({"pid": os.getpid(), "address": address, "env": shared})
            print(_ready(address, logins, found.embedded, scripted), flush=True)
            supervisor.run()
            print("Stopping …", flush=True)
        finally:
            supervisor.stop()
            RUNNING.unlink(missing_ok=True)
            forget_sockets(DATA)
    return 0


def _start_model(supervisor: Supervisor, env: dict[str, str]) -> bool:
    """The scripted model, unless a real one is named. It changes `env` to lead there."""
    if services.given("OPENAI_API_KEY") or services.given("OPENAI_BASE_URL"):
        return False
    port = _free_port()
    command = [venv.PYTHON, "-m", "agents.demo.model", "--port", str(port)]
    supervisor.start(Child("model", command, env=dict(env), patience=2))
    supervisor.wait_until(lambda: _listens(port), "The scripted model", seconds=30)
    env["OPENAI_BASE_URL"] = f"http://127.0.0.1:{port}/v1"
    env["OPENAI_API_KEY"] = "scripted"
    if not services.given("HOLDPOINT_MODEL"):
        env["HOLDPOINT_MODEL"] = "scripted-1"
    env["HOLDPOINT_DEMO_LEDGER"] = f"http://127.0.0.1:{port}"
    return True


def _web_and_workers(env: dict[str, str], host: str, port: int) -> tuple[Child, Child]:
    web = [
        venv.PYTHON,
        "-m",
        "uvicorn",
        "project.asgi:application",
        "--host",
        host,
        "--port",
        str(port),
        "--lifespan",
        "off",
        "--timeout-graceful-shutdown",
        "3",
        "--no-access-log",
        "--no-server-header",
    ]
    worker = [venv.PYTHON, "manage.py", "worker", "--pool", "2"]
    return (
        Child("web", web, env=_only(env, "DATABASE_WEB_URL"), patience=5),
        Child("workers", worker, env=_only(env, "DATABASE_WORKER_URL")),
    )


def _only(env: dict[str, str], name: str) -> dict[str, str]:
    """With the credentials of one role, where it has its own: not with the owner's."""
    others = set(services.DATABASES) - {name}
    if not (env.get(name) or env.get(f"{name}_FILE")):
        others.discard("DATABASE_URL")
    dropped = others | {f"{other}_FILE" for other in others}
    return {key: value for key, value in env.items() if key not in dropped}


def _manage(supervisor: Supervisor, env: dict[str, str], *command: str) -> str:
    done = services.run_quietly(
        [venv.PYTHON, "manage.py", *command], env, logs_apart=True
    )
    if supervisor.stopping:
        raise Interrupted
    if done.returncode:
        said = (done.stdout + done.stderr).splitlines()
        end = "\n".join(f"  {line}" for line in said[-20:])
        raise Problem(f"manage.py {command[0]} failed:\n{end}")
    return done.stdout.strip()


def _ready(address: str, logins: str, servers: list[str], scripted: bool) -> str:
    facts = {
        "Log in": logins or "as a user of yours: ./dev manage createsuperuser",
        "Embedded": " and ".join(servers)
        or "nothing: DATABASE_URL and REDIS_URL are used",
        "Model": "scripted model (OPENAI_API_KEY and OPENAI_BASE_URL are not set)"
        if scripted
        else os.environ.get("OPENAI_BASE_URL") or "OpenAI",
        "Data": f"{_here(DATA)} (the keys too: without them nothing opens)",
        "Logs": _here(LOGS),
        "Stop": "Ctrl-C",
    }
    if not logins and not any(map(services.given, ("ALLOWED_HOSTS", "DEBUG"))):
        facts["Pages"] = (
            "none opens: ALLOWED_HOSTS is not set (to try it on this machine:"
            " ALLOWED_HOSTS=127.0.0.1 HTTPS=False)"
        )
    lines = [f"Holdpoint is ready: {address}", ""]
    for name, value in facts.items():
        first, *rest = value.splitlines() or [""]
        lines += [f"  {name:<10}{first}", *(f"  {'':<10}{line}" for line in rest)]
    return "\n".join(lines)


def _here(path: Path) -> str:
    return f"{path.relative_to(ROOT)}/"


def _port() -> int:
    """PORT, which must be free; else the first that is, from 8000 on."""
    host, wanted = os.environ.get("HOST", "127.0.0.1"), os.environ.get("PORT")
    if wanted:
        if not wanted.isdecimal() or not 0 < int(wanted) < 65536:
            raise Problem(f"PORT={wanted!r} must be a number from 1 to 65535.")
        if not _is_free(host, int(wanted)):
            raise Problem(
                f"PORT={wanted} is in use on {host}, or not allowed. Give another one,"
                " or none: then a free one is taken."
            )
        return int(wanted)
    for port in range(FIRST_PORT, FIRST_PORT + PORTS_TO_TRY):
        if _is_free(host, port):
            return port
    return _free_port()


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answers(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(
        "127.0.0.1" if host == "0.0.0.0" else host,  # noqa: S104  # compared
        port,
        timeout=5,
    )
    try:
        connection.request("GET", "/healthz", headers={"Host": f"localhost:{port}"})
        # It may refuse the name that we call it by (ALLOWED_HOSTS), but it is there.
        return connection.getresponse().status < 500
    except OSError:
        return False
    finally:
        connection.close()
