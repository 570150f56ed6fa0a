"""The commands of `./dev`."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable

from project.up import checks, services, up, venv
from project.up.paths import Problem
from project.up.processes import Interrupted

USAGE = """\
./dev up                start everything and keep it running; Ctrl-C stops it
./dev test [pytest …]   the whole suite, or what pytest's arguments choose
./dev lint              ruff, mypy, import-linter, djade, migrations, deployment checks
./dev manage …          Django's manage.py, against this folder's servers
./dev worker […]        one more worker, beside those of ./dev up
./dev bench […]         the benchmarks in bench/ (--help): `storage`, `storage --json`

PostgreSQL and Valkey are embedded unless DATABASE_URL and REDIS_URL are set, the model
is a scripted one unless OPENAI_API_KEY or OPENAI_BASE_URL is. PORT chooses the port.
"""


def manage(arguments: list[str]) -> int:
    services.ensure_venv()
    with services.kept() as kept:
        return services.foreground([venv.PYTHON, "manage.py", *arguments], kept.env)


def worker(arguments: list[str]) -> int:
    return manage(["worker", *arguments])


def bench(arguments: list[str]) -> int:
    env = {**services.base_environment(), "HOLDPOINT_DEMO": "True"}
    with contextlib.ExitStack() as stack:
        # What is printed here is no part of the result.
        with contextlib.redirect_stdout(sys.stderr):
            services.ensure_venv(venv.BENCH)
            servers = stack.enter_context(services.throwaway(env, durable=True))
        return services.foreground(
            [venv.PYTHON, "-m", "bench", *arguments], servers.env
        )


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "up": up.up,
    "test": checks.test,
    "lint": checks.lint,
    "manage": manage,
    "worker": worker,
    "bench": bench,
}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in {"help", "-h", "--help"}:
        print(USAGE, end="")
        return 0
    command = COMMANDS.get(arguments[0])
    if command is None:
        print(f"There is no ./dev {arguments[0]}.\n\n{USAGE}", end="", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, until ready
    try:
        return command(arguments[1:])
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 1
    except (KeyboardInterrupt, Interrupted):
        print("Stopped.", file=sys.stderr)
        return 130
