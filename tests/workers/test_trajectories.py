"""Golden paths of real runs, exported: the right ones, whole, masked, and on the record."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from agents.approvals import decide
from agents.debug import remarks
from agents.debug.trajectories import Report, Wanted, runs, write
from agents.models import Agent, AgentVersion, Run
from agents.pure.trajectory import problems
from agents.runs.start import send_message
from checkpoints.access import Reason, UserPrincipal, unscoped
from checkpoints.errors import NotPermitted
from checkpoints.models import AuditEvent, Branch
from tests.workers.conftest import pending
from tests.workers.desk.agents import desk

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = f"sk-{'a1b2c3' * 6}"


@pytest.fixture
def done(begin, server, work, bob):
    """A run that looked something up, booked it with a person's approval, and answered."""

    def done(
        message: str = "Book it.", *, edited: str = "", says: str = "Booked."
    ) -> Run:
        server.reset()  # or a request that was answered before is answered so again
        server.will_call("look-1", "look", what="hotel")
        server.will_call("book-1", "book", item="hotel", price="2000")
        server.will_say(says)
        run: Run = begin(message)
        work()
        [approval] = pending(run)
        seen = approval.as_shown()
        if edited:
            arguments = {"item": "hotel", "price": edited}
            decide.edit(approval, seen=seen, by=bob, arguments=arguments)
        else:
            decide.approve(approval, seen=seen, by=bob)
        work()
        run.refresh_from_db()
        assert run.status == "succeeded", run.error_class
        return run

    return done


@pytest.fixture
def failed(begin, server, work):
    server.fault("401", times=None)
    run: Run = begin("Fail.")
    work()
    run.refresh_from_db()
    assert run.status == "failed"
    server.reset()
    return run


def exported(by: UserPrincipal, **wanted: Any) -> tuple[list[dict[str, Any]], Report]:
    out = io.StringIO()
    report = write(Wanted(**wanted), by, out)
    return [json.loads(line) for line in out.getvalue().splitlines()], report


def test_a_run_that_succeeded_is_an_example_with_its_tools_and_results(done, alice):
    done()
    [made], report = exported(alice)
    assert list(problems(made)) == []
    assert [message["role"] for message in made["messages"]] == [
        "system",
        "user",
        *["assistant", "tool"] * 2,
        "assistant",
    ]
    assert made["messages"][-1]["content"] == "Booked."
    assert {tool["function"]["name"] for tool in made["tools"]} >= {"look", "book"}
    assert (report.examples, report.left_out) == (1, {})


def test_runs_are_chosen_by_outcome_edits_cost_agent_and_version(done, failed, alice):
    plain, edited = done("Book it."), done("Book it, too.", edited="1500")

    def chosen(**wanted: Any) -> set[Any]:
        return {run.pk for run in runs(Wanted(**wanted), alice)}

    assert chosen() == {plain.pk, edited.pk}
    assert chosen(outcome="failed") == {failed.pk}
    assert chosen(unedited=True) == {plain.pk}
    assert chosen(agent=desk.name, version=1) == {plain.pk, edited.pk}
    assert chosen(version=2) == chosen(agent="nobody") == set()
    Run.objects.filter(pk=edited.pk).update(cost=Decimal("0.50"))
    Run.objects.filter(pk=plain.pk).update(cost=Decimal("0.05"))
    assert chosen(most_cost=Decimal("0.1")) == {plain.pk}
    assert chosen(most=1) == {edited.pk}  # the newest


def test_a_verdict_of_the_branch_counts_before_that_of_the_thread(done, alice):
    run, other = done(), done()

    def say(good: bool, branch: Any = None, of: Run = run) -> None:
        about = remarks.About(of.thread, branch)
        remarks.judge(about, alice, good=good, reason="")

    say(True)
    say(False, of=other)
    assert [each.pk for each in runs(Wanted(verdict="good"), alice)] == [run.pk]
    say(False, run.branch)
    assert not runs(Wanted(verdict="good"), alice).exists()
    assert runs(Wanted(verdict="bad"), alice).count() == 2


def test_of_the_same_task_the_cheapest_is_taken(done, alice):
    dear, cheap, other = done(), done(" Book it.\n", says="Cheap."), done("Another.")
    for run, cost in ((dear, "0.9"), (cheap, "0.1"), (other, "2")):
        Run.objects.filter(pk=run.pk).update(cost=Decimal(cost))
    made, report = exported(alice, cheapest=True)
    answers = [each["messages"][-1]["content"] for each in made]
    assert answers == ["Cheap.", "Booked."]
    assert report.left_out == {"another run did the same for less": 1}


