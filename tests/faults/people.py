"""People in the middle of it: they start runs, decide, write, fork and change their mind.

All go in by the front door. What a service has accepted is kept in `memory`, so that
the judge can ask for it; what it refuses with a reason (somebody was faster) is fine.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import connections
from django.db.models import Q

from agents import queue
from agents.approvals import decide
from agents.approvals.rejections import ERROR_CLASS
from agents.errors import BranchBusy, LostRace
from agents.models import Approval, Decision, Run
from agents.runs import control, start, stop
from agents.runs.edits import ForkEdits
from checkpoints import clock
from checkpoints.access import Reason, UserPrincipal, unscoped
from checkpoints.models import Branch, Checkpoint
from tests.faults.judge import Memory
from tests.workers.desk import agents as desk

PLANS = {
    "look": ("look", {"what": "{}"}),
    "book": ("book", {"item": "{}", "price": "100"}),
    "dear": ("book", {"item": "{}", "price": "1200"}),  # needs an approval
    "hold": ("hold", {"item": "{}"}),
    "ask": ("question", {"question": "{}?"}),
    "send": ("send", {"text": "{}"}),
    "deliver": ("deliver", {"text": "{}"}),  # one can ask what came of it
}
UNDER_WAY = timedelta(seconds=2)  # a request that a dead process had sent
WORDS = [*PLANS, "two", "book", "hold"]


class Script:
    """A model that does, word for word, what the last message says: "trip 7: book ask".

    It says something else each time it is asked, as models do.
    """

    def __init__(self) -> None:
        self._replies = itertools.count()

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        messages = body["messages"]
        last = max(i for i, said in enumerate(messages) if said["role"] == "user")
        name, _, plan = messages[last]["content"].partition(": ")
        n = sum(said["role"] == "assistant" for said in messages[last:])
        words = plan.split()
        text = f"reply {next(self._replies)}"
        if n >= len(words):
            return {"role": "assistant", "content": text}
        made = ["dear", "dear"] if words[n] == "two" else [words[n]]
        calls = [
            self._call(word, f"{name} {n}.{place}") for place, word in enumerate(made)
        ]
        return {"role": "assistant", "content": text, "tool_calls": calls}

    def _call(self, word: str, item: str) -> dict[str, Any]:
        tool, arguments = PLANS[word]
        texts = (f'"{key}": "{value.format(item)}"' for key, value in arguments.items())
        function = {"name": tool, "arguments": f"{{{', '.join(texts)}}}"}
        return {"id": "same-each-time", "type": "function", "function": function}


class People:
    def __init__(
        self,
        who: list[UserPrincipal],
        memory: Memory,
        dice: random.Random,
        ledger: Callable[[], list[dict[str, Any]]],
    ) -> None:
        self.holders_are_dead = True  # that did not come to an end: none is only slow
        self._ledger = ledger
        self._who = who
        self._memory = memory
        self._dice = dice
        self._names = itertools.count()

    def begin(self) -> Run:
        return start.start_run(
            agent=desk.desk.name, message=self._plan(), by=self._one()
        )

    def act(self) -> None:
        """Something that people do while runs are at work."""
        kinds = [self.write, self.fork, self.ring_again, self.stop]
        [act] = self._dice.choices(kinds, weights=[4, 3, 4, 1])
        try:
            act()
        except (BranchBusy, LostRace):
            pass  # with a reason that they read

    def decide(self) -> None:
        """Everything that waits, by two people at once."""
        unclear = Q(kind=Approval.Kind.UNKNOWN, asked_at__gt=clock.now() - UNDER_WAY)
        waiting = Approval.objects.pending().exclude(unclear).select_related("call")
        for approval in waiting[:10]:
            self._both(partial(self._decide, approval))

    def write(self) -> None:
        branch = self._any(Branch.objects.filter(runs__isnull=False))
        if branch is not None:
            said = start.send_message(branch, message=self._plan(2), by=self._one())
            self._memory.inputs.add(said.pk)

    def fork(self) -> None:
        step = self._any(Checkpoint.objects.filter(branch__fork_step__lt=8))
        if step is not None:
            start.fork_run(
                step,
                edits=ForkEdits(temperature=self._dice.random()),
                name="what if",
                by=self._one(),
            )

    def ring_again(self) -> None:
        """A message that the broker delivers again, of a run in whatever state."""
        run = self._any(Run.objects.all())
        if run is not None:
            queue.ring(run.pk, fence=0, n=1000 + next(self._names))

    def stop(self) -> None:
        run = self._any(Run.objects.filter(status__in=Run.LIVE))
        if run is not None:
            stop.cancel(run, by=self._one())

    def go_on(self) -> None:
        """Runs that wait for somebody to look at them, as people said no three times in
        a row."""
        for run in Run.objects.filter(
            status__in=Run.LIVE, paused_at__isnull=False, error_class=ERROR_CLASS
        ):
            control.resume(run, by=self._one())

    def _decide(self, approval: Approval, by: UserPrincipal) -> None:
        seen = approval.as_shown()
        try:
            if approval.kind == Approval.Kind.UNKNOWN:
                made = self._what_came_of_it(approval, by)
            elif approval.kind == Approval.Kind.QUESTION:
                made = decide.respond(approval, seen=seen, by=by, response="Yes.")
            elif self._dice.random() < 0.2:
                made = decide.reject(approval, seen=seen, by=by, reason="Too dear.")
            else:
                made = decide.approve(approval, seen=seen, by=by)
        except LostRace:
            return
        self._memory.decided.add(made.pk)

    def _what_came_of_it(self, approval: Approval, by: UserPrincipal) -> Decision:
        """The ledger knows. Where it has nothing, that may still be on its way, if whoever
        sent it is only slow."""
        seen, key = approval.as_shown(), str(approval.call_id)
        if any(effect["key"] == key for effect in self._ledger()):
            return decide.respond(approval, seen=seen, by=by, response="It happened.")
        if self.holders_are_dead:
            return decide.approve(approval, seen=seen, by=by)
        return decide.reject(approval, seen=seen, by=by, reason="I cannot tell.")

    def _both(self, act: Callable[[UserPrincipal], object]) -> None:
        failed: list[Exception] = []

        def one(by: UserPrincipal) -> None:
            try:
                with unscoped(Reason.TEST):
                    act(by)
            except Exception as error:
                failed.append(error)
            finally:
                connections.close_all()

        threads = [threading.Thread(target=one, args=[by]) for by in self._who]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]

    def _plan(self, most: int = 4) -> str:
        words = self._dice.choices(WORDS, k=self._dice.randint(1, most))
        return f"trip {next(self._names)}: {' '.join(words)}"

    def _one(self) -> UserPrincipal:
        return self._dice.choice(self._who)

    def _any(self, rows: Any) -> Any:
        count = rows.count()
        return rows.order_by("pk")[self._dice.randrange(count)] if count else None
