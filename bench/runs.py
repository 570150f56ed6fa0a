"""The runner beside a plain insert, and beside DBOS.

Runs are real: claimed, hydrated, sealed step by step, let go; by `manage.py worker` in
processes of its own where more than one step counts. Only the model answers at once.
docs/benchmarks.md says how each figure is measured.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import uuid4

import psycopg
from django.contrib.auth.models import User

from agents.approvals import decide
from agents.models import Approval, Run
from agents.runs import runner, start, stop
from bench import _dbos, _floor, _text, _waiting
from bench._run_figures import show
from bench._server import as_worker, owner, say
from bench._workers import POLL, children, head, until, workers
from checkpoints.access import Reason, Role, UserPrincipal, unscoped
from checkpoints.keys.hierarchy import create_workspace_keys
from checkpoints.models import Checkpoint, Membership, Workspace

LEASE = 3  # seconds, where a supervisor is killed; else as the settings have it


def run(*, as_json: bool, quick: bool) -> None:
    with owner() as admin:
        if Workspace.objects.exists():
            raise SystemExit(
                "The database has workspaces; this needs an empty one, which ./dev bench"
                " makes where DATABASE_URL is not set."
            )
        admin.execute(_floor.TABLE)
        by = _person()
        with as_worker(), unscoped(Reason.WORKER):
            say("steps …")
            figures = _steps(admin, by, rounds=100 if quick else 500)
            say("approvals, and runs that begin …")
            figures |= _latencies(admin, by, times=40 if quick else 200)
            say("workers that are killed …")
            figures["kill_to_resume_ms"] = _kills(admin, by, times=10 if quick else 60)
            figures["lost_to_resume_ms"] = _losses(admin, by, times=3 if quick else 20)
            say("steps a second …")
            figures["steps_per_s"] = {
                str(pool): _throughput(by, pool, rounds=50 if quick else 200)
                for pool in (1, 2)
            }
            say("10,000 runs that wait …")
            figures["waiting_10000"] = _waiting.measure(
                admin, _waiting_run(by), runs=1000 if quick else 10_000
            )
        figures["dbos"] = None
        if not quick:
            say("DBOS …")
            figures["dbos"] = theirs = _dbos.run()
            theirs["step_ratio"] = theirs["step_ms"] / figures["step_ms"]
    show(figures, as_json=as_json)


def _person() -> UserPrincipal:
    workspace = Workspace.objects.create(slug="bench", name="Bench")
    create_workspace_keys(workspace)
    user = User.objects.create_user("bench")
    Membership.objects.create(
        workspace=workspace, user=user, role=Role.OPERATOR, can_approve=True
    )
    return UserPrincipal(
        user_id=user.pk,
        workspace_id=workspace.pk,
        role=Role.OPERATOR,
        can_approve=True,
        name="Bench",
    )


def _begin(by: UserPrincipal, message: str) -> Run:
    return start.start_run(agent="bench", message=message, by=by, request_key=uuid4())


def _waiting_run(by: UserPrincipal) -> Run:
    run = _begin(by, "pay 1")
    runner.work(run.pk)
    run.refresh_from_db()
    assert run.status == Run.Status.WAITING
    return run


def _steps(
    admin: psycopg.Connection[Any], by: UserPrincipal, *, rounds: int
) -> dict[str, Any]:
    """Steps of one run after the other, in turns with as many inserts of 1 KB."""
    insert, texts = _floor.inserts(admin), _text.messages()
    floor: list[float] = []
    taken: list[float] = []
    for turn in range(6):
        run = _begin(by, f"note {rounds // 5}")
        runner.work(run.pk)
        run.refresh_from_db()
        assert run.status == Run.Status.SUCCEEDED
        if turn:  # the first one warms up
            at = Checkpoint.objects.filter(branch=run.branch_id).order_by("step")
            times = list(at.values_list("created_at", flat=True))[
                1:
            ]  # 0: not the runner's
            taken += [
                (after - before).total_seconds() for before, after in pairwise(times)
            ]
            for _ in range(2 * rounds // 5):
                text = next(texts)
                began = time.perf_counter()
                insert(text)
                floor.append(time.perf_counter() - began)
    step, raw = statistics.median(taken), statistics.median(floor)
    return {
        "raw_commit_ms": raw * 1000,
        "step_ms": step * 1000,
        "step_ratio": step / raw,
        "step_p99_ms": _percentile(taken, 99) * 1000,
    }


def _latencies(
    admin: psycopg.Connection[Any], by: UserPrincipal, *, times: int
) -> dict[str, Any]:
    waiting = [_waiting_run(by) for _ in range(times)]
    flush = _flush(admin)
    with workers(1):
        durable = [_approved(admin, run, by) + flush for run in waiting]
        begun = [_begin_and_finish(admin, by) for _ in range(times)]
    picked = Run.objects.filter(pk__in=begun).values_list("started_at", "created_at")
    pickup = [(started - made).total_seconds() for started, made in picked if started]
    return {
        "approve_to_durable_ms": _percentiles(durable, 50, 95, 99),
        "pickup_ms": _percentiles(pickup, 50, 99),
    }


def _approved(admin: psycopg.Connection[Any], run: Run, by: UserPrincipal) -> float:
    """Seconds from the decision until the next checkpoint is written, by the clock of
    the machine, which is the database's, too. Nobody asks meanwhile: to ask every half
    millisecond would take a core away from who is measured."""
    approval = Approval.objects.get(run=run)
    step, _ = head(admin, run.branch_id)
    began = time.time()
    decide.approve(approval, seen=approval.as_shown(), by=by)
    until(lambda: not _is_live(admin, run))
    following = Checkpoint.objects.get(branch=run.branch_id, step=step + 1)
    return following.created_at.timestamp() - began


def _flush(admin: psycopg.Connection[Any]) -> float:
    """Seconds of a plain insert of 1 KB: at least what a commit takes after it wrote."""
    insert, texts = _floor.inserts(admin), _text.messages()
    taken = []
    for _ in range(100):
        text = next(texts)
        began = time.perf_counter()
        insert(text)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def _begin_and_finish(admin: psycopg.Connection[Any], by: UserPrincipal) -> Any:
    run = _begin(by, "note 0")
    until(lambda: not _is_live(admin, run))
    return run.pk


def _is_live(admin: psycopg.Connection[Any], run: Run) -> bool:
    row = admin.execute(
        "SELECT status FROM agents_run WHERE id = %s", [run.pk]
    ).fetchone()
    return row is not None and row[0] in Run.LIVE


def _kills(
    admin: psycopg.Connection[Any], by: UserPrincipal, *, times: int
) -> dict[str, float]:
    """Of two workers the one is killed that has the run; the run takes its next step."""
    taken: list[float] = []
    with workers(2) as supervisor:
        while len(taken) < times:
            run = _begin(by, "wait 200")
            until(partial(_is_past, admin, run, 2))
            while _is_live(admin, run) and len(taken) < times:
                step, fence = head(admin, run.branch_id)
                began = time.perf_counter()
                os.kill(children(supervisor.pid)[0], signal.SIGKILL)
                if _took_over(admin, run, step, fence):
                    taken.append(time.perf_counter() - began)
                until(lambda: len(children(supervisor.pid)) == 2)
                time.sleep(0.5)  # so that there are two again
            stop.cancel(run, by=by)
    return _percentiles(taken, 50, 99)


def _losses(
    admin: psycopg.Connection[Any], by: UserPrincipal, *, times: int
) -> dict[str, float]:
    """Of two supervisors the one is killed whose worker has the run, with that worker:
    nobody is left who knows. By the clock of the machine, which is the database's."""
    taken: list[float] = []
    with ExitStack() as stack:
        another = partial(workers, 1, LEASE_SECONDS=str(LEASE))
        pools = [stack.enter_context(another()) for _ in range(2)]
        while len(taken) < times:
            run = _begin(by, "wait 400")
            until(partial(_is_past, admin, run, 2))
            run.branch.refresh_from_db()
            _, supervisor, _ = run.branch.worker.split(":")
            [lost] = [pool for pool in pools if pool.pid == int(supervisor)]
            began = time.time()
            lost.kill()  # its worker dies with it
            lost.wait()
            time.sleep(0.1)  # what that had sent is stored
            step, _ = head(admin, run.branch_id)
            until(partial(_is_past, admin, run, step))
            following = Checkpoint.objects.get(branch=run.branch_id, step=step + 1)
            taken.append(following.created_at.timestamp() - began)
            stop.cancel(run, by=by)
            pools.remove(lost)
            pools.append(stack.enter_context(another()))
    return _percentiles(taken, 50, 99)


