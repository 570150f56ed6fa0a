"""The database itself lets no content go that is nowhere else, nor in the journal."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from checkpoints import blobs
from checkpoints.access import Reason, unscoped
from checkpoints.log.pack import pack_branch
from checkpoints.models import Blob, Branch
from tests.checkpoints.packing import deltas, grow, segments

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.owner]


@pytest.fixture
def branch(make_thread) -> Branch:
    made = make_thread()
    grow(made, 70)
    return made


def run(*statements: str, branch: Branch) -> None:
    """These statements in one transaction, by whom no right is missing."""
    place: dict[str, Any] = {"branch": branch.pk, "thread": branch.thread_id}
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement, place)


OF_BRANCH = "WHERE branch_id = %(branch)s"
DELTAS = f"DELETE FROM checkpoints_checkpointdelta {OF_BRANCH}"  # noqa: S608
SEGMENTS = f"DELETE FROM checkpoints_segment {OF_BRANCH}"  # noqa: S608
BLOBS = "DELETE FROM checkpoints_blob WHERE thread_id = %(thread)s"
MARK = "UPDATE checkpoints_thread SET pruned_at = now() WHERE id = %(thread)s"


@pytest.mark.parametrize(
    ("statements", "lost"),
    [
        ([f"{DELTAS} AND step = 68"], "step 68"),
        ([DELTAS], "would be lost"),
        ([SEGMENTS], "steps 0 to 63"),
        ([MARK, DELTAS], "would be lost"),
        ([MARK, SEGMENTS], "steps 0 to 63"),
        ([BLOBS], "blob .* would be lost"),
        ([MARK, BLOBS], "would be lost"),
    ],
)
def test_content_that_is_nowhere_else_stays(branch, statements, lost):
    pack_branch(branch.pk)
    blobs.put(branch.thread, b"x" * 1000, media_type="text/plain")
    with pytest.raises(DatabaseError, match=lost):
        run(*statements, branch=branch)
    assert segments(branch) == [(0, 63)]
    assert deltas(branch) == list(range(64, 71))
    with unscoped(Reason.TEST):
        assert Blob.objects.exists()


def segment(first: int, last: int) -> str:
    """A statement that makes a segment, of nothing."""
    return f"""
        INSERT INTO checkpoints_segment (id, workspace_id, thread_id, branch_id,
            first_step, last_step, data_key, record, created_at)
        SELECT gen_random_uuid(), workspace_id, thread_id, branch_id, {first}, {last},
            gen_random_uuid(), record, now()
        FROM checkpoints_checkpointdelta {OF_BRANCH} AND step = 0
    """  # noqa: S608


def test_a_segment_of_other_steps_stands_for_none(branch):
    """Nor does one that goes again in the same transaction."""
    with pytest.raises(DatabaseError, match="step 0 "):
        run(segment(1, 70), DELTAS, branch=branch)
    with pytest.raises(DatabaseError, match="steps 0 to 70"):
        run(segment(0, 70), DELTAS, SEGMENTS, branch=branch)
    assert deltas(branch) == list(range(71))


def test_what_the_journal_has_may_go(branch):
    pack_branch(branch.pk)
    journal = """
        INSERT INTO checkpoints_deletion (id, workspace_id, thread_id, what, steps, at)
        SELECT gen_random_uuid(), workspace_id, id, 'archived', 0, now()
        FROM checkpoints_thread WHERE id = %(thread)s
    """
    run(journal, branch=branch)
    with pytest.raises(DatabaseError, match="would be lost"):
        run(DELTAS, branch=branch)  # of an earlier time: the content is here
    run(MARK, DELTAS, SEGMENTS, BLOBS, branch=branch)
    assert (segments(branch), deltas(branch)) == ([], [])
