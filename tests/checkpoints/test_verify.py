"""`verify_checkpoints` looks at everything and names what is not as it was written."""

from __future__ import annotations

import json
from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from checkpoints import gate
from checkpoints.access import Reason
from checkpoints.log import expire
from checkpoints.log.threads import fork
from checkpoints.log.verify import Tally, verify
from checkpoints.models import (
    AuditEvent,
    Branch,
    DataKey,
    ThreadInput,
    WorkspaceKey,
)
from tests.checkpoints.verifying import (
    Change,
    must_name,
    only,
    side_of,
    step_of,
    with_steps,
)
from tests.conftest import make_workspace
from tests.tampering import tamper

# `verify_checkpoints` is a command of the server's: it has the owner's rights.
pytestmark = [pytest.mark.django_db, pytest.mark.owner]


@pytest.fixture
def branch(make_thread, alice) -> Branch:
    """Five steps, a fork at the third with two more, and a message that waits."""
    branch = with_steps(make_thread(owner=alice), "abcd")
    side = fork(step_of(branch, 2), name="side", by_id=alice.user_id)
    with_steps(side, "xy")
    said = ThreadInput(
        workspace_id=branch.workspace_id, thread=branch.thread, branch=branch
    )
    said.content = gate.seal(said, "content", "And a hotel.")
    said.save(force_insert=True)
    return branch


@pytest.fixture
def untouched(make_thread, alice) -> Branch:
    return with_steps(make_thread(owner=alice), "pq")


def key_of(branch: Branch, purpose: str) -> DataKey:
    return DataKey.objects.unscoped(Reason.TEST).get(
        thread=branch.thread, purpose=purpose
    )


def test_what_is_as_it_was_written_gives_no_finding(branch, untouched):
    tally = Tally()
    assert list(verify(tally=tally)) == []
    assert (tally.threads, tally.bad, tally.shredded) == (2, 0, 0)
    assert tally.steps == 5 + 2 + 3
    assert tally.records == 2 + 3 + 1  # titles, branch names, the message
    assert tally.keys == 4 + 4  # of two threads; the workspace's own and its three


def test_each_opening_has_its_access_row(branch, untouched):
    list(verify(thread_id=branch.thread_id))
    row = AuditEvent.objects.unscoped(Reason.TEST).get(purpose="verify")
    assert row.object_id == branch.thread_id
    assert row.detail["task"] == "verify"
    list(verify())
    rows = AuditEvent.objects.unscoped(Reason.TEST).filter(purpose="verify")
    assert [r.detail.get("count") for r in rows.order_by("position")] == [None, None, 2]


