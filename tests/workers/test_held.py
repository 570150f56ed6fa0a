"""Runs that people hold: one by hand, or all of a workspace by the kill switch."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from agents.approvals import decide
from agents.models import Run, ToolCall
from agents.runs import control, reaper, runner, stop
from agents.runs.claim import claim, give_back
from checkpoints.access import Role
from checkpoints.errors import NotPermitted
from checkpoints.models import AuditEvent, Workspace
from tests.workers.conftest import ended, kinds, pending, wait_until

pytestmark = pytest.mark.django_db


def status_of(run: Run) -> str:
    run.refresh_from_db()
    return run.shown_status


def test_a_paused_run_is_not_taken_and_goes_on_when_it_is_resumed(
    begin, work, server, alice
):
    server.will_say("Hello.")
    run = begin()
    assert control.pause(run, by=alice)
    assert not control.pause(run, by=alice)
    assert reaper.ready() == []
    assert claim(run.pk, "w") is None
    assert status_of(run) == "paused"
    assert control.resume(run, by=alice)
    assert not control.resume(run, by=alice)
    work()
    assert status_of(run) == "succeeded"
    assert not control.pause(run, by=alice)  # it is over
    done = AuditEvent.objects.filter(action__in=["pause", "resume"])
    assert done.count() == 2


def test_a_paused_run_that_is_cancelled_is_over_and_not_resumed(begin, alice):
    run = begin()
    control.pause(run, by=alice)
    stop.cancel(run, by=alice)
    assert not control.resume(run, by=alice)
    assert status_of(run) == "cancelled"
    assert not AuditEvent.objects.filter(action="resume").exists()


def test_a_decision_about_a_paused_run_is_kept_until_it_is_resumed(
    begin, work, server, alice, bob
):
    server.will_call("c", "book", item="hotel", price="2000")
    server.will_say("Booked.")
    run = begin()
    work()
    control.pause(run, by=alice)
    approval = pending(run)[0]
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    assert status_of(run) == "paused"
    assert server.ledger() == []
    control.resume(run, by=alice)
    work()
    assert status_of(run) == "succeeded"
    assert len(server.ledger()) == 1


def test_a_call_with_effects_does_not_begin_once_the_run_is_paused(
    begin, work, server, alice
):
    server.will_call("c", "send", text="hi")
    server.will_say("Sent.")
    run = begin()

    def pause_before_the_call() -> bool:
        if kinds(run)[-1] == "model":
            control.pause(run, by=alice)
        return False

    runner.work(run.pk, stopping=pause_before_the_call)
    assert status_of(run) == "paused"
    assert server.ledger() == []
    control.resume(run, by=alice)
    work()
    assert status_of(run) == "succeeded"
    assert len(server.ledger()) == 1


def test_a_paused_run_can_be_cancelled(begin, alice):
    run = begin()
    control.pause(run, by=alice)
    assert stop.cancel(run, by=alice)
    assert status_of(run) == "cancelled"


@pytest.mark.parametrize("end", ["lets go", "dies"])
def test_a_run_that_is_held_and_then_cancelled_is_over_once_its_worker_is_gone(
    begin, alice, end
):
    run = begin()
    taken = claim(run.pk, "w")
    assert taken is not None
    control.pause(run, by=alice)
    assert stop.cancel(run, by=alice)
    assert status_of(run) == "running"  # it was asked to stop
    if end == "lets go":  # it had looked a moment before
        give_back(taken, blameless=True)
    else:
        assert reaper.end_leases("w") == 1
    assert status_of(run) == "cancelled"
    run.branch.refresh_from_db()
    assert run.branch.holder is None


def test_the_kill_switch_stops_all_runs_and_nothing_is_lost(begin, work, server, alice):
    server.will_say("Hello.")
    admin = replace(alice, role=Role.ADMIN)
    before, here = begin(), alice.workspace_id
    assert control.halt(here, by=admin)
    assert not control.halt(here, by=admin)
    after = begin("Later.")
    assert reaper.ready() == []
    assert reaper.sweep().rung == 0
    for run in (before, after):
        assert claim(run.pk, "w") is None
    assert control.lift(here, by=admin)
    assert not control.lift(here, by=admin)
    assert reaper.sweep().rung == 2
    server.will_say("Hello again.")
    work()
    assert {status_of(before), status_of(after)} == {"succeeded"}
    actions = AuditEvent.objects.filter(object_type="checkpoints.workspace")
    assert sorted(actions.values_list("action", flat=True)) == ["halt", "halt_lift"]


def test_only_an_admin_has_the_kill_switch_and_viewers_pause_nothing(begin, alice):
    run = begin()
    with pytest.raises(NotPermitted, match="admin"):
        control.halt(alice.workspace_id, by=alice)
    with pytest.raises(NotPermitted, match="operator"):
        control.pause(run, by=replace(alice, role=Role.VIEWER))


@pytest.mark.owner  # a command of the server
def test_the_kill_switch_is_a_command_too(workspace):
    said = StringIO()
    for more in ([], [], ["--lift"], ["--lift"]):
        call_command("halt", workspace.slug, *more, stdout=said)
    assert said.getvalue().splitlines() == [
        f"All runs of {workspace.slug} stop after their step, and none starts, until --lift.",
        f"All runs of {workspace.slug} are stopped already.",
        f"Runs of {workspace.slug} go on.",
        f"Runs of {workspace.slug} were not stopped.",
    ]
    with pytest.raises(CommandError, match="No workspace is called 'nowhere'"):
        call_command("halt", "nowhere")


@pytest.mark.django_db(transaction=True)
def test_workers_leave_a_run_between_two_steps(begin, workers, server, alice):
    server.will_call("c", "book", item="hotel", price="1")
    server.will_call("d", "send", text="hi")
    server.will_say("Sent.")
    server.ledger_fault("slow", times=1, seconds=3)
    workers.start()
    run = begin()
    wait_until(lambda: ToolCall.objects.filter(run=run, status="executing").exists())
    control.halt(alice.workspace_id, by=None)
    wait_until(lambda: status_of(run) == "ready")
    assert kinds(run)[-1] == "tool"  # what had begun is stored
    assert len(server.ledger()) == 1
    assert Workspace.objects.get(pk=alice.workspace_id).halted_at is not None
    control.lift(alice.workspace_id, by=None)
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"
    assert len(server.ledger()) == 2


@pytest.mark.django_db(transaction=True)
def test_a_call_without_effects_is_given_up_and_made_again(
    begin, workers, server, alice
):
    server.will_call("c", "wait", seconds=4)
    server.will_say("Waited.")
    workers.start()
    run = begin()
    wait_until(lambda: kinds(run)[-1] == "model")
    control.halt(alice.workspace_id, by=None)
    wait_until(lambda: status_of(run) == "ready")
    assert kinds(run)[-1] == "model"  # a read is given up, and made anew
    control.lift(alice.workspace_id, by=None)
    wait_until(lambda: ended(run))
    assert kinds(run) == ["input", "model", "tool", "model"]
