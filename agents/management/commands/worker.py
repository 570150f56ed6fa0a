from __future__ import annotations

import logging
import time
from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError, connections

from agents.runs import runner
from agents.runs.pool import Pool
from checkpoints import memory, stores
from checkpoints.errors import KeysUnavailable, StoreUnavailable, WrongStore
from checkpoints.keys import checks
from checkpoints.stores.mark import require_same

logger = logging.getLogger(__name__)

RETRY = (
    1.0  # seconds until PostgreSQL, or the service that keeps the keys, is asked again
)


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
        _require_keys()
        _require_store()
        memory.settle()  # before the workers are forked, so that they share it
        Pool(pool, runner.work).run()


def _require_keys() -> None:
    """Raises CommandError when a key is missing that rows are under: no run is begun.

    Where that cannot be found out yet, it waits: as the workers would.
    """
    said = False
    while True:
        try:
            checks.require_keks()
        except (OperationalError, InterfaceError, KeysUnavailable) as error:
            if not said:
                logger.warning("waiting for the keys (%s)", type(error).__name__)
            said = True
            connections.close_all()
            time.sleep(RETRY)  # nothing is claimed yet; a signal ends it
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        else:
            return


def _require_store() -> None:
    """Raises CommandError when the blob store here is not the others'."""
    try:
        require_same(stores.configured())
    except WrongStore as error:
        raise CommandError(str(error)) from error
    except (StoreUnavailable, OperationalError, InterfaceError) as error:
        # It may come back. Runs that need it pause until then.
        logger.warning("the blob store was not looked at: %s", error)
    connections.close_all()  # the workers are forked
