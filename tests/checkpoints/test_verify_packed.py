"""`verify_checkpoints` looks at packed steps one by one, and at their segments."""

from __future__ import annotations

import pytest

from checkpoints.access import Reason
from checkpoints.log.pack import pack_branch
from checkpoints.log.threads import fork
from checkpoints.log.verify import Tally, verify
from checkpoints.models import Branch, Segment
from tests.checkpoints.verifying import Change, must_name, side_of, step_of, with_steps
from tests.conftest import make_workspace

pytestmark = [pytest.mark.django_db, pytest.mark.owner]


@pytest.fixture
def untouched(make_thread, alice) -> Branch:
    return with_steps(make_thread(owner=alice), "pq")


@pytest.fixture
def packed(make_thread, alice) -> Branch:
    """150 steps: two full segments and a tail; a fork in the middle of the second."""
    branch = with_steps(make_thread(owner=alice), "x" * 149)
    pack_branch(branch.pk)
    with_steps(fork(step_of(branch, 100), name="side", by_id=None), "y" * 40)
    pack_branch(side_of(branch).pk)
    return branch


def segment_of(branch: Branch, first: int) -> Segment:
    return Segment.objects.unscoped(Reason.TEST).get(branch=branch, first_step=first)


def test_packed_steps_are_looked_at_one_by_one(packed):
    pack_branch(packed.pk, force=True)
    tally = Tally()
    assert list(verify(tally=tally)) == []
    assert (tally.steps, tally.segments) == (190, 4)


PACKED: dict[str, Change] = {
    "an altered segment": (
        "UPDATE checkpoints_segment SET record = set_byte(record, 300,"
        " get_byte(record, 300) # 1) WHERE id = %(segment)s",
        ("checkpoints.segment", "segment", "does not open"),
    ),
    "the segment of another branch": (
        "UPDATE checkpoints_segment SET record = (SELECT record FROM"
        " checkpoints_segment WHERE branch_id = %(side)s) WHERE id = %(segment)s",
        ("checkpoints.segment", "segment", "does not open"),
    ),
    "a missing segment": (
        "DELETE FROM checkpoints_segment WHERE id = %(segment)s",
        ("checkpoints.checkpoint", "first", "operations of step 64 are missing"),
    ),
    "a segment that says fewer steps": (
        "UPDATE checkpoints_segment SET last_step = 126 WHERE id = %(segment)s",
        ("checkpoints.segment", "segment", "other steps than its row"),
    ),
    "a segment that begins at another step": (
        "UPDATE checkpoints_segment SET first_step = 65 WHERE id = %(segment)s",
        ("checkpoints.checkpoint", "first", "operations of step 64 are missing"),
    ),
    "a segment that begins nowhere": (
        "UPDATE checkpoints_segment SET first_step = 900, last_step = 963"
        " WHERE id = %(segment)s",
        ("checkpoints.checkpoint", "first", "operations of step 64 are missing"),
    ),
    "a segment too many": (
        "INSERT INTO checkpoints_segment (id, workspace_id, thread_id, branch_id,"
        " first_step, last_step, data_key, record, created_at) SELECT"
        " gen_random_uuid(), workspace_id, thread_id, branch_id, 900, 963, data_key,"
        " record, now() FROM checkpoints_segment WHERE id = %(segment)s",
        ("checkpoints.branch", "branch", "3 segments, of which 2 begin"),
    ),
    "a segment in another workspace": (
        "UPDATE checkpoints_segment SET workspace_id = %(other)s WHERE id = %(segment)s",
        ("checkpoints.segment", "segment", "stands in another workspace"),
    ),
    "a segment that names another key": (
        "UPDATE checkpoints_segment SET data_key = gen_random_uuid()"
        " WHERE id = %(segment)s",
        ("checkpoints.segment", "segment", "which this thread has not"),
    ),
    "a packed step that has a delta": (
        "INSERT INTO checkpoints_checkpointdelta (checkpoint_id, workspace_id,"
        " thread_id, branch_id, step, record) SELECT %(first)s, workspace_id,"
        " thread_id, branch_id, 64, record FROM checkpoints_segment"
        " WHERE id = %(segment)s",
        ("checkpoints.checkpointdelta", "first", "is in a segment, too"),
    ),
    "an altered row of a packed step": (
        "UPDATE checkpoints_checkpoint SET cost = 7 WHERE id = %(first)s",
        ("checkpoints.checkpoint", "first", "Step 64 is not as it was written"),
    ),
    "a packed step without a row": (
        "DELETE FROM checkpoints_checkpoint WHERE id = %(first)s",
        ("checkpoints.branch", "branch", "Step 64 is missing"),
    ),
}


@pytest.mark.parametrize("change", PACKED)
def test_what_was_changed_of_packed_steps_is_named(packed, untouched, change):
    ids = {
        "segment": segment_of(packed, 64).pk,
        "first": step_of(packed, 64).pk,
        "branch": packed.pk,
        "side": side_of(packed).pk,
        "other": make_workspace("rival").pk,
    }
    must_name(PACKED[change], ids, packed.thread_id)
