"""Someone who can write the database changes what is in it."""

from __future__ import annotations

import pytest

from checkpoints.access import Reason
from checkpoints.errors import BrokenChain, DecryptionError
from checkpoints.keys import hierarchy
from checkpoints.log.append import NewStep, StepMeta, commit, writer
from checkpoints.log.threads import fork
from checkpoints.models import Branch, Checkpoint, CheckpointDelta, DataKey
from checkpoints.pure import ops
from tests.tampering import tamper

pytestmark = pytest.mark.django_db


@pytest.fixture
def branch(make_thread, alice) -> Branch:
    return with_steps(make_thread(owner=alice), "abcd")


@pytest.fixture
def untouched(make_thread, alice) -> Branch:
    return with_steps(make_thread(owner=alice), "xyz")


def with_steps(branch: Branch, texts: str) -> Branch:
    at = writer(branch)
    for text in texts:
        step = NewStep("model", [ops.put("/facts", text, 1)], text, StepMeta(seed=7))
        at = commit(at, step)
    branch.refresh_from_db()
    return branch


def records(branch: Branch) -> list[bytes]:
    deltas = CheckpointDelta.objects.unscoped(Reason.TEST).filter(branch=branch)
    return [
        bytes(record)
        for record in deltas.order_by("step").values_list("record", flat=True)
    ]


def put_record(branch: Branch, step: int, record: bytes) -> None:
    tamper(
        "UPDATE checkpoints_checkpointdelta SET record = %s"
        " WHERE branch_id = %s AND step = %s",
        [record, branch.pk, step],
    )


def test_a_record_of_another_step_does_not_open(branch, untouched, history):
    put_record(branch, 2, records(branch)[3])
    with pytest.raises(DecryptionError, match="Step 2"):
        history(branch)
    assert len(history(untouched).records) == 4


def test_a_record_of_another_thread_does_not_open(branch, untouched, history):
    put_record(branch, 2, records(untouched)[2])
    with pytest.raises(DecryptionError, match="Step 2"):
        history(branch)
    assert len(history(untouched).records) == 4


@pytest.mark.parametrize("at", [0, 4, 10, 30, 60, 90, -1])
def test_a_bit_that_flipped_is_seen(branch, history, at):
    record = bytearray(records(branch)[1])
    record[at] ^= 1
    put_record(branch, 1, bytes(record))
    with pytest.raises(DecryptionError, match="Step 1"):
        history(branch)


def test_text_that_was_not_sealed_is_refused(branch, history):
    put_record(branch, 1, b'{"context":null,"label":"","ops":[]}')
    with pytest.raises(DecryptionError, match="Step 1"):
        history(branch)


def test_the_steps_before_the_damage_can_still_be_read(branch, history):
    put_record(branch, 3, b"")
    assert len(history(branch, to_step=2).records) == 3


@pytest.mark.parametrize(
    "change",
    [
        "kind = 'input'",
        "status = 'failed'",
        "name = 'refund'",
        "run = gen_random_uuid()",
        "actor_id = (SELECT min(id) FROM auth_user)",
        "agent_version = gen_random_uuid()",
        "schema_version = 2",
        "model_requested = 'gpt'",
        "model_returned = 'gpt'",
        "temperature = 1",
        "top_p = 1",
        "seed = 8",
        "fingerprint = 'fp'",
        "tokens_in = 1",
        "tokens_out = 1",
        "tokens_cached = 1",
        "cost = 1",
        "latency_ms = 1",
        "error_class = 'x'",
        "state_mac = sha256(state_mac)",
        "parent_id = NULL",
        "id = gen_random_uuid()",
    ],
)
def test_metadata_that_was_changed_is_seen(branch, untouched, history, change):
    if change.startswith("id"):
        tamper(
            "DELETE FROM checkpoints_checkpointdelta WHERE branch_id = %s AND step = 2",
            [branch.pk],
        )
    tamper(
        f"UPDATE checkpoints_checkpoint SET {change} WHERE branch_id = %s AND step = 2",  # noqa: S608
        [branch.pk],
    )
    with pytest.raises((BrokenChain, DecryptionError), match=r"tep 2\b"):
        history(branch)
    assert len(history(untouched).records) == 4


