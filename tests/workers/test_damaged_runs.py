"""A run that meets a damaged record fails with the reason; the others go on."""

from __future__ import annotations

import pytest

from agents.models import Run
from agents.runs import start
from checkpoints import gate
from checkpoints.errors import CheckpointsError
from checkpoints.log.pack import pack_branch
from tests.tampering import tamper

pytestmark = pytest.mark.django_db(transaction=True)

FLIPPED = "set_byte({0}, 90, get_byte({0}, 90) # 1)"
DAMAGE = {
    "unreadable_record": (
        "UPDATE checkpoints_checkpointdelta SET record ="
        " set_byte(record, 90, get_byte(record, 90) # 1)"
        " WHERE branch_id = %(branch)s AND step = 1",
        "Step 1",
    ),
    "unreadable_record: plain text": (
        "UPDATE checkpoints_checkpointdelta SET record = 'plain'"
        " WHERE branch_id = %(branch)s AND step = 1",
        "Step 1",
    ),
    "broken_chain": (
        "UPDATE checkpoints_checkpoint SET kind = 'edit'"
        " WHERE branch_id = %(branch)s AND step = 1",
        "Step 1 of branch .* is not as it was written",
    ),
    "unknown_key": (
        "UPDATE checkpoints_checkpoint SET data_key = gen_random_uuid()"
        " WHERE branch_id = %(branch)s AND step = 1",
        "key",
    ),
}


@pytest.mark.parametrize("code", DAMAGE)
def test_a_run_that_meets_damage_fails_and_says_what(
    begin, work, server, alice, bob, code
):
    server.will_say("One.")
    first = begin()
    work()
    sql, said = DAMAGE[code]
    server.will_say("Another.")
    other = begin("Another trip.")
    start.send_message(first.branch, message="Go on.", by=alice)
    assert tamper(sql, {"branch": first.branch_id})
    work()
    run = Run.objects.exclude(pk=first.pk).get(branch=first.branch)
    assert (run.status, run.error_class) == ("failed", code.partition(":")[0])
    seen = gate.admit(alice, purpose="test", threads=[run.thread])
    with pytest.raises(CheckpointsError, match=said):
        raise CheckpointsError(seen.open(run, "error"))
    other.refresh_from_db()
    assert other.status == "succeeded"
    assert run.branch.holder is None


def test_a_run_whose_key_row_is_damaged_ends_without_words(begin, work, server, alice):
    server.will_say("Another.")
    run, other = begin(), begin("Another trip.")
    tamper(
        f"UPDATE checkpoints_datakey SET wrapped = {FLIPPED.format('wrapped')}"  # noqa: S608
        " WHERE thread_id = %s",
        [run.thread_id],
    )
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class, run.error) == (
        "failed",
        "unreadable_record",
        None,
    )
    other.refresh_from_db()
    assert other.status == "succeeded"


def test_a_damaged_segment_fails_its_run_and_no_other(begin, work, server, alice):
    server.will_say("One.")
    run = begin()
    work()
    pack_branch(run.branch_id, force=True)
    tamper(
        f"UPDATE checkpoints_segment SET record = {FLIPPED.format('record')}"  # noqa: S608
        " WHERE branch_id = %s",
        [run.branch_id],
    )
    start.send_message(run.branch, message="Go on.", by=alice)
    work()
    again = Run.objects.exclude(pk=run.pk).get()
    assert (again.status, again.error_class) == ("failed", "unreadable_record")
