from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.runs import runner
from agents.runs.pool import Pool


class Command(BaseCommand):
    help = (
        "Work on runs until SIGTERM or Ctrl-C; a run in hand is left between two steps."
    )

    # Pages and admin are no business of this process; the web process checks them.
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--pool", type=int, default=1, metavar="N", help="worker processes (1)"
        )

    def handle(self, *args: Any, pool: int, **options: Any) -> None:
        if pool < 1:
            raise CommandError(f"--pool {pool} must be 1 or more.")
        Pool(pool, runner.work).run()
