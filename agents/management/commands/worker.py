from __future__ import annotations

import logging
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseError
from django.db import connections

from agents.runs import runner
from agents.runs.pool import Pool
from checkpoints import stores
from checkpoints.errors import StoreUnavailable, WrongStore
from checkpoints.stores.mark import require_same

logger = logging.getLogger(__name__)


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
        self._look_at_the_store()
        Pool(pool, runner.work).run()

    def _look_at_the_store(self) -> None:
        """Refuse to work beside a blob store that is not the others'."""
        try:
            require_same(stores.configured())
        except WrongStore as error:
            raise CommandError(str(error)) from error
        except StoreUnavailable as error:
            # It may come back. Runs that need it pause until then.
            logger.warning("the blob store does not answer: %s", error)
        except DatabaseError:
            pass  # it may come back, too; the workers wait for it
        connections.close_all()  # the workers are forked