CHANGES: dict[str, Change] = {
    "an altered delta": (
        "UPDATE checkpoints_checkpointdelta SET record = set_byte(record, 90,"
        " get_byte(record, 90) # 1) WHERE checkpoint_id = %(step)s",
        ("checkpoints.checkpointdelta", "step", "does not open"),
    ),
    "a delta in plain text": (
        "UPDATE checkpoints_checkpointdelta SET record ="
        ' convert_to(\'{"context":null,"label":"","ops":[]}\', \'UTF8\')'
        " WHERE checkpoint_id = %(step)s",
        ("checkpoints.checkpointdelta", "step", "not a sealed record"),
    ),
    "a missing delta": (
        "DELETE FROM checkpoints_checkpointdelta WHERE checkpoint_id = %(step)s",
        ("checkpoints.checkpoint", "step", "operations of step 2 are missing"),
    ),
    "a delta that says another step": (
        "UPDATE checkpoints_checkpointdelta SET step = 99 WHERE checkpoint_id = %(step)s",
        ("checkpoints.checkpointdelta", "step", "stands elsewhere"),
    ),
    "a missing step": (
        "DELETE FROM checkpoints_checkpoint WHERE id = %(step)s",
        ("checkpoints.branch", "branch", "Step 2 is missing"),
    ),
    "a step under another parent": (
        "UPDATE checkpoints_checkpoint SET parent_id = NULL WHERE id = %(step)s",
        ("checkpoints.checkpoint", "step", "another step before it"),
    ),
    "a step in another workspace": (
        "UPDATE checkpoints_checkpoint SET workspace_id = %(other)s WHERE id = %(step)s",
        ("checkpoints.checkpoint", "step", "stands in another workspace"),
    ),
    "a step that took place at another time": (
        "UPDATE checkpoints_checkpoint SET created_at = created_at - interval '3 days'"
        " WHERE id = %(step)s",
        ("checkpoints.checkpoint", "step", "by its id it was made"),
    ),
    "a step that names another data key": (
        "UPDATE checkpoints_checkpoint SET data_key = gen_random_uuid()"
        " WHERE id = %(step)s",
        ("checkpoints.checkpointdelta", "step", "which this thread has not"),
    ),
    "a head put back": (
        "UPDATE checkpoints_branch SET head_step = 3 WHERE id = %(branch)s",
        ("checkpoints.branch", "branch", "head is step 3"),
    ),
    "a head with another MAC": (
        "UPDATE checkpoints_branch SET head_mac = sha256(head_mac) WHERE id = %(branch)s",
        ("checkpoints.branch", "branch", "another MAC"),
    ),
    "a head that is no step of it": (
        "UPDATE checkpoints_branch SET head_id = gen_random_uuid() WHERE id = %(branch)s",
        ("checkpoints.branch", "branch", "head is step 4"),
    ),
    "a fork from a step that is none": (
        "UPDATE checkpoints_branch SET fork_step = 77 WHERE id = %(side)s",
        ("checkpoints.branch", "side", "there is no such step"),
    ),
    "a fork that names another checkpoint": (
        "UPDATE checkpoints_branch SET forked_from_id = parent_id WHERE id = %(side)s",
        ("checkpoints.branch", "side", "names another checkpoint"),
    ),
    "a fork moved to an earlier step": (
        "UPDATE checkpoints_branch SET fork_step = 1, forked_from_id ="
        " (SELECT id FROM checkpoints_checkpoint WHERE branch_id = %(branch)s AND step = 1)"
        " WHERE id = %(side)s",
        ("checkpoints.branch", "side", "Step 2 is missing"),
    ),
    "a branch without the one it leaves": (
        "UPDATE checkpoints_branch SET parent_id = NULL WHERE id = %(side)s",
        ("checkpoints.branch", "side", "no parent"),
    ),
    "a branch that is its own ancestor": (
        "UPDATE checkpoints_branch SET parent_id = id, fork_step = 3 WHERE id = %(side)s",
        ("checkpoints.branch", "side", "there is no such step"),
    ),
    "a branch in another workspace": (
        "UPDATE checkpoints_branch SET workspace_id = %(other)s WHERE id = %(side)s",
        ("checkpoints.branch", "side", "stands in another workspace"),
    ),
    "an altered title": (
        "UPDATE checkpoints_thread SET title = set_byte(title, 20,"
        " get_byte(title, 20) # 128) WHERE id = %(thread)s",
        ("checkpoints.thread", "thread", "Its title"),
    ),
    "the title of another thread": (
        "UPDATE checkpoints_thread SET title ="
        " (SELECT title FROM checkpoints_thread WHERE id = %(rival)s)"
        " WHERE id = %(thread)s",
        ("checkpoints.thread", "thread", "Its title"),
    ),
    "the name of another branch": (
        "UPDATE checkpoints_branch SET name ="
        " (SELECT name FROM checkpoints_branch WHERE id = %(branch)s)"
        " WHERE id = %(side)s",
        ("checkpoints.branch", "side", "Its name"),
    ),
    "a message in another workspace": (
        "UPDATE checkpoints_threadinput SET workspace_id = %(other)s"
        " WHERE thread_id = %(thread)s",
        ("checkpoints.threadinput", "input", "another workspace"),
    ),
    "an altered data key": (
        "UPDATE checkpoints_datakey SET wrapped = set_byte(wrapped, 100,"
        " get_byte(wrapped, 100) # 4) WHERE id = %(data)s",
        ("checkpoints.datakey", "data", "does not unwrap"),
    ),
    "the data key of another thread": (
        "UPDATE checkpoints_datakey SET wrapped = (SELECT wrapped FROM"
        " checkpoints_datakey WHERE thread_id = %(rival)s AND purpose = 'data')"
        " WHERE id = %(data)s",
        ("checkpoints.datakey", "data", "does not unwrap"),
    ),
    "data key and MAC key exchanged": (
        "UPDATE checkpoints_datakey SET purpose = CASE purpose WHEN 'data' THEN 'mac'"
        " ELSE 'data' END, version = 2 WHERE thread_id = %(thread)s",
        ("checkpoints.datakey", "mac", "does not unwrap"),
    ),
    "no MAC key": (
        "DELETE FROM checkpoints_datakey WHERE id = %(mac)s",
        ("checkpoints.thread", "thread", "has no MAC key"),
    ),
    "one of two keys destroyed": (
        "UPDATE checkpoints_datakey SET wrapped = NULL, destroyed_at = now()"
        " WHERE id = %(data)s",
        ("checkpoints.datakey", "data", "not all of its thread's"),
    ),
    "a key that was destroyed and is there": (
        "UPDATE checkpoints_datakey SET destroyed_at = now() WHERE id = %(data)s",
        ("checkpoints.datakey", "data", "still there"),
    ),
    "content that is said to be gone": (
        "UPDATE checkpoints_thread SET pruned_at = now() WHERE id = %(thread)s",
        ("checkpoints.thread", "thread", "the deletion journal does not"),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_is_named_and_nothing_else(branch, untouched, change):
    ids = {
        "step": step_of(branch, 2).pk,
        "branch": branch.pk,
        "side": side_of(branch).pk,
        "thread": branch.thread_id,
        "rival": untouched.thread_id,
        "other": make_workspace("rival").pk,
        "data": key_of(branch, "data").pk,
        "mac": key_of(branch, "mac").pk,
        "input": ThreadInput.objects.unscoped(Reason.TEST).get().pk,
    }
    must_name(CHANGES[change], ids, branch.thread_id)


def test_a_bad_key_of_the_workspace_is_named_once_for_it(branch):
    key = WorkspaceKey.objects.unscoped(Reason.TEST).get()
    tamper(
        "UPDATE checkpoints_workspacekey SET wrapped = sha256(wrapped) WHERE id = %s",
        [key.pk],
    )
    first, second = verify()
    assert (first.thread_id, first.table, first.row) == (
        None,
        "checkpoints.workspacekey",
        key.pk,
    )
    assert second.thread_id == branch.thread_id


def test_an_unknown_key_encryption_key_is_named(branch):
    tamper("UPDATE checkpoints_workspacekey SET kek = 'kek:keyring:2019:1'")
    first, *_ = verify()
    assert "'kek:keyring:2019:1' is not in KEY_ENCRYPTION_KEYS" in first.problem


def test_a_shredded_thread_is_counted_and_not_bad(branch, untouched):
    expire.shred(branch.thread_id)
    tally = Tally()
    assert list(verify(tally=tally)) == []
    assert (tally.threads, tally.shredded) == (2, 1)


def test_a_key_that_was_destroyed_past_the_journal_is_named(branch, untouched, alice):
    """Or pages would say "shredded by" whoever a forger names."""
    tamper(
        "UPDATE checkpoints_datakey SET wrapped = NULL, destroyed_at = now(),"
        " destroyed_by_id = %s WHERE thread_id = %s",
        [alice.user_id, branch.thread_id],
    )
    found = only(list(verify()), branch.thread_id)
    assert found.table == "checkpoints.datakey"
    assert "the deletion journal does not say" in found.problem


def test_a_key_that_came_back_from_a_backup_is_named(branch, untouched):
    keys = DataKey.objects.unscoped(Reason.TEST).filter(thread=branch.thread)
    kept = {key.pk: bytes(key.wrapped or b"") for key in keys}
    expire.shred(branch.thread_id)
    for pk, wrapped in kept.items():
        tamper(
            "UPDATE checkpoints_datakey SET wrapped = %s, destroyed_at = NULL"
            " WHERE id = %s",
            [wrapped, pk],
        )
    found = only(list(verify()), branch.thread_id)
    assert "By the deletion journal it was destroyed" in found.problem


def test_a_step_of_a_branch_of_another_thread_is_named(branch, untouched):
    step = step_of(untouched, 2)
    tamper(
        "UPDATE checkpoints_checkpoint SET thread_id = %s WHERE id = %s",
        [branch.thread_id, step.pk],
    )
    found = list(verify())
    assert {one.thread_id for one in found} == {branch.thread_id, untouched.thread_id}
    assert any("belongs to another thread" in one.problem for one in found)


def test_the_command_names_the_row_and_ends_with_an_error(branch, untouched, capsys):
    step = step_of(branch, 2)
    tamper(
        "UPDATE checkpoints_checkpoint SET status = 'failed' WHERE id = %s", [step.pk]
    )
    out = StringIO()
    with pytest.raises(CommandError, match="1 of them bad"):
        call_command("verify_checkpoints", stdout=out)
    assert (
        f"checkpoints.checkpoint {step.pk}: Step 2 is not as it was" in out.getvalue()
    )
    assert "Looked at 2 threads" in out.getvalue()
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("verify_checkpoints", "--json", stdout=out)
    finding, tally = map(json.loads, out.getvalue().splitlines())
    assert (finding["thread_id"], finding["row"]) == (
        str(branch.thread_id),
        str(step.pk),
    )
    assert (tally["threads"], tally["bad"]) == (2, 1)


def test_the_command_looks_at_one_thread_or_workspace(branch, untouched):
    out = StringIO()
    call_command("verify_checkpoints", "--thread", str(branch.thread_id), stdout=out)
    assert "1 threads: 7 steps" in out.getvalue()
    out = StringIO()
    make_workspace("rival")
    call_command("verify_checkpoints", "--workspace", "rival", stdout=out)
    assert "0 threads" in out.getvalue()
    with pytest.raises(CommandError, match="no thread"):
        call_command("verify_checkpoints", "--thread", str(uuid4()))
    with pytest.raises(CommandError, match=r"No workspace is called 'x'.*acme, rival"):
        call_command("verify_checkpoints", "--workspace", "x")
