"""Runs that a program started: they act for its token, and for no person."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction

from agents.approvals import decide
from agents.models import Run
from agents.runs import finish, start, stop
from agents.runs.claim import claim
from agents.runs.edits import ForkEdits
from checkpoints import gate, tokens
from checkpoints.access import Scope
from checkpoints.errors import NotPermitted
from checkpoints.log.append import writer
from checkpoints.models import ApiToken, AuditEvent, Checkpoint, Grant, Thread
from tests.conftest import as_owner
from tests.workers.conftest import pending

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def program(workspace):
    """A program whose token may do everything that a token may that nobody made."""
    scopes = [scope for scope in Scope.values if scope != Scope.DECIDE]
    with as_owner():
        _, text = tokens.make(workspace.pk, name="nightly", scopes=scopes, by=None)
        return tokens.authenticate(text)


def revoke(program) -> None:
    with as_owner():
        row = ApiToken.objects.get(pk=program.token_id)
        assert tokens.revoke(row, by=None)


def test_a_program_starts_a_run_that_a_person_approves(
    begin, work, server, program, bob
):
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Booked.")
    run = begin(by=program)
    work()
    (approval,) = pending(run)
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    run.refresh_from_db()
    assert (run.status, run.started_by_id) == ("succeeded", None)
    assert (run.grant.user_id, run.grant.token_id) == (None, program.token_id)
    assert run.thread.visibility == Thread.Visibility.WORKSPACE
    assert len(server.ledger()) == 1
    event = AuditEvent.objects.get(action="start")
    assert (event.via, event.actor_id) == ("api", None)
    assert event.detail["token"] == str(program.token_id)


def test_a_run_whose_token_was_revoked_waits_for_an_owner(
    begin, work, server, program, bob
):
    server.will_call("c1", "book", item="TP 209", price="1200")
    run = begin(by=program)
    work()
    revoke(program)
    run.refresh_from_db()
    assert run.needs_owner
    server.will_say("Booked.")
    (approval,) = pending(run)
    start.retry(run, by=bob)  # bob takes it over
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    run.refresh_from_db()
    assert (run.status, run.grant.user_id) == ("succeeded", bob.user_id)


def test_a_run_whose_token_expired_opens_nothing_more(begin, work, server, program):
    run = begin(by=program)
    with as_owner():
        ApiToken.objects.update(expires_at=run.created_at)
    work()
    run.refresh_from_db()
    assert (run.status, run.needs_owner, run.steps) == ("waiting", True, 0)
    assert server.requests == []
    with pytest.raises(NotPermitted, match="revoked, or has expired"):
        gate.admit(program, purpose="test", threads=[run.thread])


def test_a_program_neither_sees_nor_touches_what_is_not_everyones(
    begin, program, alice
):
    private = begin(visibility="private")
    assert not Thread.objects.for_user(program).exists()
    for act in (
        lambda: start.send_message(private.branch, message="?", by=program),
        lambda: stop.cancel(private, by=program),
        lambda: start.retry(private, by=program),
        lambda: gate.admit(program, purpose="test", threads=[private.thread]),
    ):
        with pytest.raises(NotPermitted, match="not shared with you"):
            act()


def test_a_message_of_a_program_is_answered_for_the_program(
    begin, work, server, program, alice
):
    """It came in while a person's run ended: that run's grant is not the program's."""
    run = begin()
    held = claim(run.pk, "w")
    assert held is not None
    start.send_message(run.branch, message="And the report?", by=program)
    finish.succeed(held, lambda: writer(held.branch))
    second = Run.objects.exclude(pk=run.pk).get()
    assert (second.grant.user_id, second.grant.token_id) == (None, program.token_id)
    server.will_say("Here.")
    work()
    assert server.requests[-1]["messages"][-1]["content"] == "And the report?"
    # And the other way round.
    third = start.send_message(run.branch, message="Thanks.", by=alice)
    assert Run.objects.latest("created_at").grant.user_id == alice.user_id
    assert third.author_id == alice.user_id


def test_a_key_that_another_used_is_not_a_programs(begin, program, alice):
    key = uuid4()
    begin(request_key=key)
    with pytest.raises(NotPermitted):
        begin(by=program, request_key=key)
    mine = uuid4()
    first = begin(by=program, request_key=mine)
    assert begin(by=program, request_key=mine) == first
    said = uuid4()
    start.send_message(first.branch, message="One.", by=program, request_key=said)
    with pytest.raises(NotPermitted):
        start.send_message(first.branch, message="One.", by=alice, request_key=said)


def test_a_program_forks(begin, work, server, program):
    server.will_say("Hello.")
    run = begin()
    work()
    source = Checkpoint.objects.get(branch=run.branch, step=0)
    server.will_say("Warmly.")
    made = start.fork_run(
        source, edits=ForkEdits(temperature=0.5), name="warmer", by=program
    )
    work()
    assert made.created_by_id is None
    assert Run.objects.get(branch=made).status == "succeeded"


def test_a_token_that_only_reads_changes_nothing(begin, workspace):
    with as_owner():
        _, text = tokens.make(workspace.pk, name="r", scopes=["read"], by=None)
        reader = tokens.authenticate(text)
    with pytest.raises(NotPermitted):
        begin(by=reader)


def test_a_grant_is_a_persons_or_a_tokens(begin, program):
    begin()
    for wrong in ({"user_id": None}, {"token_id": program.token_id}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Grant.objects.update(**wrong)
