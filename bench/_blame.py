"""Blame of one path of a branch with 10,000 steps: packed, as a thread of days is."""

from __future__ import annotations

import re
import statistics
import time

from django.test import Client

from agents.pages.thread.history import SHOWN
from bench._server import say
from bench._text import messages
from checkpoints.access import Reason, UserPrincipal
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.log.pack import pack_branch
from checkpoints.log.threads import create_thread
from checkpoints.models import Branch, Workspace
from checkpoints.pure import ops

STEPS = 10_000
EVERY = 100  # steps, after which the path changes
PATH = "/vars/fare"


def long_branch(by: UserPrincipal, steps: int) -> Branch:
    """Each step a message of a kilobyte; every hundredth a new value at the path, too."""
    say(f"a thread of {steps:,} steps …")
    branch = create_thread(
        workspace=Workspace.objects.get(pk=by.workspace_id),
        owner_id=by.user_id,
        title="Bench",
        state={"_schema": 1, "messages": [], "vars": {}},
        label="start",
    )
    at = writer(branch)
    for step, text in zip(range(1, steps), messages(), strict=False):
        made = [ops.append("/messages", {"id": f"m{step}", "content": text})]
        if step % EVERY == 0:
            made.append(ops.put("/vars", "fare", f"{step}.00"))
        at = commit(at, NewStep("model", made, "said"))
    pack_branch(branch.pk)
    return Branch.objects.unscoped(Reason.WORKER).get(pk=branch.pk)


def blame_ms(client: Client, branch: Branch, *, times: int) -> float:
    """The page of the path's history: every step looked at, the last changes shown."""
    address = f"/threads/{branch.thread_id}/history"
    query = {"branch": str(branch.pk), "path": PATH}
    taken = []
    for _ in range(times + 1):  # the first finds keys that are cached from then on
        began = time.perf_counter()
        page = client.get(address, query, secure=True).content.decode()
        taken.append(time.perf_counter() - began)
    shown = re.findall(r'id="change-(\d+)"', page)
    due = min(SHOWN, branch.head_step // EVERY)
    if len(shown) != due or any(int(step) % EVERY for step in shown):
        raise SystemExit(f"The history of {PATH} shows steps {', '.join(shown)}.")
    return statistics.median(taken[1:]) * 1000
