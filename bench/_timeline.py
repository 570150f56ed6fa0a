"""A thread's page at 1,000 steps, and at 10,000 with 200 branches; a step of it; a fork."""

from __future__ import annotations

import gzip
import statistics
import time
from dataclasses import dataclass
from uuid import UUID, uuid4

from django.test import Client

from bench import _blame
from bench._figures import Figures
from bench._server import milliseconds, say
from bench._text import messages
from checkpoints.access import Reason, UserPrincipal
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.log.remembered import segments
from checkpoints.log.threads import fork
from checkpoints.models import Branch, Checkpoint
from checkpoints.pure import ops

AIMS: dict[str, tuple[str, float]] = {
    "thread_1k_ms": ("a thread's page with 1,000 steps, ms", 100.0),
    "thread_10k_ms": ("the same with 10,000 steps and 200 branches, ms", 100.0),
    "step_ms": ("another step of those 10,000, the parts that change, ms", 60.0),
    "thread_kb": ("the page of 10,000 steps, compressed, KB", 80.0),
    "fork_http_ms": ("a fork of the 1,000th step, created only, the POST, ms", 20.0),
}
BRANCHES = 200
OWN = 5  # steps that each of the other branches has
STEPPED = 15  # steps, from the middle on


@dataclass(frozen=True)
class Timelines:
    """A short branch, and a long one with others; some of the long one's checkpoints."""

    short: Branch
    long: Branch
    steps: list[UUID]


def make(by: UserPrincipal, *, long: Branch, steps: int) -> Timelines:
    """A branch of so many steps; and 199 more on `long`, spread over it. As a worker."""
    short = _blame.long_branch(by, steps)
    say(f"{BRANCHES} branches …")
    texts = messages()
    for n in range(BRANCHES - 1):
        source = Checkpoint.objects.unscoped(Reason.WORKER).get(
            branch=long, step=long.head_step * n // BRANCHES
        )
        at = writer(fork(source, name=f"what-if-{n}", by_id=by.user_id))
        for _ in range(OWN):
            message = {"id": f"m{at.step + 1}", "content": next(texts)}
            at = commit(
                at, NewStep("model", [ops.append("/messages", message)], "said")
            )
    middle = Checkpoint.objects.unscoped(Reason.WORKER).filter(
        branch=long, step__gt=long.head_step // 2
    )
    found = list(middle.order_by("step").values_list("pk", flat=True)[:STEPPED])
    return Timelines(short, long, found)


def measure(client: Client, of: Timelines, *, times: int) -> Figures:
    """As the web role."""
    say("a thread's page …")
    short, long = of.short, of.long

    def page(of: Branch, step: str = "") -> bytes:
        address = f"/threads/{of.thread_id}/?branch={of.pk}{step}"
        answer = client.get(address, secure=True)
        assert answer.status_code == 200, answer.status_code
        return bytes(answer.content)

    whole = page(long)
    if b"what-if" not in whole or f'id="step-{long.head_step}"'.encode() not in whole:
        raise SystemExit("The page of 10,000 steps is not what it is said to be.")
    page(short)  # keys are cached from now on

    def first() -> None:
        segments.forget()
        page(long)

    cold = milliseconds(first, times=times)
    say(f"10,000 steps of which nothing was opened a moment ago: {cold:.1f} ms")
    return {
        "thread_1k_ms": milliseconds(lambda: page(short), times=times),
        "thread_10k_ms": milliseconds(lambda: page(long), times=times),
        "step_ms": _stepping(client, of),
        "thread_kb": len(gzip.compress(whole, 6)) / 1024,
        "fork_http_ms": _forks(client, short, times),
    }


def _stepping(client: Client, of: Timelines) -> float:
    """Step by step, as `j` asks for it."""
    taken = []
    for checkpoint in of.steps:
        address = f"/f/threads/{of.long.thread_id}/at/{checkpoint}/"
        began = time.perf_counter()
        answer = client.get(address, headers={"HX-Request": "true"}, secure=True)
        taken.append(time.perf_counter() - began)
        assert answer.status_code == 200, answer.status_code
    return statistics.median(taken) * 1000


def _forks(client: Client, branch: Branch, times: int) -> float:
    """The POST of the form as the page fills it, with another prompt."""
    address = f"/threads/{branch.thread_id}/fork/{branch.head_id}/?branch={branch.pk}"
    taken, made = [], set()
    for n in range(times + 1):
        form = {
            "name": f"fork-{n}",
            "system": f"Be brief: {n} words.",
            "calls": Branch.Calls.RECORDED,
            "request_key": str(uuid4()),
            "do": "create",
        }
        began = time.perf_counter()
        answer = client.post(address, form, secure=True)
        taken.append(time.perf_counter() - began)
        assert answer.status_code == 303, answer.status_code
        made.add(answer["Location"])
    if len(made) != times + 1:
        raise SystemExit(f"{times + 1} forks were asked for; there are {len(made)}.")
    return statistics.median(taken[1:]) * 1000
