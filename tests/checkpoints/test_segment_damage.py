"""Someone who can write the database changes what was packed."""

from __future__ import annotations

import pytest

from checkpoints import gate
from checkpoints.access import Reason
from checkpoints.errors import BrokenChain, DecryptionError
from checkpoints.ids import uuid7
from checkpoints.keys import hierarchy
from checkpoints.log import hydrate
from checkpoints.log.pack import pack_branch
from checkpoints.log.threads import fork
from checkpoints.models import Branch, CheckpointDelta, DataKey, Segment
from checkpoints.pure import envelope
from tests.checkpoints.packing import grow, segments, step_of
from tests.tampering import tamper

pytestmark = pytest.mark.django_db

SEGMENTS = Segment.objects.unscoped(Reason.TEST)
DAMAGE = (BrokenChain, DecryptionError)


@pytest.fixture
def branch(make_thread, alice) -> Branch:
    """With two full segments and three steps after them."""
    branch = make_thread(owner=alice)
    grow(branch, 130)
    pack_branch(branch.pk)
    return branch


@pytest.fixture
def untouched(make_thread, alice) -> Branch:
    branch = make_thread(owner=alice)
    grow(branch, 66)
    pack_branch(branch.pk)
    return branch


@pytest.fixture
def refused(alice):
    """Every way to read the branch raises this; it says where."""

    def refused(branch: Branch, match: str, *, ways=None, error=DAMAGE) -> None:
        pass_ = gate.admit(alice, purpose="test", threads=[branch.thread])
        for way in ways or (hydrate.state, hydrate.read, hydrate.history_states):
            with pytest.raises(error, match=match):
                way(pass_, branch)

    return refused


def opens(branch: Branch, alice) -> bool:
    pass_ = gate.admit(alice, purpose="test", threads=[branch.thread])
    return bool(hydrate.state(pass_, branch)) and bool(hydrate.read(pass_, branch))


def segment_of(branch: Branch, first: int = 0) -> Segment:
    return SEGMENTS.get(branch=branch, first_step=first)


def change(segment: Segment, assignment: str, *values: object) -> None:
    tamper(
        f"UPDATE checkpoints_segment SET {assignment} WHERE id = %s",  # noqa: S608
        [*values, segment.pk],
    )


@pytest.mark.parametrize("at", [0, 4, 5, 10, 30, 60, 90, 200, -1])
def test_a_bit_that_flipped_is_seen(branch, untouched, refused, alice, at):
    segment = segment_of(branch, 64)
    record = bytearray(segment.record)
    record[at] ^= 1
    change(segment, "record = %s", bytes(record))
    refused(branch, "Steps 64-127", error=DecryptionError)
    assert opens(untouched, alice)


def test_every_bit_of_a_record_counts(make_thread):
    branch = make_thread()
    pack_branch(branch.pk, force=True)
    segment = segment_of(branch)
    record = bytes(segment.record)
    key = hierarchy.data_keys([segment.data_key])[segment.data_key]
    place = gate.context(segment, "record")
    assert envelope.open_sealed(record, key=key, context=place)
    for bit in range(8 * len(record)):
        flipped = bytearray(record)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DecryptionError):
            envelope.open_sealed(bytes(flipped), key=key, context=place)


def test_text_that_was_not_sealed_is_refused(branch, refused):
    change(segment_of(branch), "record = %s", b'[{"context":null,"ops":[]}]')
    refused(branch, "Steps 0-63", error=DecryptionError)


def test_a_record_of_another_segment_does_not_open(branch, untouched, refused, alice):
    for other in (segment_of(branch, 64), segment_of(untouched)):
        change(segment_of(branch), "record = %s", bytes(other.record))
        refused(branch, "Steps 0-63", error=DecryptionError)
    assert opens(untouched, alice)


@pytest.mark.parametrize(
    ("assignment", "where"),
    [
        ("last_step = 62", "Steps 0-63"),
        ("last_step = 64", "Steps 0-63"),
        ("first_step = 1", "tep 0"),
        ("id = gen_random_uuid()", "Steps 0-63"),
    ],
)
def test_a_segment_says_itself_which_steps_it_has(branch, refused, assignment, where):
    change(segment_of(branch), assignment)
    refused(branch, where)


