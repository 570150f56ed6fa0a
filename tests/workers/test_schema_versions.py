"""State that older code wrote, and newer code, meets the code that is here."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from agents.errors import BadDeclaration
from agents.models import Run
from agents.runs import start
from agents.runs.edits import ForkEdits
from agents.runs.migrate import migrate_heads
from agents.tools import Agent
from checkpoints import gate
from checkpoints.errors import FutureSchema, MissingMigration
from checkpoints.keys import hierarchy
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.models import AuditEvent, Branch, Checkpoint
from checkpoints.pure import ops
from checkpoints.pure.schema import Migrations
from tests.conftest import STATE
from tests.workers.conftest import kinds
from tests.workers.desk.agents import scribe

pytestmark = pytest.mark.django_db(transaction=True)

OLD = {**STATE, "goal": "a flight", "facts": {"name": "Helen"}}


@pytest.fixture
def old(make_thread, alice) -> Branch:
    """A thread that version 1 began."""
    branch: Branch = make_thread(owner=alice, state=OLD)
    return branch


def say(branch: Branch, by: Any, text: str = "Go on.") -> Run:
    start.send_message(branch, message=text, by=by, agent=scribe.name)
    return Run.objects.get(branch=branch, status="ready")


def newer(branch: Branch) -> Branch:
    """A step of code that is not here yet."""
    branch.refresh_from_db()
    step = NewStep("edit", [ops.put("", "_schema", 9)], "newer", schema_version=9)
    commit(writer(branch), step)
    branch.refresh_from_db()
    return branch


def failed(run: Run) -> str:
    run.refresh_from_db()
    assert run.status == "failed"
    return run.error_class


def test_the_first_step_of_a_run_keeps_what_the_migrations_changed(
    old, alice, work, server, history
):
    server.will_say("Done.")
    run = say(old, alice)
    work()
    run.refresh_from_db()
    assert run.status == "succeeded", run.error_class
    assert kinds(run) == ["input", "migrate", "input", "model"]
    old.refresh_from_db()
    seen = history(old)
    assert seen.state_at(0) == OLD  # history is as it was
    after = seen.state_at(1)
    assert after["_schema"] == 3
    assert after["traveller"] == {"name": "Helen"}
    assert after["facts"] == {"goal": "a flight"}
    step = seen.record(1)
    assert step.label == "State brought from schema version 1 to 3"
    assert step.run == run.pk
    assert [r.schema_version for r in seen.records] == [1, 3, 3, 3]
    assert run.steps == 3
    # What is stored no longer depends on the migrations' code.
    assert ops.fold(OLD, step.ops) == after


def test_a_run_migrates_once(old, alice, work, server):
    server.will_say("One.")
    server.will_say("Two.")
    say(old, alice)
    work()
    run = say(old, alice)
    work()
    assert kinds(run).count("migrate") == 1


def test_new_threads_begin_with_the_current_version(alice, server):
    run = start.start_run(agent=scribe.name, message="Hello.", by=alice)
    assert run.agent_version.schema_version == 3
    assert Checkpoint.objects.get(branch=run.branch_id).schema_version == 3


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raising", "The migration from schema version 2 raised KeyError"),
        ("a date", r"version 2 returned what cannot be stored: \$.facts.at"),
        ("a list", "version 2 returned list, not a state"),
    ],
)
def test_a_migration_that_fails_fails_the_run_with_the_reason(
    make_thread, alice, work, server, history, how, said
):
    branch = make_thread(owner=alice, state={**OLD, "facts": {"breaks by": how}})
    run = say(branch, alice)
    work()
    assert failed(run) == "migration_failed"
    branch.refresh_from_db()
    record = history(branch).records[-1]
    assert (record.kind, record.schema_version) == ("error", 1)
    seen = gate.admit(alice, purpose="test", threads=[branch.thread])
    reason = seen.open(run, "error")
    assert re.search(said, reason)
    assert "a flight" not in reason  # the goal, which the exception quotes
    assert server.requests == []


def test_state_that_is_too_old_for_the_code_is_refused():
    late = Agent("late", model="scripted", system="", schema_version=3)
    with pytest.raises(MissingMigration, match="from schema version 1"):
        late.current(OLD)


def test_a_message_to_state_from_the_future_is_refused_and_nothing_kept(old, alice):
    newer(old)
    with pytest.raises(FutureSchema, match="version 9; this version reads up to 3"):
        say(old, alice)
    assert not old.inputs.exists()
    assert not Run.objects.exists()


def test_a_fork_goes_on_from_an_old_step_and_not_from_one_of_the_future(
    old, alice, work, server, history
):
    server.will_say("Done.")
    say(old, alice)
    work()
    newer(old)
    future, first = old.head, old.checkpoints.get(step=0)
    with pytest.raises(FutureSchema):
        start.fork_run(future, edits=ForkEdits(), name="no", by=alice)
    assert not Branch.objects.filter(parent=old).exists()
    server.will_say("Again.")
    side = start.fork_run(first, edits=ForkEdits(seed=9), name="side", by=alice)
    work()
    side.refresh_from_db()
    seen = history(side)
    assert [r.kind for r in seen.records] == ["input", "edit", "migrate", "model"]
    assert [r.schema_version for r in seen.records] == [1, 1, 3, 3]
    assert seen.state_at(2)["params"]["seed"] == 9


def test_a_run_that_meets_state_from_the_future_fails_and_others_go_on(
    old, make_thread, alice, work, server
):
    server.will_say("Done.")
    run = say(old, alice)
    other = say(make_thread(owner=alice, state=OLD), alice)
    newer(old)
    work()
    assert failed(run) == "future_schema"
    other.refresh_from_db()
    assert other.status == "succeeded"
    old.refresh_from_db()
    assert old.head.schema_version == 9  # of the step that says so, too


def test_gaps_in_an_agents_migrations_stop_the_start():
    gap = Migrations()
    gap.add(from_version=1)(lambda state: state)
    with pytest.raises(BadDeclaration, match="one from each up to 2"):
        Agent("gap", model="m", system="", schema_version=3, migrations=gap)
    with pytest.raises(BadDeclaration, match="is not from 1"):
        Agent("none", model="m", system="", schema_version=0)


# manage.py schema


def schema(*args: str) -> str:
    out = StringIO()
    call_command("schema", *args, stdout=out, stderr=out)
    return " ".join(out.getvalue().split())


@pytest.fixture
def worked(old, alice, work, server) -> Branch:
    """A thread of the scribe's, whose head was put back to version 1 by a fork."""
    server.will_say("Done.")
    say(old, alice)
    work()
    return start.fork_run(
        old.checkpoints.get(step=0),
        edits=ForkEdits(),
        name="side",
        by=alice,
        run=False,
    )


