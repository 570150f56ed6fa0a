"""A worker at work on one run: hydrate once, then a step, a commit, a step, a commit.

Whenever the branch turns out to be someone else's, this one stops without a word: what
it had not committed did not happen.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

from django.db import InterfaceError, OperationalError

from agents.llm import OpenAIModel
from agents.models import Run
from agents.pure.calls import Call
from agents.pure.context import AsSent, window_of
from agents.pure.engine import advance, ask_once
from agents.pure.step import Continue, Failure, Finished, Interrupted, Step
from agents.queue import ring
from agents.runs import finish, incoming, limits, outcomes
from agents.runs.aside import GivenUp
from agents.runs.at_exit import AtExit
from agents.runs.claim import Claim, Held, claim, give_back
from agents.runs.effects import Effects
from agents.runs.execute import CallBroke, CallInDoubt
from agents.runs.heartbeat import Heartbeat
from agents.runs.ledger import Ledger
from agents.runs.migrate import migration
from agents.runs.own import Advance
from agents.runs.patience import Patience, Watched
from agents.runs.priced import Priced
from agents.runs.progress import Progress
from agents.runs.recall import Recalled
from agents.runs.resume import resumption
from agents.runs.version import go_on_as_here
from checkpoints import gate, stores
from checkpoints.blobs import Contents
from checkpoints.errors import KeysUnavailable, StoreUnavailable
from checkpoints.failpoints import failpoint
from checkpoints.keys.hierarchy import thread_keys
from checkpoints.log import hydrate
from checkpoints.log.append import Writer
from checkpoints.models import Checkpoint, Thread

Stopping = Callable[[], bool]

FULL = timedelta(hours=1)  # until a run of a thread that is full looks again
IN_PROCESS = "in-process"  # the worker's name where nobody gives one: seed, tests


def work(
    run_id: UUID,
    *,
    worker: str = IN_PROCESS,
    queue: str = "",
    stopping: Stopping = lambda: False,
) -> None:
    """Take the run as far as it goes: until it waits, is over, or is another's.

    One of a higher priority goes first; then this one's ring goes to the end of the
    queue, where others hear it. `queue`: the worker's, whose runs alone it takes.

    A run that is not to be had (a ring that came twice) is left alone. `stopping` is
    asked between steps; when it says so, the run goes back to be taken by others.
    """
    held = claim(run_id, worker, queue=queue)
    if held is None:
        return
    if held.run.pk != run_id:
        ring(run_id, fence=0, n=secrets.token_hex(4), on=held.run.queue)
    failpoint("after claim")
    progress = AtExit(held) if held.agent.checkpoint == "exit" else Progress(held)
    progress.tell("took a run")
    with outcomes.met(held, progress), Heartbeat(held) as heart, progress.settled():
        Runner(held, progress, stopping).go(heart)


class Runner:
    """One claim, worked off."""

    def __init__(self, held: Claim, progress: Progress, stopping: Stopping) -> None:
        self._claim = held
        self._progress = progress
        self._stopping = stopping
        self._as_whole = AsSent()
        # Whether it sends one request again, to the state as that was, and no more.
        self._asks = held.run.asks_id is not None

    def go(self, heart: Heartbeat) -> None:
        """Raises Fenced, and what keeps the run from going on: CheckpointsError."""
        held = self._claim
        if held.exhausted:
            self._fail(
                Failure(
                    "too_many_attempts",
                    "Workers took this run several times and each stopped before the "
                    "next step was stored.",
                )
            )
            return
        if held.run.cancel_requested:  # and its worker died: nothing more is taken in
            finish.cancel(held, self._progress.writer)
            return
        if held.run.error_class:  # it paused
            if held.run.error_class in outcomes.PAUSED:
                stores.configured().check()  # before anything is asked or done anew
            self._goes_on()
        go_on_as_here(held)
        self._hydrate(heart)
        if self._is_full():
            return
        if not self._asks:
            self._migrate()
            self._take_in()
            self._resume()
        while not heart.lost:
            if heart.cancel_requested or self._progress.told.cancel_requested:
                self._progress.flush()
                finish.cancel(held, self._progress.writer)
                return
            if heart.held or self._stopping():
                self._progress.flush()
                give_back(held, blameless=True)
                return
            if failure := limits.reached(held, self._progress):
                self._progress.flush()
                outcomes.fail(held, self._progress, failure, answer_next=True)
                return
            if self._is_full() or self._step_or_settle():
                return

    def _is_full(self) -> bool:
        """Whether the thread has all the steps that its policy allows: the run pauses.

        Of the steps, those of other branches count as when this claim began.
        """
        steps = self._others + self._progress.step + 1
        if self._most is None or steps < self._most:
            return False
        failure = Failure(
            "thread_full",
            f"The thread has {steps} steps, and its policy allows {self._most}. Nothing"
            " was dropped. An admin can allow more (the Retention page), or go on in a"
            " new thread.",
        )
        self._progress.flush()
        outcomes.pause(self._claim, self._progress, failure, wait=FULL)
        return True

    def _goes_on(self) -> None:
        held = self._claim
        Run.objects.for_run(held.principal).filter(pk=held.run.pk).update(
            error_class="", error=None
        )

    def _hydrate(self, heart: Heartbeat) -> None:
        """Open the branch, under the run's grant."""
        held = self._claim
        thread = Thread(pk=held.run.thread_id, workspace_id=held.run.workspace_id)
        self._opener = gate.admit(held.principal, purpose="run", threads=[thread])
        self._progress.told = self._progress.told._replace(granted=True)
        self._most = held.most_steps
        self._others = 0
        if self._most is not None:
            steps = Checkpoint.objects.for_run(held.principal).count()
            self._others = steps - 1 - self._progress.step
        thread_keys(thread.pk)  # which the next two both need
        opened = hydrate.open_at(self._opener, held.branch, asked=True)
        checkpoints = opened.checkpoints()
        known = set().union(*checkpoints.values())
        own = checkpoints.get(held.branch.pk, set())
        self._ledger = Ledger(held, known=known)
        self._progress.begin(opened.state, known=known - own, ledger=self._ledger)
        contents = Contents(self._opener, held.run.thread_id)
        patience = Patience(heart, self._progress, self._stopping)
        self._effects = Effects(
            held, self._opener, self._ledger, contents, heart, patience
        )
        model = Watched(OpenAIModel(), patience, heart, self._progress)
        self._model = Recalled(Priced(model), contents)
        self._own = (
            None
            if held.agent.advance is None
            else Advance(held.agent, contents.restore, heart)
        )

    def _migrate(self) -> None:
        """Bring old state up to date, as a step that keeps what that changed.

        Raises FutureSchema, MissingMigration and MigrationFailed.
        """
        step = migration(self._progress.state, self._claim.agent)
        if step is None:
            return
        self._progress.store(step, schema_version=self._claim.agent.schema_version)
        failpoint("after migrate")

    def _resume(self) -> None:
        """After a long rest, under another version, or where a person asked for it."""
        held = self._claim
        step = resumption(held.run, held.agent, held.rest, self._progress.state)
        if step is not None:
            self._progress.store(step)
            failpoint("after resume")

    def _step_or_settle(self) -> bool:
        """`_step`; where the connection broke while the step before was on its way, that
        one is seen through, and this one begun anew: nothing was done that has effects.
        """
        try:
            return self._step()
        except (OperationalError, InterfaceError):
            if not self._progress.is_on_its_way:
                raise
            self._progress.settle()
            return False

    def _step(self) -> bool:
        """One step of the engine, committed. True: this claim is over."""
        progress = self._progress
        open_calls = progress.open_calls
        if not (
            progress.told.granted and all(map(self._effects.touches_none, open_calls))
        ):
            progress.settle()
        if not progress.told.granted:
            self._opener.require_right()
        if self._asks:
            pass  # what came in is for the run after it, as are calls
        elif open_calls:
            self._ledger.propose(open_calls)
        elif progress.told.messages:
            self._take_in()
            open_calls = progress.open_calls
        self._effects.state = progress.state
        failpoint("before step")
        try:
            outcome = self._advance(open_calls)
        except CallBroke as broke:
            self._fail(Failure(broke.code, str(broke)))
            return True
        except Held:
            give_back(self._claim, blameless=True)
            return True
        except GivenUp:
            return False  # somebody wants something else of the run
        except CallInDoubt:
            return (
                False  # considered anew: its tool is asked what came of it, or people
            )
        match outcome:
            case Continue(step):
                with self._keeping(step):
                    progress.send(step)
                failpoint("after commit")
                return False
            case Interrupted(step, calls):
                self._suspend(step, calls)
            case Finished(step, failure):
                self._finish(step, failure)
        return True

    def _advance(self, open_calls: list[Call]) -> Continue | Interrupted | Finished:
        state = self._progress.state
        if self._asks:
            return ask_once(state, self._model, self._effects)
        return advance(
            state,
            self._model,
            self._effects,
            keys=self._progress.keys,
            waiting=open_calls,
            as_whole=self._as_whole,
            window=window_of(state, self._claim.agent.window, str(self._claim.run.pk)),
            own=self._own,
        )

    def _take_in(self) -> None:
        """Messages and decisions that came in, each a step, in the order they came."""
        held = self._claim
        arrived = [
            *(
                incoming.messages(held, self._opener)
                if self._progress.told.messages
                else ()
            ),
            *incoming.decisions(held, self._opener, self._progress.open_calls),
        ]
        for arrival in sorted(arrived, key=lambda arrival: arrival.at):
            self._progress.store(
                arrival.step,
                actor_id=arrival.actor_id,
                call=arrival.call,
                also=arrival.record,
            )
            self._progress.was_decided |= arrival.step.kind == "decision"
            failpoint(f"after {arrival.step.kind}")
        if arrived:
            self._ledger.reload()

    def _suspend(self, step: Step | None, calls: tuple[Call, ...]) -> None:
        held = self._claim

        def save() -> None:
            if step is not None:
                self._progress.commit(step)
                failpoint("before ask")
                self._effects.ask(calls)
                failpoint("after ask")

        try:
            self._progress.see_through(step, lambda: finish.suspend(held, save))
        except finish.CancelledMeanwhile:
            finish.cancel(held, self._progress.writer)

    def _finish(self, step: Step | None, failure: Failure | None) -> None:
        failpoint("before end")

        def save() -> Writer:
            progress = self._progress
            return progress.writer if step is None else progress.commit(step)

        def end() -> None:
            if failure is None:
                finish.succeed(self._claim, save)
            else:
                finish.fail(self._claim, failure, save, answer_next=True)

        with self._keeping(step):
            self._progress.see_through(step, end)

    @contextmanager
    def _keeping(self, step: Step | None) -> Iterator[None]:
        """Store the step inside: where that cannot be, what came of its call is kept."""
        try:
            yield
        except (StoreUnavailable, KeysUnavailable):
            if step is not None and step.call is not None:
                self._effects.keep(step.call)
            raise

    def _fail(self, failure: Failure) -> None:
        outcomes.fail(self._claim, self._progress, failure)
