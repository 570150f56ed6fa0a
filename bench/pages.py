"""Pages in front of 100,000 requests that wait: the Inbox, one request, a decision; and
the list of 10,000 threads.

Each is a whole request through every middleware, by the web role under its rights, in this
process: what a server adds to it (sockets, uvicorn) is not in it. docs/benchmarks.md says
how each figure is measured.
"""

from __future__ import annotations

import gzip
import json
import statistics
import time
from typing import Any
from uuid import uuid4

import psycopg
from django.contrib.auth.models import User
from django.test import Client
from django.test.utils import override_settings

from agents.models import Approval, Run, ToolCall
from agents.runs import runner, start
from bench import _blame, _browser, _compare, _threads, _timeline, _waiting
from bench._figures import Figures, rounded
from bench._server import as_web, as_worker, owner, say
from checkpoints.access import Reason, Role, UserPrincipal, unscoped
from checkpoints.keys.hierarchy import create_workspace_keys
from checkpoints.models import Branch, Membership, Thread, Workspace

# What is aimed at: at most.
AIMS: dict[str, tuple[str, float]] = {
    "inbox_100k_ms": ("the Inbox with 100,000 requests that wait, ms", 100.0),
    "inbox_kb": ("its first page, compressed, KB", 60.0),
    "approval_page_ms": ("one request opened, the list beside it, ms", 100.0),
    "decide_ms": ("a decision, the POST, ms", 30.0),
    "blame_10k_ms": ("blame of one path over 10,000 steps, ms", 150.0),
    **_compare.AIMS,
    **_timeline.AIMS,
    **_browser.AIMS,
    **_threads.AIMS,
}
REAL = 120  # requests whose titles open: more than a page shows and decisions take
COPIES = 1_000_000  # numbers above are copies' (bench/_waiting.py)
PAGES = {
    "ALLOWED_HOSTS": ["testserver"],
    "STORAGES": {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {
            "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        },
    },
}


def run(*, as_json: bool, quick: bool) -> None:
    with owner() as admin:
        if Workspace.objects.exists():
            raise SystemExit(
                "The database has workspaces; this needs an empty one, which ./dev bench"
                " makes where DATABASE_URL is not set."
            )
        by, lister = _person("bench"), _person("threads")
        say(f"{REAL} requests …")
        with as_worker(), unscoped(Reason.WORKER):
            asked = [_asked(by) for _ in range(REAL)]
            workspace = Workspace.objects.get(pk=by.workspace_id)
            two = _compare.make(workspace, admin, steps=1_000 if quick else 10_000)
        copies = (1_000 if quick else 100_000) - REAL
        say(f"{copies:,} more of them …")
        _multiply(admin, asked[0], copies)
        with as_worker(), unscoped(Reason.WORKER):
            long = _blame.long_branch(by, _blame.STEPS // 10 if quick else _blame.STEPS)
            timelines = _timeline.make(by, long=long, steps=100 if quick else 1_000)
            threads = _threads.THREADS // 20 if quick else _threads.THREADS
            _threads.make(lister, admin, threads=threads)
        with override_settings(**PAGES):
            client = Client()
            client.force_login(User.objects.get(pk=by.user_id))
            with as_web():
                figures = _measure(client, asked, times=10 if quick else 40)
                say("blame …")
                figures["blame_10k_ms"] = _blame.blame_ms(client, long, times=15)
                figures |= _compare.measure(client, two, times=10)
                figures |= _timeline.measure(client, timelines, times=15)
                figures |= _browser.measure(client, long, times=7)
                say("threads …")
                figures |= _threads.measure(lister, threads=threads, times=20)
    print(json.dumps(rounded(figures)) if as_json else _table(figures))


def _person(name: str) -> UserPrincipal:
    """In a workspace of their own."""
    workspace = Workspace.objects.create(slug=name, name=name.title())
    create_workspace_keys(workspace)
    user = User.objects.create_user(name)
    Membership.objects.create(
        workspace=workspace, user=user, role=Role.OPERATOR, can_approve=True
    )
    return UserPrincipal(
        user_id=user.pk,
        workspace_id=workspace.pk,
        role=Role.OPERATOR,
        can_approve=True,
        name=name.title(),
    )


def _asked(by: UserPrincipal) -> Approval:
    """A request of a run of its own, in a thread of its own."""
    begun = start.start_run(agent="bench", message="pay 1", by=by, request_key=uuid4())
    runner.work(begun.pk)
    return Approval.objects.select_related("run").get(run=begun)


def _multiply(admin: psycopg.Connection[Any], one: Approval, times: int) -> None:
    """Others like this one, each in a thread of its own: half of them due some day, half
    without a deadline, of every risk. The real ones are due first, so a page shows them."""
    table = Approval._meta.db_table
    ids = ("id", "thread_id", "branch_id", "run_id", "call_id")
    with admin.transaction():
        for model, column, value in (
            (Thread, "id", one.thread_id),
            (Branch, "thread_id", one.thread_id),
            (Run, "thread_id", one.thread_id),
            (ToolCall, "thread_id", one.thread_id),
        ):
            _waiting.copy(admin, model._meta.db_table, column, value, times, ids=ids)
        _waiting.copy(
            admin,
            table,
            "thread_id",
            one.thread_id,
            times,
            ids=ids,
            due_at="CASE WHEN n %% 2 = 0 THEN now() + interval '2 days' + n * interval '1 s' END",
            risk="(ARRAY['low', 'medium', 'high', 'critical'])[1 + n %% 4]",
            alike="sha256(n::text::bytea)",
        )
        admin.execute(
            f"UPDATE {table} SET due_at = now() + interval '1 hour',"  # noqa: S608  # our own name
            " alike = sha256(id::text::bytea) WHERE number < %s",
            [COPIES],
        )
    admin.execute("VACUUM ANALYZE")


def _measure(client: Client, asked: list[Approval], *, times: int) -> Figures:
    say("pages …")
    client.get("/inbox/", secure=True)  # keys are cached from now on
    seconds, page = [], b""
    for _ in range(times):
        took, page = _get(client, "/inbox/")
        seconds.append(took)
    shown, sealed = page.count(b'-row"'), page.count(b"Sealed")
    if shown < 50 or sealed:
        raise SystemExit(f"The page shows {shown} requests, {sealed} of them sealed.")
    figures: Figures = {
        "inbox_100k_ms": statistics.median(seconds) * 1000,
        "inbox_kb": len(gzip.compress(page, 6)) / 1024,
    }
    opened = [_get(client, f"/inbox/{one.pk}/")[0] for one in asked[-times:]]
    figures["approval_page_ms"] = statistics.median(opened) * 1000
    half = len(asked) // 2
    decided = [_decide(client, one) for one in asked[half:][:times]]
    figures["decide_ms"] = statistics.median(decided) * 1000
    drawn = [_decide(client, one, drawn=True) for one in asked[:half][:times]]
    say(
        f"a decision with script, the pane drawn: {statistics.median(drawn) * 1000:.1f} ms"
    )
    return figures


def _get(client: Client, path: str) -> tuple[float, bytes]:
    began = time.perf_counter()
    answer = client.get(path, secure=True)
    took = time.perf_counter() - began
    assert answer.status_code == 200, answer.status_code
    return took, answer.content


def _decide(client: Client, one: Approval, *, drawn: bool = False) -> float:
    """As the form does it; `drawn`: with script, where the answer is the pane."""
    form = {
        "decision": "approve",
        "revision": str(one.revision),
        "digest": bytes(one.digest).hex(),
    }
    began = time.perf_counter()
    headers = {"HX-Request": "true"} if drawn else {}
    answer = client.post(f"/inbox/{one.pk}/decide", form, headers=headers, secure=True)
    took = time.perf_counter() - began
    assert answer.status_code == (200 if drawn else 303), answer.status_code
    return took


def _table(figures: Figures) -> str:
    lines = ["| figure | measured | aim | |", "|---|---:|---:|---|"]
    for name, (meaning, aim) in AIMS.items():
        found = figures[name]
        if found is None:  # without a browser
            lines.append(f"| {meaning} | - | {aim:g} | |")
            continue
        verdict = "met" if found <= aim else "**missed**"
        lines.append(f"| {meaning} | {found:,.3g} | {aim:g} | {verdict} |")
    return "\n".join(lines)