def test_what_was_edited_earlier_in_the_thread_is_no_unedited_path(
    done, server, work, alice
):
    run = done(edited="1500")
    server.will_say("Anything else?")
    send_message(run.branch, by=alice, message="Thanks.")
    work()
    assert runs(Wanted(), alice).count() == 2
    assert not runs(Wanted(unedited=True), alice).exists()


def test_a_cheaper_run_that_is_no_example_leaves_its_task_to_another(done, alice):
    odd, good = done(), done(" Book it.", says="Good.")
    for run, cost in ((odd, "0.1"), (good, "0.9")):
        Run.objects.filter(pk=run.pk).update(cost=Decimal(cost))
    Run.objects.filter(pk=odd.pk).update(agent_version=_of_nobody(odd))
    made, report = exported(alice, cheapest=True)
    assert [each["messages"][-1]["content"] for each in made] == ["Good."]
    assert list(report.left_out) == [
        "a provider would refuse it: messages[2] calls 'look', which is not among the tools"
    ]


def _of_nobody(run: Run) -> AgentVersion:
    """A version of an agent that no code registers: it offers no tools."""
    agent = Agent.objects.create(workspace_id=run.workspace_id, name="nobody")
    return AgentVersion.objects.create(
        workspace_id=run.workspace_id, agent=agent, number=1, digest=b"x", spec=b"x"
    )


def test_a_secret_is_masked_and_counted(done, alice, monkeypatch):
    done(f"Book it with 4242-{'x' * 8}.")
    monkeypatch.setenv("HOLDPOINT_SECRET_CARD", f"4242-{'x' * 8}")
    [made], report = exported(alice)
    assert "4242-" not in json.dumps(made)
    assert report.secrets == ["CARD"]


def test_what_has_no_answer_is_left_out_and_said(failed, alice):
    made, report = exported(alice, outcome="failed")
    assert made == []
    assert report.left_out == {"the agent gave no answer": 1}


def test_each_export_is_on_the_record_and_only_for_who_may_read(
    done, alice, auditor, other
):
    run = done()
    exported(alice)
    event = AuditEvent.objects.get(action="export", purpose="trajectory")
    assert event.object_id == run.thread_id
    assert event.detail["run"] == str(run.pk)
    assert exported(other)[0] == []
    with pytest.raises(NotPermitted):
        exported(auditor)


def test_the_command_writes_a_file_and_says_what_is_in_it(done, alice, tmp_path: Path):
    done()
    file = tmp_path / "golden.jsonl"
    said = io.StringIO()
    call_command("export_trajectories", str(file), "--by", "alice", stdout=said)
    [line] = file.read_text().splitlines()
    assert list(problems(json.loads(line))) == []
    assert ": 1 examples, " in said.getvalue()
    assert file.stat().st_mode & 0o077 == 0
    said = io.StringIO()
    none = [str(tmp_path / "none.jsonl"), "--by", "alice", "--verdict", "bad"]
    call_command("export_trajectories", *none, stdout=said)
    assert "No run is what was asked for." in said.getvalue()
    with pytest.raises(
        CommandError, match=f"knows no agent 'nobody'; it has {desk.name}"
    ):
        call_command("export_trajectories", *none[:3], "--agent", "nobody")
    with pytest.raises(CommandError, match="is there already"):
        call_command("export_trajectories", str(file), "--by", "alice")
    with pytest.raises(CommandError):
        call_command("export_trajectories", str(file), "--by", "alice", "--max-cost=-1")


def test_what_is_exported_can_be_imported_again(done, alice, tmp_path, history):
    done()
    file = tmp_path / "golden.jsonl"
    call_command(
        "export_trajectories", str(file), "--by", "alice", stdout=io.StringIO()
    )
    said = io.StringIO()
    call_command("import_chat", str(file), stdout=said)
    assert "6 steps" in said.getvalue()
    with unscoped(Reason.TEST):
        made = Branch.objects.get(thread__origin="import")
    [line] = map(json.loads, file.read_text().splitlines())
    said_again = history(made).state_at(made.head_step)["messages"]
    assert [m["content"] for m in said_again] == [
        m.get("content") for m in line["messages"][1:]
    ]
