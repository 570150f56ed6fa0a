"""How a claim ends: waiting, succeeded, failed or cancelled.

Each is one transaction with the step that says so, and lets the branch go in it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Greatest

from agents.models import Run
from agents.models.runs import RunQuerySet
from agents.pure.labels import first_words
from agents.pure.step import Failure
from agents.runs.begin import lock, supersede_calls
from agents.runs.claim import Claim, let_go
from agents.runs.stop import answer_rest
from agents.tools.secrets import captured
from agents.wake import wake
from checkpoints import grants
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import CheckpointsError, Fenced, KeysUnavailable
from checkpoints.failpoints import failpoint
from checkpoints.gate import seal
from checkpoints.log.append import NewStep, StepMeta, Writer, commit
from checkpoints.models import Checkpoint
from checkpoints.pure.codec import clean

Also = Callable[[], object]

CANCELLED = Failure("cancelled", "Cancelled.")
INTERRUPTED = "A message interrupted the run; the next one answers it."


class CancelledMeanwhile(Exception):
    """Someone cancelled the run before it came to wait, or to pause."""


def suspend(claim: Claim, save: Also) -> None:
    """Leave the run to the people it asks; `save` writes what it asks them.

    Raises CancelledMeanwhile, then nothing is written.
    """
    with transaction.atomic():
        save()
        let_go(claim)
        wanted = _running(claim).filter(cancel_requested=False)
        if not wanted.update(status=Run.Status.WAITING, worker="", attempts=0):
            raise CancelledMeanwhile


def need_owner(claim: Claim) -> None:
    """Leave the run to whoever takes it over: whom it acts for may no longer.

    Raises Fenced, and CancelledMeanwhile.
    """

    def revoke() -> None:
        grants.revoke(
            Q(pk=claim.run.grant_id),
            workspace_id=claim.run.workspace_id,
            why="no longer permitted",
            via="worker",
        )

    suspend(claim, revoke)


def pause(claim: Claim, failure: Failure, *, wait: timedelta) -> None:
    """Let the run go for a while, for a reason that people read: it goes on by itself.

    It is ready, but not to be taken before `wait` is over, and has the reason until it
    is taken again. This counts as no attempt. Raises Fenced, and CancelledMeanwhile.
    """
    with transaction.atomic():
        let_go(claim)
        wanted = _running(claim).filter(cancel_requested=False)
        if not wanted.update(
            status=Run.Status.READY,
            worker="",
            attempts=Greatest(F("attempts") - 1, 0),
            rings=0,
            rung_at=None,
            wake_at=ClockTimestamp() + wait,
            error_class=failure.error_class,
            error=_sealed(claim.run, failure),
        ):
            raise CancelledMeanwhile


def _sealed(run: Run, failure: Failure) -> bytes | None:
    """The reason; None where what is away is the keys: the error's class says so."""
    try:
        return seal(run, "error", captured(clean(failure.reason)[0]))
    except KeysUnavailable:
        return None


def succeed(claim: Claim, save: Also) -> None:
    """The agent has answered. Messages that came in meanwhile start the next run."""
    with transaction.atomic():
        # The step's commit, or this, locks the branch: `send_message` waits here, and
        # then finds the run over.
        save()
        let_go(claim)
        _end(claim, Run.Status.SUCCEEDED, finished_at=ClockTimestamp())
        if claim.run.asks_id is not None:
            supersede_calls(claim.run.pk)  # it asked for the answer alone
        answer_rest(claim.run)


def fail(
    claim: Claim,
    failure: Failure,
    save: Callable[[], Writer],
    *,
    answer_next: bool = False,
) -> None:
    """Stop for a reason that people read; `save` commits the step that tells it.

    `answer_next`: a message that came in meanwhile is answered, as one that comes now
    would be. Only where the run had got as far as taking messages in: each is given
    one run, not one after the other for ever.
    """
    with transaction.atomic():
        step = save().step
        let_go(claim)
        _end(
            claim,
            Run.Status.FAILED,
            finished_at=ClockTimestamp(),
            error_class=failure.error_class,
            error=seal(claim.run, "error", captured(clean(failure.reason)[0])),
            failed_step=step,
        )
        if answer_next:
            answer_rest(claim.run)


def fail_plainly(
    claim: Claim, writer: Writer, failure: Failure, *, answer_next: bool = False
) -> None:
    """As `fail`, with a step of its own, or with none where none can be written.

    Raises Fenced. A run whose keys are gone must still come to an end.
    """
    try:
        fail(
            claim,
            failure,
            lambda: commit(writer, error_step(claim, failure)),
            answer_next=answer_next,
        )
    except Fenced:
        raise
    except CheckpointsError:
        with transaction.atomic():
            let_go(claim)
            _end(
                claim,
                Run.Status.FAILED,
                finished_at=ClockTimestamp(),
                error_class=failure.error_class,
                failed_step=writer.step,
            )


def cancel(claim: Claim, writer: Writer) -> None:
    """Stop because someone asked for it. What was not begun will not be.

    Where a message asked for it, the next run begins with that message.
    """
    with transaction.atomic():
        # A message locks the branch, too: it is here by now, or finds the run over.
        lock(claim.branch.pk)
        interrupted = _running(claim).filter(interrupted=True).exists()
        failure = Failure("interrupted", INTERRUPTED) if interrupted else CANCELLED
        commit(writer, error_step(claim, failure))
        let_go(claim)
        _end(
            claim,
            Run.Status.CANCELLED,
            finished_at=ClockTimestamp(),
            error_class=failure.error_class,
        )
        supersede_calls(claim.run.pk)
        if interrupted:
            answer_rest(claim.run, taken_in=True)


def error_step(claim: Claim, failure: Failure) -> NewStep:
    return NewStep(
        kind=Checkpoint.Kind.ERROR,
        ops=(),
        label=first_words(captured(failure.reason)),
        meta=StepMeta(
            status=Checkpoint.Status.FAILED,
            run=claim.run.pk,
            agent_version=claim.run.agent_version_id,
            error_class=failure.error_class,
        ),
    )


def _end(claim: Claim, status: Run.Status, **values: Any) -> None:
    """`running → status`. Whoever holds the branch holds the run."""
    if not _running(claim).update(status=status, worker="", attempts=0, **values):
        raise Fenced("The run is not running any more.")
    if claim.run.parent_id is not None:
        wake(claim.run.parent_id)  # locks go from a child to its parent
        failpoint("after wake")


def _running(claim: Claim) -> RunQuerySet:
    return Run.objects.for_run(claim.principal).filter(
        pk=claim.run.pk, status=Run.Status.RUNNING
    )
