from __future__ import annotations

import logging
import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError, connections

from agents.pure.queues import QUEUE
from agents.runs import runner
from agents.runs.pool import GRACE, Pool
from agents.runs.roster import MB
from agents.runs.worker import Span
from checkpoints import memory, stores
from checkpoints.db.checks import require_role
from checkpoints.errors import KeysUnavailable, StoreUnavailable, WrongStore
from checkpoints.keys.checks import require_keks
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
            "--queue",
            default=QUEUE,
            metavar="NAME",
            help=f"the one queue whose runs these workers take ({QUEUE}); for others,"
            " start other workers",
        )
        parser.add_argument(
            "--pool", type=int, default=1, metavar="N", help="worker processes (1)"
        )
        parser.add_argument(
            "--grace",
            type=float,
            default=GRACE,
            metavar="SECONDS",
            help="after SIGTERM, until a worker that is still inside a step is killed;"
            f" its run goes on elsewhere ({GRACE:.0f})",
        )
        parser.add_argument(
            "--max-runs",
            type=int,
            default=Span().turns,
            metavar="N",
            help="runs that one process takes on before a fresh one takes its place;"
            f" 0: any number ({Span().turns})",
        )
        parser.add_argument(
            "--max-mb",
            type=int,
            default=Span().memory // MB,
            metavar="N",
            help="memory of one process, at which a fresh one takes its place;"
            f" 0: any amount ({Span().memory // MB})",
        )

    def handle(
        self,
        *args: Any,
        queue: str,
        pool: int,
        grace: float,
        max_runs: int,
        max_mb: int,
        **options: Any,
    ) -> None:
        if queue not in settings.QUEUES:
            raise CommandError(
                f"--queue {queue} is not in QUEUES, which has {', '.join(settings.QUEUES)}."
            )
        _require("--pool", pool, least=1)
        for name, value in (
            ("--grace", grace),
            ("--max-runs", max_runs),
            ("--max-mb", max_mb),
        ):
            _require(name, value, least=0)
        _require_role_and_keys()
        _require_store()
        memory.settle()  # before the workers are forked, so that they share it
        span = Span(turns=max_runs, memory=max_mb * MB)
        Pool(pool, runner.work, on=queue, span=span, grace=grace).run()


def _require(name: str, value: float, *, least: int) -> None:
    if not value >= least:
        raise CommandError(f"{name} {value:g} must be {least} or more.")


def _require_role_and_keys() -> None:
    """Raises CommandError when this process is not held to its database role, or a key
    is missing that rows are under: no run is begun.

    Where that cannot be found out yet, it waits: as the workers would.
    """
    said = False
    while True:
        try:
            require_role()
            require_keks()
        except (OperationalError, InterfaceError, KeysUnavailable) as error:
            if not said:
                logger.warning(
                    "waiting for database and keys (%s)", type(error).__name__
                )
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
