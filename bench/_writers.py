"""Sixteen processes that write at once, steps or plain inserts, for a while each."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable
from itertools import islice
from multiprocessing.synchronize import Barrier
from typing import Any

from django.db import connection

from bench import _floor, _text
from bench._server import owner
from bench._thread import say
from checkpoints.access import Reason
from checkpoints.log.append import writer
from checkpoints.models import Branch

WRITERS = 16
SECONDS = 1.5  # of one round
WARM_UP = 20  # writes

Worker = Callable[[Any], Callable[[str], object]]  # given a branch


def ratio(branches: list[Branch], *, rounds: int) -> float:
    """Steps a second of 16 writers, on a thread each, by inserts a second of 16."""
    steps = floor = 0
    pages = [branch.pk for branch in branches]
    texts = list(islice(_text.messages(), 512))
    for _ in range(rounds):
        floor += _race(_insert, pages, texts)
        steps += _race(_step, pages, texts)
    return steps / floor


def _race(work: Worker, branches: list[Any], texts: list[str]) -> int:
    connection.close()  # what is open would be shared with the children
    gc.freeze()  # no child copies what was here before, to look for garbage
    forks = multiprocessing.get_context("fork")
    start, counts = forks.Barrier(WRITERS, timeout=60), forks.Array("l", WRITERS)
    writers = [
        forks.Process(
            target=_run, args=(work, number, branches[number], texts, start, counts)
        )
        for number in range(WRITERS)
    ]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    if any(process.exitcode for process in writers):
        raise SystemExit("A writer failed; what it said is above.")
    return sum(int(count) for count in counts[:])


def _run(
    work: Worker,
    number: int,
    branch: Any,
    texts: list[str],
    start: Barrier,
    counts: Any,
) -> None:
    write = work(branch)
    done = 0
    for text in texts[:WARM_UP]:
        write(text)
    start.wait()
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        write(texts[(number * 37 + done) % len(texts)])
        done += 1
    counts[number] = done


def _insert(branch: Any) -> Callable[[str], object]:
    return _floor.inserts(owner())


def _step(branch: Any) -> Callable[[str], object]:
    at = writer(Branch.objects.unscoped(Reason.WORKER).get(pk=branch))

    def step(text: str) -> None:
        nonlocal at
        at = say(at, text)

    return step
