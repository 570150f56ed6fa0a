"""A worker at work on one run: hydrate once, then a step, a commit, a step, a commit.

The state is kept in memory between steps by folding what was committed. Whenever the
branch turns out to be someone else's, this one stops without a word: what it had not
committed did not happen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import (
    DatabaseError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)
from django.db.models import F, Value
from django.db.models.functions import Coalesce

from agents.llm import OpenAIModel
from agents.models import Run
from agents.pure import engine
from agents.pure.engine import (
    Call,
    Continue,
    Failure,
    Finished,
    Interrupted,
    ReplyMeta,
    Step,
    advance,
    unanswered,
)
from agents.runs import finish, incoming
from agents.runs.claim import Claim, claim, give_back
from agents.runs.effects import Effects
from agents.runs.execute import CallBroke
from agents.runs.heartbeat import Heartbeat
from agents.runs.ledger import Ledger
from agents.runs.migrate import migration
from agents.runs.recall import Recalled
from checkpoints import gate, stores
from checkpoints.blobs import Contents
from checkpoints.errors import (
    CheckpointsError,
    Fenced,
    KeysUnavailable,
    NotPermitted,
    StoreUnavailable,
)
from checkpoints.failpoints import failpoint
from checkpoints.log import hydrate, retention
from checkpoints.log.append import NewStep, StepMeta, Writer, commit, writer
from checkpoints.models import Checkpoint
from checkpoints.pure.ops import fold

logger = logging.getLogger(__name__)

Stopping = Callable[[], bool]

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
FULL = timedelta(hours=1)  # until a run of a thread that is full looks again
PAUSE = timedelta(seconds=30)  # until a run that pauses tries again by itself
IN_PROCESS = "in-process"  # the worker's name where nobody gives one: seed, tests


def work(
    run_id: UUID, *, worker: str = IN_PROCESS, stopping: Stopping = lambda: False
) -> None:
    """Take the run as far as it goes: until it waits, is over, or is another's.

    A run that is not to be had (a ring that came twice) is left alone. `stopping` is
    asked between steps; when it says so, the run goes back to be taken by others.
    """
    held = claim(run_id, worker)
    if held is None:
        return
    ids = {"ids": {"run": held.run.pk, "fence": held.branch.fence}}
    failpoint("after claim")
    runner = Runner(held, stopping)
    runner.tell("took a run")
    try:
        with Heartbeat(held) as heart:
            runner.go(heart)
    except Fenced:
        logger.info("a run was taken by another holder", extra=ids)
    except (StoreUnavailable, KeysUnavailable) as error:
        logger.warning("a run waits for what is away: %s", error, extra=ids)
        with suppress(Fenced):
            runner.pause(error)
    except NotPermitted as error:
        logger.warning("a run needs an owner: %s", error, extra=ids)
        with suppress(Fenced):
            runner.need_owner()
    except CheckpointsError as error:
        # State that does not open, a value that cannot be stored.
        logger.exception("a run cannot go on", extra=ids)
        with suppress(Fenced):
            runner.fail(Failure(error.code, str(error)))
    except (OperationalError, InterfaceError) as error:
        # A commit may be in doubt. Whoever takes the run next reads the head.
        logger.warning("PostgreSQL went away (%s)", type(error).__name__, extra=ids)
        _return_after_outage(held)
    except Exception:
        # The process edge: whatever it is, people see that the run failed.
        logger.exception("a run failed for a reason of ours", extra=ids)
        with suppress(Fenced):
            runner.fail(Failure("internal_error", INTERNAL))


def _return_after_outage(held: Claim) -> None:
    connection.close()
    try:
        give_back(held, blameless=False)
    except (Fenced, DatabaseError, InterfaceError):
        connection.close()  # the lease lapses by itself


class Runner:
    """One claim, worked off."""

    def __init__(self, held: Claim, stopping: Stopping) -> None:
        self._claim = held
        self._stopping = stopping
        self._writer: Writer = writer(held.branch, lease=held.lease)
        self._steps = held.run.steps
        self._unstored: Step | None = None  # while it is being stored

    def go(self, heart: Heartbeat) -> None:
        """Raises Fenced, and what keeps the run from going on: CheckpointsError."""
        held = self._claim
        if held.exhausted:
            self.fail(
                Failure(
                    "too_many_attempts",
                    "Workers took this run several times and each stopped before the "
                    "next step was stored.",
                )
            )
            return
        if held.run.error_class:  # it paused
            if held.run.error_class in PAUSED:
                stores.configured().check()  # before anything is asked or done anew
            self._goes_on()
        self._hydrate()
        if self._is_full():
            return
        self._migrate()
        self._take_in()
        while not heart.lost:
            if heart.cancel_requested:
                finish.cancel(held, self._writer)
                return
            if self._stopping():
                give_back(held, blameless=True)
                return
            if self._steps >= settings.MAX_STEPS:
                self.fail(
                    Failure(
                        "too_many_steps",
                        f"The run reached its limit of {settings.MAX_STEPS} steps.",
                    )
                )
                return
            if self._is_full() or self._step():
                return

    def tell(self, event: str) -> None:
        """For whoever turns these lines on: the run, and its branch as it stands."""
        at = self._writer
        ids = {
            "run": self._claim.run.pk,
            "branch": at.branch_id,
            "fence": at.fence,
            "step": at.step,
            "checkpoint": at.head,
        }
        logger.debug(event, extra={"ids": ids})

    def need_owner(self) -> None:
        try:
            finish.need_owner(self._claim)
        except finish.CancelledMeanwhile:
            finish.cancel(self._claim, self._writer)

    def fail(self, failure: Failure) -> None:
        finish.fail_plainly(self._claim, self._writer, failure)

    def pause(self, error: StoreUnavailable | KeysUnavailable) -> None:
        """Leave the run until the store is back; what was done is not done again.

        Raises Fenced.
        """
        held, step = self._claim, self._unstored
        if step is not None and step.call is not None:
            self._effects.keep(step.call)
        try:
            failure = Failure(error.code, PAUSED[error.code])
            finish.pause(held, failure, wait=PAUSE)
        except finish.CancelledMeanwhile:
            finish.cancel(held, self._writer)

    def _is_full(self) -> bool:
        """Whether the thread has all the steps that its policy allows: the run pauses.

        Of the steps, those of other branches count as when this claim began.
        """
        if self._most is None or self._others + self._writer.step + 1 < self._most:
            return False
        failure = Failure(
            "thread_full",
            f"The thread has {self._others + self._writer.step + 1} steps, and its policy"
            f" allows {self._most}. Nothing was dropped. An admin can allow more (the"
            " Retention page), or go on in a new thread.",
        )
        try:
            finish.pause(self._claim, failure, wait=FULL)
        except finish.CancelledMeanwhile:
            finish.cancel(self._claim, self._writer)
        return True

    def _goes_on(self) -> None:
        held = self._claim
        Run.objects.for_run(held.principal).filter(pk=held.run.pk).update(
            error_class="", error=None
        )

    def _hydrate(self) -> None:
        """Open the branch, under the run's grant."""
        held = self._claim
        self._opener = gate.admit(
            held.principal, purpose="run", threads=[held.run.thread]
        )
        self._most = retention.most_steps(held.run.workspace_id, held.agent.name)
        self._others = 0
        if self._most is not None:
            steps = Checkpoint.objects.for_run(held.principal).count()
            self._others = steps - 1 - self._writer.step
        opened = hydrate.open_at(self._opener, held.branch)
        self._state = opened.state
        checkpoints = opened.checkpoints()
        known = set().union(*checkpoints.values())
        own = checkpoints.get(held.branch.pk, set())
        self._keys = engine.keys_on(held.branch.pk, known - own)
        self._ledger = Ledger(held, known=known)
        contents = Contents(self._opener, held.run.thread_id)
        self._effects = Effects(held, self._opener, self._ledger, contents)
        self._model = Recalled(OpenAIModel(), contents)

    def _migrate(self) -> None:
        """Bring old state up to date, as a step that keeps what that changed.

        Raises FutureSchema, MissingMigration and MigrationFailed.
        """
        step = migration(self._state, self._claim.agent)
        if step is None:
            return
        with transaction.atomic():
            after = self._commit(step, schema_version=self._claim.agent.schema_version)
        self._move(after)
        failpoint("after migrate")

    def _step(self) -> bool:
        """One step of the engine, committed. True: this claim is over."""
        self._opener.require_right()
        open_calls = unanswered(self._state, self._keys)
        if open_calls:
            self._ledger.propose(open_calls)
        else:
            self._take_in()
        self._effects.state = self._state
        failpoint("before step")
        try:
            outcome = advance(self._state, self._model, self._effects, keys=self._keys)
        except CallBroke as broke:
            self.fail(Failure(broke.code, str(broke)))
            return True
        match outcome:
            case Continue(step):
                with transaction.atomic():
                    after = self._commit(step)
                self._move(after)
                failpoint("after commit")
                return False
            case Interrupted(step, calls):
                self._suspend(step, calls)
            case Finished(step, failure):
                self._finish(step, failure)
        return True

    def _take_in(self) -> None:
        """Messages and decisions that came in, each a step, in the order they came."""
        held = self._claim
        calls = unanswered(self._state, self._keys)
        arrived = [
            *incoming.messages(held, self._opener),
            *incoming.decisions(held, self._opener, calls),
        ]
        for arrival in sorted(arrived, key=lambda arrival: arrival.at):
            with transaction.atomic():
                after = self._commit(arrival.step, actor_id=arrival.actor_id)
                arrival.record()
            self._move(after)
            failpoint(f"after {arrival.step.kind}")
        if arrived:
            self._ledger.reload()

    def _suspend(self, step: Step | None, calls: tuple[Call, ...]) -> None:
        held = self._claim

        def save() -> None:
            if step is not None:
                self._commit(step)
                failpoint("before ask")
                self._effects.ask(calls)
                failpoint("after ask")

        try:
            finish.suspend(held, save)
        except finish.CancelledMeanwhile:
            finish.cancel(held, self._writer)

    def _finish(self, step: Step | None, failure: Failure | None) -> None:
        failpoint("before end")

        def save() -> Writer:
            return self._writer if step is None else self._commit(step)

        if failure is None:
            finish.succeed(self._claim, save)
        else:
            finish.fail(self._claim, failure, save, answer_next=True)

    def _commit(
        self,
        step: Step,
        *,
        actor_id: int | None = None,
        schema_version: int | None = None,
    ) -> Writer:
        """Write the step and what belongs to it, in the open transaction."""
        held, meta = self._claim, step.meta
        self._unstored = step
        after = commit(
            self._writer,
            NewStep(
                id=step.id,
                kind=step.kind,
                ops=step.ops,
                label=step.label,
                context=step.context,
                schema_version=schema_version,
                meta=StepMeta(
                    status=step.status,
                    name=step.name,
                    run=held.run.pk,
                    actor_id=actor_id,
                    agent_version=held.run.agent_version_id,
                    error_class=step.error_class,
                    **{column: getattr(meta, column) for column in _REPLY_COLUMNS},
                ),
            ),
        )
        self._unstored = None
        if step.call is not None:
            self._ledger.settle(step.call, replace(step, ops=tuple(after.stored)))
        else:
            self._ledger.propose(
                unanswered(fold(self._state, after.stored), self._keys), reply=step.id
            )
        self._count(step)
        failpoint("before commit")
        return after

    def _count(self, step: Step) -> None:
        """Progress: what the run has used, and that its attempts count anew."""
        meta = step.meta
        tokens = (meta.tokens_in or 0) + (meta.tokens_out or 0)
        values: dict[str, Any] = {
            "steps": F("steps") + 1,
            "attempts": 0,
            "tokens": F("tokens") + tokens,
        }
        if meta.cost is not None:
            values["cost"] = Coalesce(F("cost"), Value(Decimal(0))) + meta.cost
        Run.objects.for_run(self._claim.principal).filter(pk=self._claim.run.pk).update(
            **values
        )

    def _move(self, after: Writer) -> None:
        """What was committed is what is known now."""
        self._writer = after
        self._state = fold(self._state, after.stored)
        self._steps += 1
        self.tell("stored a step")


_REPLY_COLUMNS = tuple(column.name for column in fields(ReplyMeta))
