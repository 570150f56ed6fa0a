"""How long a claim waits for a call: until nobody wants it, and not in silence.

The call runs beside the runner (aside.py). Meanwhile the runner looks whether to give it
up, and writes a step now and then that says what it is waiting for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError

from agents.llm import OpenAIModel
from agents.pure.context import Request
from agents.pure.labels import first_words
from agents.pure.step import Reply, Step
from agents.runs.aside import aside
from agents.runs.heartbeat import Heartbeat
from agents.runs.progress import Progress
from checkpoints.errors import CheckpointsError, Fenced
from checkpoints.models import Checkpoint

logger = logging.getLogger(__name__)

Stopping = Callable[[], bool]

# Seconds after SIGTERM until a call is given up that may be: it would outlast the grace
# (pool.py), and a worker that is killed says nothing.
GRACE = 5.0
TITLE_CHARACTERS = 60  # of a call, in such a step's label

T = TypeVar("T")


class Patience:
    """Of one claim."""

    def __init__(
        self, heart: Heartbeat, progress: Progress, stopping: Stopping
    ) -> None:
        self._heart = heart
        self._progress = progress
        self._stopping = stopping
        self._stops_at: float | None = None  # time.monotonic()

    def wait(
        self,
        act: Callable[[], T],
        *,
        what: Callable[[], str],
        look: Callable[[], object],
    ) -> T:
        """What `act` gives, or raises, beside us.

        `what` names what is waited for, in the words of a label; `look` is done now and
        then. Raises GivenUp when nobody wants the outcome any more: then the act may
        still be at work. Raises as `Progress.store`.
        """
        sign = self.signs(what)

        def enough() -> bool:
            look()
            sign()
            return self._is_unwanted(time.monotonic())

        return aside(act, enough=enough)

    def signs(self, what: Callable[[], str]) -> Callable[[], None]:
        """To be called again and again while a call lasts, which begins now.

        Now and then it writes a step that says so. Raises as `Progress.store`.
        """
        began = time.monotonic()
        due = began + settings.PROGRESS_SECONDS

        def sign() -> None:
            nonlocal due
            now = time.monotonic()
            if now >= due:
                due = now + settings.PROGRESS_SECONDS
                self._note(f"Still waiting for {what()}: {now - began:.0f} s")

        return sign

    def quiet_signs(self, title: str) -> Callable[[], None]:
        """As `signs`, of a tool's call: it goes on where a sign cannot be stored.

        What comes of it may be known to this process alone. Raises nothing.
        """
        sign = self.signs(lambda: f"“{first_words(title, TITLE_CHARACTERS)}”")

        def quietly() -> None:
            try:
                sign()
            except Fenced:
                self._heart.lost = True
            except (CheckpointsError, OperationalError, InterfaceError) as error:
                logger.warning(
                    "a sign of progress was not stored (%s)", type(error).__name__
                )

        return quietly

    def _is_unwanted(self, now: float) -> bool:
        if self._stopping():
            self._stops_at = self._stops_at or now + GRACE
        return self._heart.is_over or (
            self._stops_at is not None and now >= self._stops_at
        )

    def _note(self, label: str) -> None:
        self._progress.store(Step(kind=Checkpoint.Kind.PROGRESS, label=label))


class Watched:
    """A model that is waited for with patience, and followed while it answers."""

    def __init__(
        self,
        model: OpenAIModel,
        patience: Patience,
        heart: Heartbeat,
        progress: Progress,
    ) -> None:
        self._model = model
        self._patience = patience
        self._progress = progress
        heart.follow(self._answering)

    def reply(self, request: Request) -> Reply:
        """Raises ModelFailed, and as `Patience.wait`."""
        try:
            return self._patience.wait(
                lambda: self._model.reply(request),
                what=self._what,
                look=self._model.end_late,
            )
        finally:
            self._model.give_up()  # where it is still at work, nobody waits any more

    def _what(self) -> str:
        sign = self._model.sign()
        if sign is None or sign.attempt == 1:
            return "the model"
        return f"the model, attempt {sign.attempt} of {sign.attempts}"

    def _answering(self) -> dict[str, object] | None:
        """For whoever looks on (Run.answering)."""
        if (sign := self._model.sign()) is None:
            return None
        return {"step": self._progress.step + 1, **asdict(sign)}
