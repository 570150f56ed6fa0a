"""What keeps a claim from going on, and what becomes of the run: a pause or a failure."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from agents.pure.step import Failure
from agents.runs import finish
from agents.runs.claim import Claim, give_back
from agents.runs.progress import Progress
from checkpoints.errors import (
    CheckpointsError,
    Fenced,
    KeysUnavailable,
    NotPermitted,
    StoreUnavailable,
)

logger = logging.getLogger(__name__)

INTERNAL = (
    "Something went wrong inside Holdpoint. The logs say what, under the id of this "
    "run; nothing that was stored is lost."
)
# What people read of a run that pauses, by the error's code. The log names the place.
PAUSED = {
    "store_full": "There is no room left where large values are kept.",
    "store_unavailable": "The place where large values are kept does not answer.",
    "keys_unavailable": "The service that keeps the keys does not answer.",
    "wrong_store": "This worker does not reach the place where large values are kept.",
}
PAUSE = timedelta(seconds=30)  # until a run that pauses tries again by itself


@contextmanager
def met(held: Claim, progress: Progress) -> Iterator[None]:
    """Work on the claim inside: each error that keeps it from going on ends it here."""
    ids = {"ids": {"run": held.run.pk, "fence": held.branch.fence}}
    try:
        yield
    except Fenced:
        logger.info("a run was taken by another holder", extra=ids)
    except (StoreUnavailable, KeysUnavailable) as error:
        logger.warning("a run waits for what is away: %s", error, extra=ids)
        with suppress(Fenced):
            pause(held, progress, Failure(error.code, PAUSED[error.code]), wait=PAUSE)
    except NotPermitted as error:
        logger.warning("a run needs an owner: %s", error, extra=ids)
        with suppress(Fenced):
            _need_owner(held, progress)
    except CheckpointsError as error:
        # State that does not open, a value that cannot be stored.
        logger.exception("a run cannot go on", extra=ids)
        with suppress(Fenced):
            fail(held, progress, Failure(error.code, str(error)))
    except (OperationalError, InterfaceError) as error:
        # A commit may be in doubt. Whoever takes the run next reads the head.
        logger.warning("PostgreSQL went away (%s)", type(error).__name__, extra=ids)
        _return_after_outage(held)
    except Exception:
        # The process edge: whatever it is, people see that the run failed.
        logger.exception("a run failed for a reason of ours", extra=ids)
        with suppress(Fenced):
            fail(held, progress, Failure("internal_error", INTERNAL))


def fail(
    held: Claim, progress: Progress, failure: Failure, *, answer_next: bool = False
) -> None:
    """Raises Fenced. `answer_next` as in `finish.fail`."""
    finish.fail_plainly(held, progress.writer, failure, answer_next=answer_next)


def pause(
    held: Claim, progress: Progress, failure: Failure, *, wait: timedelta
) -> None:
    """Leave the run for a while; what was done is not done again. Raises Fenced."""
    try:
        finish.pause(held, failure, wait=wait)
    except finish.CancelledMeanwhile:
        finish.cancel(held, progress.writer)


def _need_owner(held: Claim, progress: Progress) -> None:
    try:
        finish.need_owner(held)
    except finish.CancelledMeanwhile:
        finish.cancel(held, progress.writer)


def _return_after_outage(held: Claim) -> None:
    connection.close()
    try:
        give_back(held, blameless=False)
    except (Fenced, DatabaseError, InterfaceError):
        connection.close()  # the lease lapses by itself