def test_two_steps_that_changed_places_are_seen(branch, history):
    for table in ("checkpoints_checkpoint", "checkpoints_checkpointdelta"):
        for before, after in ((2, 99), (3, 2), (99, 3)):
            tamper(
                f"UPDATE {table} SET step = %s WHERE branch_id = %s AND step = %s",  # noqa: S608
                [after, branch.pk, before],
            )
    with pytest.raises((BrokenChain, DecryptionError), match="Step 2"):
        history(branch)


@pytest.mark.parametrize("step", [0, 2, 4])
def test_a_step_that_is_missing_is_named(branch, history, step):
    tamper(
        "DELETE FROM checkpoints_checkpointdelta WHERE branch_id = %s AND step = %s",
        [branch.pk, step],
    )
    with pytest.raises(BrokenChain, match=f"operations of step {step}"):
        history(branch)
    tamper(
        "DELETE FROM checkpoints_checkpoint WHERE branch_id = %s AND step = %s",
        [branch.pk, step],
    )
    with pytest.raises(BrokenChain, match=f"Step {step} .* is missing"):
        history(branch)


def test_a_head_that_was_put_back_without_its_mac_is_seen(branch, history):
    tamper(
        "UPDATE checkpoints_branch SET head_step = 3 WHERE id = %s",
        [branch.pk],
    )
    with pytest.raises(BrokenChain, match="Step 3"):
        history(branch)


def test_a_fork_that_was_moved_to_another_step_is_seen(branch, history):
    source = Checkpoint.objects.unscoped(Reason.TEST).get(branch=branch, step=2)
    side = fork(source, name="side", by_id=None, ops=[ops.put("/facts", "s", 1)])
    other = Checkpoint.objects.unscoped(Reason.TEST).get(branch=branch, step=1)
    tamper(
        "UPDATE checkpoints_branch SET fork_step = 1, forked_from_id = %s WHERE id = %s",
        [other.pk, side.pk],
    )
    with pytest.raises(BrokenChain, match="Step 2"):
        history(side)
    assert len(history(branch).records) == 5


def test_branches_that_are_their_own_ancestors_end(branch, history):
    tamper("UPDATE checkpoints_branch SET parent_id = id WHERE id = %s", [branch.pk])
    assert len(history(branch).records) == 5


def test_a_branch_given_to_another_thread_does_not_open(branch, untouched, history):
    tamper(
        "UPDATE checkpoints_branch SET thread_id = %s WHERE id = %s",
        [untouched.thread_id, branch.pk],
    )
    for table in ("checkpoints_checkpoint", "checkpoints_checkpointdelta"):
        tamper(
            f"UPDATE {table} SET thread_id = %s WHERE branch_id = %s",  # noqa: S608
            [untouched.thread_id, branch.pk],
        )
    moved = Branch.objects.unscoped(Reason.TEST).get(pk=branch.pk)
    with pytest.raises(
        DecryptionError, match=r"Step \d of branch .* names a key of another"
    ):
        history(moved)


def test_keys_of_two_threads_that_changed_places_are_refused(
    branch, untouched, history
):
    hierarchy.forget()
    mine, theirs = (
        DataKey.objects.unscoped(Reason.TEST).get(thread=b.thread, purpose="data")
        for b in (branch, untouched)
    )
    DataKey.objects.unscoped(Reason.TEST).filter(pk=mine.pk).update(
        wrapped=theirs.wrapped
    )
    with pytest.raises(DecryptionError):
        history(branch)
    hierarchy.forget()
    assert len(history(untouched).records) == 4
