"""A worker dies with its supervisor, as when a machine is lost: nobody is told of it.

Its lease alone says so. Another pool's reaper finds it lapsed, and rings.
"""

from __future__ import annotations

import random
import subprocess
import time
from datetime import datetime, timedelta
from functools import partial
from statistics import median_low

import pytest

from agents.models import Run, Worker
from checkpoints import clock
from checkpoints.models import Checkpoint
from tests.workers.conftest import kinds, wait_until
from tests.workers.test_processes import gone

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.unmeasured,
]

LEASE = timedelta(seconds=3)
# After the lease: a turn of the reaper, a ring and a step, which take about a second.
MORE = timedelta(seconds=2)
ROUNDS = 3
CALLS = 90  # more than there is time for


def holder(run: Run, pools: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """The supervisor whose worker has the run: a worker's name says which."""

    def found() -> subprocess.Popen[bytes] | None:
        run.branch.refresh_from_db()
        named = run.branch.worker.split(":")[1:2]
        return next((pool for pool in pools if named == [str(pool.pid)]), None)

    pool = wait_until(found)
    assert isinstance(pool, subprocess.Popen)
    return pool


def has_more(run: Run, steps: int) -> bool:
    return len(kinds(run)) > steps


def lose(workers, pool: subprocess.Popen[bytes]) -> datetime:
    """Kill the supervisor, with which its workers die; the database's time just before."""
    children = workers.children(pool)
    killed_at = clock.now()
    pool.kill()
    pool.wait()
    wait_until(lambda: all(map(gone, children)))
    return killed_at


def test_a_run_whose_machine_is_lost_goes_on_once_its_lease_is_over(
    workers, begin, server
):
    # Of different lengths, so that no two calls are the same.
    server.will_call_all(
        *(("c", "wait", {"seconds": 0.1 + n / 1000}) for n in range(CALLS))
    )
    lease = str(int(LEASE.total_seconds()))
    pools = [workers.start(LEASE_SECONDS=lease) for _ in range(ROUNDS + 1)]
    wait_until(lambda: Worker.objects.present().count() == len(pools))
    run = begin()
    taken: list[timedelta] = []
    while len(pools) > 1:
        before = len(kinds(run))
        wait_until(partial(has_more, run, before + 1))
        lost = holder(run, pools)
        # So that it is lost at another place each time: within a call, or between two.
        time.sleep(random.uniform(0, 0.2))
        killed_at = lose(workers, lost)
        pools.remove(lost)
        run.branch.refresh_from_db()
        fence, step = run.branch.fence, run.branch.head_step
        following = Checkpoint.objects.filter(branch=run.branch_id, step=step + 1)
        resumed = wait_until(following.first)
        holder(run, pools)
        assert run.branch.fence > fence
        taken.append(resumed.created_at - killed_at)
    # One of them may meet a machine that is busy with other tests.
    assert median_low(taken) <= LEASE + MORE, taken