def _is_past(admin: psycopg.Connection[Any], run: Run, step: int) -> bool:
    return head(admin, run.branch_id)[0] > step


def _took_over(admin: psycopg.Connection[Any], run: Run, step: int, fence: int) -> bool:
    """Waits for the run's next step. False: the one that was killed did not have it."""
    while True:
        now = head(admin, run.branch_id)
        if now[0] > step + 1 and now[1] == fence:
            return False
        if now[0] > step and now[1] > fence:
            return True
        if not _is_live(admin, run):
            return False
        time.sleep(POLL)


def _throughput(by: UserPrincipal, pool: int, *, rounds: int) -> float:
    with workers(pool):
        runs = [_begin(by, f"note {rounds}").pk for _ in range(2 * pool)]
        until(lambda: not Run.objects.filter(pk__in=runs, finished_at=None).exists())
        done = Run.objects.filter(pk__in=runs)
        first = min(run.started_at for run in done if run.started_at)
        last = max(run.finished_at for run in done if run.finished_at)
        return sum(run.steps for run in done) / (last - first).total_seconds()


def _percentile(seconds: list[float], percent: int) -> float:
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1]


def _percentiles(seconds: list[float], *percents: int) -> dict[str, float]:
    return {f"p{each}": _percentile(seconds, each) * 1000 for each in percents}
