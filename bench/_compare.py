"""Two branches of 10,000 steps beside each other, and what two states of 1 MB differ in."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import psycopg
from django.test import Client

from bench import _text
from bench._figures import Figures
from bench._server import milliseconds, say
from bench._thread import GrowingThread
from checkpoints.access import Reason
from checkpoints.log.append import writer
from checkpoints.log.threads import fork
from checkpoints.models import Branch, Checkpoint, Workspace
from checkpoints.pure import codec
from checkpoints.pure.compare import compare

AIMS: dict[str, tuple[str, float]] = {
    "compare_ms": ("two branches of 10,000 steps compared, ms", 500.0),
    "diff_1mb_ms": ("what two states of 1 MB differ in, ms", 150.0),
}
SHARED = 0.9  # of the steps: the branches part late, so that much has to be opened


class _Fork(GrowingThread):
    """A fork of a thread that grew, and grows on."""

    def __init__(self, source: GrowingThread, step: int, texts: Iterator[str]) -> None:
        at = Checkpoint.objects.unscoped(Reason.WORKER).get(
            branch=source.branch, step=step
        )
        self.branch = fork(at, name="fork", by_id=None)
        self.payload = 0
        self._at = writer(self.branch)
        self._texts = texts
        self._owner = source._owner


def make(
    workspace: Workspace, owner: psycopg.Connection[Any], *, steps: int
) -> tuple[Branch, Branch]:
    """A branch of so many steps, and a fork late in it with as many. As a worker."""
    say(f"two branches of {steps:,} steps …")
    texts = _text.messages()
    main = GrowingThread(workspace, texts, owner)
    main.grow(steps - 1)
    other = _Fork(main, int(steps * SHARED), texts)
    other.grow(steps - 1)
    return main.branch, other.branch


def measure(client: Client, two: tuple[Branch, Branch], *, times: int) -> Figures:
    """As the web role."""
    page = f"/threads/compare/{two[0].pk}/{two[1].pk}/"
    answer = client.get(page, secure=True)  # keys are cached from now on
    if answer.status_code != 200 or b"First difference" not in answer.content:
        raise SystemExit(f"The comparison answers {answer.status_code}.")

    before, after = _states()
    found = compare(before, after)
    if len(codec.canonical(before)) < 1_000_000 or len(found) < 500:
        raise SystemExit("The two states are not what they are said to be.")
    return {
        "compare_ms": milliseconds(lambda: client.get(page, secure=True), times=times),
        "diff_1mb_ms": _fresh(times),
    }


def _fresh(times: int) -> float:
    """The median over states made anew, of which nothing was looked at before."""
    taken = []
    for _ in range(times):
        before, after = _states()
        began = time.perf_counter()
        compare(before, after)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


def _states() -> tuple[dict[str, Any], dict[str, Any]]:
    """Two states of 1 MB: of 800 messages a fifth was edited and 20 came, of a table of
    3,000 rows a seventh changed, of a long text one word."""
    texts = list(islice(_text.messages(), 820))

    def state(edit: str, more: int) -> dict[str, Any]:
        return {
            "messages": [
                {
                    "id": str(n),
                    "role": "assistant",
                    "content": text + (edit if n % 5 == 0 else ""),
                }
                for n, text in enumerate(texts[: 800 + more])
            ],
            "table": [
                {"n": n, "x": [n, edit if n % 7 == 0 else ""]} for n in range(3_000)
            ],
            "long": " ".join(texts[:100]) + edit,
        }

    return state(".", 0), state(" and more.", 20)
