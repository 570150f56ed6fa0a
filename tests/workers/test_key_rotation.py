"""Every key is replaced while agents work: nothing stops, and nothing is lost."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.core.management import call_command

from agents.models import Run
from checkpoints.keys import checks, hierarchy
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.log.pack import pack_branch
from checkpoints.models import Checkpoint, DataKey, Segment, WorkspaceKey
from checkpoints.pure import ops
from tests.checkpoints.vault import TOKEN, Transit, serving
from tests.workers.conftest import ROOT, ended, kinds, wait_until
from tests.workers.test_processes import EXPECTED, script

pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEW = (hashlib.sha256(name).digest() for name in (b"old", b"new"))
RING = {"new": NEW, "old": OLD}
UNBROKEN = "20"  # seconds of a lease: a machine that stumbles takes no run away
TEXT = ",".join(f"{k}:{base64.b64encode(v).decode()}" for k, v in RING.items())


@pytest.fixture(autouse=True)
def under_the_old_key(settings):
    """Rows are made under "old"; "new" has just come, to every process."""
    settings.KEY_ENCRYPTION_KEYS = {"old": OLD}
    hierarchy.forget()
    yield
    hierarchy.forget()


def arm(settings, workers) -> None:
    settings.KEY_ENCRYPTION_KEYS = dict(RING)
    hierarchy.forget()
    workers.env["KEY_ENCRYPTION_KEYS"] = TEXT


def keys(workers, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "keys", *command],
        cwd=ROOT,
        env={**workers.command_env, **env},
        capture_output=True,
        text=True,
    )


def killed_everywhere(
    workers, reached: Path, points: list[str], *command: str
) -> list[int]:
    """Run the command until it gets to its end; each point kills it once."""
    codes = []
    for _ in range(len(points) + 1):
        done = keys(
            workers,
            *command,
            HOLDPOINT_FAILPOINTS=",".join(points),
            HOLDPOINT_FAILPOINTS_REACHED=str(reached),
        )
        codes.append(done.returncode)
        if done.returncode == 0:
            break
        assert done.returncode == -9, done.stderr
    assert {point for point in points if not (reached / point).exists()} == set()
    return codes


KEK = ["before rewrap", "after rewrap"]  # in between is one statement
THREADS = ["before new data keys", "during new data keys", "after new data keys"]
WORKSPACE = [
    "before a new workspace key",
    "during a new workspace key",
    "after a new workspace key",
    "before rewrap of data keys",
    "during rewrap of data keys",
    "after rewrap of data keys",
]


@pytest.mark.slow
@pytest.mark.unmeasured
def test_every_key_is_replaced_while_workers_run_and_the_command_is_killed(
    workers, begin, server, settings, tmp_path, history, alice
):
    names = [f"trip-{letter}" for letter in "abcd"]
    for name in names:
        script(server, name)
    server.fault("slow", times=None, seconds=0.4)
    early = [begin(name) for name in names[:2]]
    arm(settings, workers)
    workers.start(pool=2, LEASE_SECONDS=UNBROKEN)
    wait_until(lambda: all("tool" in kinds(run) for run in early))
    versions = DataKey.objects.filter(purpose="data")
    first = set(versions.values_list("pk", flat=True))

    killed_everywhere(workers, tmp_path, KEK, "rotate-kek")
    killed_everywhere(
        workers, tmp_path, THREADS, "rotate-thread", "--all", "--older-than", "0"
    )
    killed_everywhere(
        workers, tmp_path, WORKSPACE, "rotate-workspace", "--all", "--older-than", "0"
    )

    late = [begin(name) for name in names[2:]]
    runs = early + late
    wait_until(lambda: all(map(ended, runs)))
    # Nothing stopped: each run went through once, with no second attempt.
    assert {run.status for run in runs} == {"succeeded"}
    assert {run.branch.fence for run in runs} == {1}
    for run in runs:
        assert kinds(run) == EXPECTED
    # Nothing is lost: without the old key, in a process that knows nothing yet, every
    # step opens and follows from the one before it.
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW}
    hierarchy.forget()
    checks.require_keks()
    for run in runs:
        assert len(history(run.branch).records) == len(EXPECTED)
    call_command("verify_checkpoints", verbosity=0)
    # And the new keys are what is written with.
    used = set(Checkpoint.objects.values_list("data_key", flat=True))
    assert first & used
    assert used - first
    newest = WorkspaceKey.objects.latest("version")
    living = DataKey.objects.filter(destroyed_at=None)
    assert set(living.values_list("workspace_key", flat=True)) == {newest.pk}


@pytest.mark.slow
@pytest.mark.unmeasured
def test_a_worker_that_goes_on_takes_up_the_new_key_within_seconds(
    workers, begin, server, settings
):
    arm(settings, workers)
    server.will_call_all(
        *(("c", "wait", {"seconds": 0.5 + n / 1000}) for n in range(40))
    )
    server.will_say("Done.")
    workers.start(LEASE_SECONDS=UNBROKEN)
    run = begin()
    wait_until(lambda: "tool" in kinds(run))
    assert keys(workers, "rotate-thread", str(run.thread_id)).returncode == 0
    rotated = time.monotonic()
    new = DataKey.objects.filter(thread=run.thread_id, purpose="data").latest("version")
    wait_until(lambda: Checkpoint.objects.filter(data_key=new.pk).exists())
    assert time.monotonic() - rotated < hierarchy.WRITES_ON + 5
    wait_until(lambda: ended(run))
    assert (run.status, run.branch.fence) == ("succeeded", 1)


@pytest.mark.slow
@pytest.mark.unmeasured
def test_two_rotations_at_once_leave_one_outcome(workers, begin, server, settings):
    server.always("Hello.")
    runs = [begin() for _ in range(3)]
    arm(settings, workers)
    for command in (
        ["rotate-kek"],
        ["rotate-workspace", "--all", "--older-than", "0"],
        ["rotate-thread", "--all", "--older-than", "0"],
    ):
        both = [
            subprocess.Popen(
                [sys.executable, "manage.py", "keys", *command],
                cwd=ROOT,
                env=workers.command_env,
                stdout=subprocess.DEVNULL,
            )
            for _ in range(2)
        ]
        assert [process.wait() for process in both] == [0, 0]
    assert set(WorkspaceKey.objects.values_list("kek", flat=True)) == {
        "kek:keyring:new:1"
    }
    for run in runs:
        hierarchy.forget()
        hierarchy.thread_keys(run.thread_id)
    call_command("verify_checkpoints", verbosity=0)


def test_rewrite_leaves_no_packed_step_under_an_old_key(
    begin, make_thread, alice, history
):
    branch = make_thread()
    at = writer(branch)
    for number in range(70):
        at = commit(at, NewStep("model", [ops.set_("/goal", str(number))], "said"))
    assert pack_branch(branch.pk) == 1
    call_command("keys", "rotate-thread", str(branch.thread_id), "--rewrite")
    new = hierarchy.sealing_key(branch.thread_id)
    [segment] = Segment.objects.filter(thread=branch.thread_id)
    assert segment.data_key == new.id
    branch.refresh_from_db()
    assert history(branch).state_at(70)["goal"] == "69"


def test_a_run_waits_while_the_keys_service_is_away(
    begin, work, server, settings, make_thread, workspace
):
    server.always("Hello.")
    with serving(Transit()) as transit:
        settings.VAULT_ADDR, settings.VAULT_TOKEN = transit.address, TOKEN
        settings.KEY_PROVIDERS = [
            "tests.checkpoints.vault.Vault",
            "checkpoints.keys.keyring.Keyring",
        ]
        call_command("keys", "rotate-kek", verbosity=0)
        run = begin()
        hierarchy.forget()
        settings.VAULT_ADDR = "http://127.0.0.1:1"
        work()
        run.refresh_from_db()
        assert (run.status, run.error_class) == ("ready", "keys_unavailable")
        assert run.wake_at is not None
        settings.VAULT_ADDR = transit.address
        Run.objects.filter(pk=run.pk).update(wake_at=None)
        work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("succeeded", "")
    hierarchy.forget()
