"""How far a claim has got: the branch's head, its state, and the steps of the run.

The state is kept in memory between steps by folding what was committed. While PostgreSQL
puts a step on disk, the runner may go on from it with what harms nobody if it turns out
not to be there: asking the model, a tool that touches nothing (decision 18).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple, TypeVar
from uuid import UUID

from django.db import InterfaceError, OperationalError, transaction

from agents.models import ToolCall
from agents.pure.calls import Call, keys_on, unanswered
from agents.pure.step import Step
from agents.runs.beside import UNTOLD, CallAs, Told, beside, beside_waiting, told
from agents.runs.claim import Claim
from agents.runs.doubt import see_through
from agents.runs.ledger import Ledger
from agents.runs.stored import calls_in, checkpoint_of, counts, without_secrets
from agents.runs.used import Used
from checkpoints.about import now_at
from checkpoints.failpoints import failpoint
from checkpoints.log.append import (
    Beside,
    Sent,
    Writer,
    commit,
    committed,
    prepare,
    writer,
)
from checkpoints.models import Checkpoint
from checkpoints.pure.codec import State
from checkpoints.pure.ops import Op, fold

logger = logging.getLogger(__name__)

# Steps, what was used, and until when work is counted: time.monotonic().
Counted = tuple[int, Used, float]

S = TypeVar("S")

# Seconds: what was told longer ago than this is not gone by. A step is then waited for
# before the next is begun, and takes in who spoke or cancelled while it lasted.
FRESH = 0.05


class _OnItsWay(NamedTuple):
    """A step that was sent, and from where."""

    before: Writer
    step: Step
    stored: Sequence[Op]  # its operations, as they are stored
    sent: Sent
    at: float  # time.monotonic(): what its answer tells was so since then


class Progress:
    """Writes steps of one claim, and knows what is committed."""

    def __init__(self, held: Claim) -> None:
        self._writer: Writer = writer(
            held.branch, lease=held.lease, schema_version=held.schema_version
        )
        self._on_its_way: _OnItsWay | None = None
        self._told_at = -math.inf  # time.monotonic()
        self.steps = held.run.steps
        self.used = Used.by(held.run)
        self._state: State = {}
        self._open: list[Call] | None = None  # its unanswered calls, once looked for
        self.was_decided = False  # since this claim began: people's decisions came
        self._claim = held
        self._since = time.monotonic()  # of what is not yet counted as work
        self.told = Told(
            cancel_requested=held.run.cancel_requested,
            messages=held.messages,
            granted=False,
        )
        self._sent = self._writer  # as it is once the last step that was sent is there
        # That step's operations as they are stored, and what comes of them.
        self._stored: Sequence[Op] = ()
        self._next: State = {}
        self._next_open: list[Call] | None = None

    def begin(self, state: State, *, known: set[UUID], ledger: Ledger) -> None:
        """From the branch as it was opened; `known` are the checkpoints behind it
        that another branch wrote."""
        self.keys = keys_on(self._claim.branch.pk, known)
        self._set(state)
        self._claim.seen.add(self._writer.head, state)
        self._ledger = ledger

    @property
    def writer(self) -> Writer:
        """For the next step. Waits for the last one: raises as `settle`."""
        self.settle()
        return self._writer

    @property
    def is_on_its_way(self) -> bool:
        """Whether a step was sent, and nobody has listened yet to what came of it."""
        return self._on_its_way is not None

    @property
    def step(self) -> int:
        """The last one's number, though it may be on its way."""
        return self._writer.step + (self._on_its_way is not None)

    @property
    def state(self) -> State:
        return self._state

    @property
    def open_calls(self) -> list[Call]:
        """Found once for each state: it takes a look at the whole transcript."""
        if self._open is None:
            self._open = unanswered(self._state, self.keys)
        return self._open

    def _set(self, state: State, open_calls: list[Call] | None = None) -> None:
        self._state, self._open = state, open_calls

    def store(
        self,
        step: Step,
        *,
        actor_id: int | None = None,
        schema_version: int | None = None,
        call: CallAs | None = None,
        also: Callable[[], object] | None = None,
    ) -> None:
        """Commit the step, with the rows that `also` writes, and move to it.

        `call`: what it says of one, where the step itself does not. Raises as `commit`,
        and what PostgreSQL's absence raises, after a while.
        """

        def act() -> None:
            with transaction.atomic() if also else nullcontext():  # one statement
                self.commit(
                    step, actor_id=actor_id, schema_version=schema_version, call=call
                )
                if also is not None:
                    also()

        self.see_through(step, act)

    def send(self, step: Step) -> None:
        """Move to the step while it is being stored; `settle` says whether it is.

        It is made while the one before it is being stored, and sent once that is there.
        As `store` where others were not listened to for a while. Raises as that does;
        for what it does not wait for, the next `settle` does.
        """
        if calls_in(step) > 1 or not self._is_fresh():
            self.store(step)
            return
        try:
            sent, new = self._begin(step, prepare)
        except (OperationalError, InterfaceError):
            sent, new = None, []  # `store` waits until PostgreSQL is back
        self.settle()
        is_late = not self._is_fresh()  # the one before it took long
        if sent is None or not self._go(sent, step):  # nothing was sent
            self.store(step)
            return
        self._ledger.stored(new)
        self._go_on()
        if is_late:
            self.settle()

    def _is_fresh(self) -> bool:
        """Whether what is told, or is on its way, was so a moment ago."""
        last = self._on_its_way
        at = self._told_at if last is None else last.at
        return time.monotonic() - at <= FRESH

    def _go(self, sent: Sent, step: Step) -> bool:
        """Have PostgreSQL store it. False: PostgreSQL cannot be told."""
        now = time.monotonic()
        try:
            sent.go()
        except (OperationalError, InterfaceError):
            return False
        self._on_its_way = _OnItsWay(self._writer, step, self._stored, sent, now)
        return True

    def settle(self) -> None:
        """Wait until the step that was sent is stored, if one was.

        Raises Fenced, and what PostgreSQL's absence raises, after a while.
        """
        if (last := self._on_its_way) is None:
            return
        self._on_its_way = None

        def arrived() -> None:
            self._sent = last.sent.arrived()

        def happened() -> bool:
            if committed(last.before, last.step.id):
                self._sent = self._found(last.before, last.step, last.stored)
                return True
            return False

        see_through(arrived, happened=happened, patience=self._claim.lease)
        self._arrive(last.at)

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Whatever ends the work inside: the step that was sent is stored first.

        What came of its call is known to this process alone. Raises as `settle`.
        """
        try:
            yield
        finally:
            self.settle()

    def see_through(self, step: Step | None, act: Callable[[], object]) -> None:
        """Do `act`, a transaction that commits the step if there is one, and move to it.

        A commit whose answer was lost is looked for, and sent again where it is not
        there (doubt.py).
        """
        before = self.writer
        if step is None:
            act()
            return

        def happened() -> bool:
            if committed(before, step.id):
                self._sent = self._found(before, step, self._stored)
                return True
            self._ledger.take_back(step.id)
            return False

        see_through(act, happened=happened, patience=self._claim.lease)
        self._move()

    def commit(
        self,
        step: Step,
        *,
        actor_id: int | None = None,
        schema_version: int | None = None,
        call: CallAs | None = None,
    ) -> Writer:
        """Write the step and what belongs to it, in the open transaction or one of its own.

        Raises Fenced, StoreUnavailable and KeysUnavailable.
        """
        # Rows of several calls take a statement of their own, which goes with the step.
        with transaction.atomic() if calls_in(step) > 1 else nullcontext():
            after, new = self._begin(
                step,
                commit,
                actor_id=actor_id,
                schema_version=schema_version,
                call=call,
            )
            if len(new) > 1:
                self._ledger.store(new)
            else:
                self._ledger.stored(new)
        self._sent = after
        return after

    def _begin(
        self,
        step: Step,
        act: Callable[..., S],
        *,
        actor_id: int | None = None,
        schema_version: int | None = None,
        call: CallAs | None = None,
    ) -> tuple[S, list[ToolCall]]:
        """Have `act` append the step with all that goes into its statement: what it gives,
        and the rows of the calls that the step proposes. One is in the statement."""
        step = without_secrets(step)
        failpoint("before commit")
        new: list[ToolCall] = []
        self._counted = self._count(step, time.monotonic())
        used = self._counted[1]
        calls = calls_in(step)

        def with_it(stored: Sequence[Op]) -> Beside:
            self._stored, self._next = stored, fold(self._state, stored)
            self._next_open = None
            self._claim.seen.add(step.id, self._next)
            run = self._claim.run
            if not counts(step):
                return beside_waiting(run, used)
            if call is not None:
                return beside(run, used, call)
            if step.call is not None:
                result = stored[-1][2]["content"]
                settled = self._ledger.settle(step.call, step, result)
                why = self._ledger.why(settled)
                return beside(run, used, CallAs(settled=settled, why=why))
            if calls:
                self._next_open = unanswered(self._next, self.keys)
                new[:] = self._ledger.rows(self._next_open, reply=step.id)
            return beside(run, used, CallAs(proposed=new[0] if len(new) == 1 else None))

        checkpoint = checkpoint_of(
            step, self._claim.run, actor_id=actor_id, schema_version=schema_version
        )
        last = self._on_its_way
        at = self._writer if last is None else last.sent.after
        return act(at, checkpoint, beside=with_it), new

    def flush(self) -> None:
        """Store what is only kept in memory: what is on its way (and at_exit.py)."""
        self.settle()

    def _count(self, step: Step, now: float) -> Counted:
        used = self.used.and_(step, timedelta(seconds=now - self._since))
        return self.steps + counts(step), used, now

    def _found(self, before: Writer, step: Step, stored: Sequence[Op]) -> Writer:
        """Where the step leads that got through although its answer was lost."""
        there = Checkpoint.objects.for_run(self._claim.principal).get(pk=step.id)
        return replace(
            before,
            head=step.id,
            step=before.step + 1,
            mac=bytes(there.state_mac),
            schema_version=there.schema_version,
            stored=stored,
            told=UNTOLD,
        )

    def tell(self, event: str) -> None:
        """For whoever turns these lines on: the run, and its branch as it stands."""
        if not logger.isEnabledFor(logging.DEBUG):
            return
        at = self._writer
        ids = {
            "run": self._claim.run.pk,
            "branch": at.branch_id,
            "fence": at.fence,
            "step": at.step,
            "checkpoint": at.head,
        }
        logger.debug(event, extra={"ids": ids})

    def _move(self) -> None:
        """What was committed is what is known now."""
        self._go_on()
        self._arrive(time.monotonic())

    def _go_on(self) -> None:
        """From what was sent."""
        self._set(self._next, self._next_open)
        self.steps, self.used, self._since = self._counted

    def _arrive(self, told_at: float) -> None:
        """What was sent is stored, and its answer known."""
        self._writer = self._sent
        self.told = told(self._writer.told)
        self._told_at = told_at
        now_at(step=self._writer.step + 1)  # for the log's lines
        self.tell("stored a step")