def test_the_command_says_who_stands_where_and_opens_nothing(worked):
    opened = AuditEvent.objects.filter(action="open").count()
    said = schema()
    assert "acme test-scribe 1 1 0 behind: the code here has 3" in said
    assert "acme test-scribe 3 1 0 current" in said
    newer(worked)
    assert "test-scribe 9 1 0 from the future: the code here reads up to 3" in schema()
    assert AuditEvent.objects.filter(action="open").count() == opened


def test_the_command_migrates_heads_and_can_be_run_again(worked, history):
    assert "1 would be migrated" in schema("migrate", "--dry-run")
    assert "test-scribe 1 1" in schema()
    assert "1 migrated" in schema("migrate", "--agent", scribe.name)
    worked.refresh_from_db()
    seen = history(worked)
    assert [r.kind for r in seen.records] == ["input", "migrate"]
    assert seen.state_at(1)["traveller"] == {"name": "Helen"}
    assert AuditEvent.objects.filter(purpose="schema").count() == 2
    assert "0 migrated" in schema("migrate")
    assert "test-scribe 3 2" in schema()


def test_the_command_leaves_what_a_run_holds_and_counts_what_is_gone(
    worked, make_thread
):
    worked.holder = worked.pk
    worked.save(update_fields=["holder"])
    assert "0 migrated, 1 held by a run" in schema("migrate")
    worked.holder = None
    worked.save(update_fields=["holder"])
    hierarchy.destroy_thread_keys(worked.thread_id)
    assert "0 migrated, 0 held by a run, 1 shredded" in schema("migrate")


def test_somebody_who_takes_the_branch_meanwhile_keeps_it(worked):
    outcomes = migrate_heads(scribe)
    Branch.objects.filter(pk=worked.pk).update(fence=worked.fence + 1)
    assert [outcome.status for outcome in outcomes] == ["migrated"]  # read after that


def test_the_command_goes_on_after_a_head_that_fails(worked, make_thread, alice):
    bad = make_thread(owner=alice, state={**OLD, "facts": {"breaks by": "raising"}})
    start.send_message(bad, message="x", by=alice, agent=scribe.name)
    out = StringIO()
    with pytest.raises(CommandError, match="1 branches could not"):
        call_command("schema", "migrate", stdout=out, stderr=out)
    assert "1 migrated" in out.getvalue()
    assert f"branch {bad.pk}: The migration from schema version 2 raised" in (
        out.getvalue()
    )


def test_the_command_knows_agents_and_workspaces(db):
    with pytest.raises(CommandError, match="No agent is called 'x'"):
        schema("migrate", "--agent", "x")
    with pytest.raises(CommandError, match="No workspace is called 'x'"):
        schema("--workspace", "x")
