"""The threads list over 10,000 threads with 1,000,000 checkpoints and 330,000 calls.

Those that the first page shows are whole: their titles and labels open. The others are
copies of one of them, rows without what would open, which no page looks at.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import uuid4

import psycopg
from django.contrib.auth.models import User
from django.test import Client

from agents.models import Run, ToolCall
from agents.runs import runner, start
from bench import _waiting
from bench._figures import Figures
from bench._server import milliseconds, say
from checkpoints.access import Reason, UserPrincipal
from checkpoints.ids import uuid7
from checkpoints.log.append import NewStep, StepMeta, commit, writer
from checkpoints.models import Branch, Checkpoint, Thread

AIMS: dict[str, tuple[str, float]] = {
    "threads_1m_ms": (
        "the threads list, 1,000,000 checkpoints over 10,000 threads, ms",
        100.0,
    )
}
THREADS = 10_000
STEPS = 100  # of each thread
WHOLE = 30  # threads: more than a page shows
# With a filter: said beside the figure, not aimed at.
FILTERED = (
    "status=failed",
    "agent=bench&step=41",
    "tool=pay",
    "cost=0.2&tokens=10k",
    "since=week&forks=no",
)


def make(by: UserPrincipal, owner: psycopg.Connection[Any], *, threads: int) -> None:
    """In the person's workspace, which has none yet. As a worker."""
    say(f"{threads:,} threads of {STEPS} steps …")
    runs = [_run(by) for _ in range(WHOLE)]
    copies, one = threads - WHOLE, runs[0]
    ids = [
        *("id", "thread_id", "branch_id", "run_id", "head_id", "parent_id", "run"),
        *("reply_id", "result_checkpoint_id"),
    ]
    copy = partial(_waiting.copy, owner, times=copies, ids=ids)
    with owner.transaction():
        copy(Thread._meta.db_table, "id", one.thread_id)
        copy(
            Branch._meta.db_table,
            "thread_id",
            one.thread_id,
            updated_at="s.updated_at - n * interval '7 minutes'",
        )
        copy(Checkpoint._meta.db_table, "thread_id", one.thread_id)
        copy(
            Run._meta.db_table,
            "thread_id",
            one.thread_id,
            status="(ARRAY['succeeded', 'failed', 'cancelled', 'succeeded'])[1 + n %% 4]",
            failed_step="CASE WHEN n %% 4 = 1 THEN n %% 97 END",
            error_class="CASE WHEN n %% 4 = 1 THEN 'model_unreachable' ELSE '' END",
            cost="(n %% 100) / 100.0",
            finished_at="now() - n * interval '7 minutes'",
        )
        copy(ToolCall._meta.db_table, "thread_id", one.thread_id)
    owner.execute("VACUUM ANALYZE")


def measure(by: UserPrincipal, *, threads: int, times: int) -> Figures:
    """As the web role."""
    client = Client()
    client.force_login(User.objects.get(pk=by.user_id))
    page = client.get("/threads/", secure=True).content.decode()
    shown, sealed = len(re.findall('<tr id="t-', page)), page.count("cannot be opened")
    told = f'All <span class="num">{threads}</span>'
    if shown != 25 or sealed or told not in page:
        raise SystemExit(f"The list shows {shown} threads, {sealed} of them sealed.")

    def ask(address: str) -> object:
        return client.get(address, secure=True)

    for query in FILTERED:
        took = milliseconds(partial(ask, f"/threads/?{query}"), times=times)
        say(f"threads with {query}: {took:.1f} ms")
    return {"threads_1m_ms": milliseconds(partial(ask, "/threads/"), times=times)}


def _run(by: UserPrincipal) -> Run:
    """A run that waits, in a thread of its own; its steps go on as if it had not."""
    begun = start.start_run(agent="bench", message="pay 1", by=by, request_key=uuid4())
    runner.work(begun.pk)
    branch = Branch.objects.unscoped(Reason.WORKER).get(pk=begun.branch_id)
    at, calls = writer(branch), []
    while at.step < STEPS - 1:
        kind = ("model", "tool", "progress")[at.step % 3]
        meta = StepMeta(
            run=begun.pk,
            name="pay" if kind == "tool" else "",
            tokens_in=1_000,
            cost=Decimal("0.002"),
            latency_ms=100 * (at.step % 7),
        )
        if kind == "tool":
            calls.append(_call(begun, at.head))
        at = commit(at, NewStep(kind, [], f"step {at.step + 1}", meta=meta, id=uuid7()))
    ToolCall.objects.unscoped(Reason.WORKER).bulk_create(calls)
    return begun


def _call(run: Run, reply: Any) -> ToolCall:
    return ToolCall(
        id=uuid7(),
        workspace_id=run.workspace_id,
        thread_id=run.thread_id,
        branch_id=run.branch_id,
        run=run,
        reply_id=reply,
        ordinal=0,
        tool="pay",
        status=ToolCall.Status.SUCCEEDED,
        arguments_digest=b"d" * 32,
    )