def test_a_segment_of_another_branch_is_seen(make_thread, refused, alice):
    """Two branches that are the same up to there, so that the MACs before fit."""
    main = make_thread(owner=alice)
    grow(main, 63)
    side = fork(step_of(main, 63), name="side", by_id=None)
    for branch in (main, side):
        grow(branch, 64)
        pack_branch(branch.pk)
    assert segments(side) == [(64, 127)]
    mine, theirs = segment_of(main, 64), segment_of(side, 64)
    change(theirs, "branch_id = %s, first_step = 999, last_step = 1062", main.pk)
    change(mine, "branch_id = %s", side.pk)
    refused(side, "Steps 64-127", error=BrokenChain)
    deep = fork(step_of(side, 100), name="deep", by_id=None)
    refused(deep, "Steps 64-127", error=BrokenChain)
    change(theirs, "branch_id = %s, first_step = 64, last_step = 127", main.pk)
    refused(main, "Steps 64-127", error=BrokenChain)


@pytest.mark.parametrize("first", [0, 64])
def test_a_segment_that_is_missing_is_named(branch, refused, first):
    tamper(
        "DELETE FROM checkpoints_segment WHERE branch_id = %s AND first_step = %s",
        [branch.pk, first],
    )
    refused(branch, rf"tep {first}\b.* missing", error=BrokenChain)


def test_a_step_that_is_there_twice_is_seen(branch, refused):
    delta = CheckpointDelta.objects.unscoped(Reason.TEST).get(branch=branch, step=129)
    tamper(
        "INSERT INTO checkpoints_checkpointdelta (checkpoint_id, workspace_id,"
        " thread_id, branch_id, step, record) SELECT id, workspace_id, thread_id,"
        " branch_id, step, %s FROM checkpoints_checkpoint"
        " WHERE branch_id = %s AND step = 7",
        [bytes(delta.record), branch.pk],
    )
    refused(branch, "Step 7 .* twice", error=BrokenChain)


@pytest.mark.parametrize(
    "assignment",
    ["cost = 5", "name = 'refund'", "parent_id = NULL", "id = gen_random_uuid()"],
)
def test_metadata_of_a_packed_step_is_covered(branch, refused, alice, assignment):
    """Where rows are read. The state comes from segments, which rows cannot change."""
    tamper(
        f"UPDATE checkpoints_checkpoint SET {assignment}"  # noqa: S608
        " WHERE branch_id = %s AND step = 100",
        [branch.pk],
    )
    refused(
        branch,
        r"tep 100\b",
        ways=(hydrate.read, hydrate.history_states),
        error=BrokenChain,
    )
    pass_ = gate.admit(alice, purpose="test", threads=[branch.thread])
    assert len(hydrate.state(pass_, branch)["messages"]) == 131


def test_a_packed_step_without_its_row_is_seen(branch, refused):
    tamper(
        "DELETE FROM checkpoints_checkpoint WHERE branch_id = %s AND step = 100",
        [branch.pk],
    )
    refused(branch, r"tep 100\b", ways=(hydrate.read, hydrate.history_states))


@pytest.mark.parametrize("grown", [0, 1, 64])
def test_a_fork_that_was_moved_within_a_segment_is_seen(branch, refused, grown):
    side = fork(step_of(branch, 90), name="side", by_id=None)
    grow(side, grown)
    pack_branch(side.pk)
    tamper(
        "UPDATE checkpoints_branch SET fork_step = 89, forked_from_id = %s"
        " WHERE id = %s",
        [step_of(branch, 89).pk, side.pk],
    )
    refused(side, "tep 90 ", error=BrokenChain)


def test_a_fork_that_names_another_step_is_seen(branch, refused):
    side = fork(step_of(branch, 90), name="side", by_id=None)
    grow(side, 2)
    tamper(
        "UPDATE checkpoints_branch SET forked_from_id = %s WHERE id = %s",
        [step_of(branch, 89).pk, side.pk],
    )
    refused(side, "does not go on from the step", error=BrokenChain)


def test_a_head_that_is_another_is_seen(branch, refused):
    tamper(
        "UPDATE checkpoints_branch SET head_mac = sha256(head_mac) WHERE id = %s",
        [branch.pk],
    )
    refused(branch, "is not the head", error=BrokenChain)


def test_a_key_of_another_thread_is_refused(branch, untouched, refused):
    theirs = DataKey.objects.unscoped(Reason.TEST).get(
        thread=untouched.thread, purpose="data"
    )
    change(segment_of(branch), "data_key = %s", theirs.pk)
    refused(branch, "Step 0 .* key of another thread", error=DecryptionError)
    change(segment_of(branch), "data_key = %s", uuid7())
    refused(branch, "No key has the id", error=Exception)


def test_the_steps_before_the_damage_can_still_be_read(branch, history, alice):
    change(segment_of(branch, 64), "record = %s", b"")
    assert len(history(branch, to_step=63).records) == 64
    pass_ = gate.admit(alice, purpose="test", threads=[branch.thread])
    assert len(hydrate.state(pass_, branch, step=63)["messages"]) == 64
