"""Measurements for anyone to repeat: `./dev bench`, `./dev bench storage --json`.

Each compares ways to do one thing, taking turns in one run on one throw-away server, so
that a ratio means something on any machine. Milliseconds differ between machines; round
trips and bytes do not.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys

import django
from django.core.management import call_command

import bench
from checkpoints import memory


def main(arguments: list[str]) -> int:
    known = sorted(
        module.name
        for module in pkgutil.iter_modules(bench.__path__)
        if not module.name.startswith("_")
    )
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"of {', '.join(known)}; all if none")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    parser.add_argument(
        "--quick", action="store_true", help="short threads, without LangGraph"
    )
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.name) - set(known)):
        parser.error(f"there is no {', '.join(unknown)}; there is {', '.join(known)}")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    os.environ.setdefault("HOLDPOINT_APPS", "bench.desk")
    os.environ.setdefault("APPROVAL_GRACE_SECONDS", "0")
    os.environ.setdefault("MAX_STEPS", "1000")  # runs are measured to their end
    django.setup()
    call_command("migrate", verbosity=0)
    memory.settle()  # as the web process and the workers do
    for name in options.name or known:
        importlib.import_module(f"bench.{name}").run(
            as_json=options.json, quick=options.quick
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
