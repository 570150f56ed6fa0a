"""Opening sealed state: who may, what is written down, and when it stops."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from checkpoints import audit, gate
from checkpoints.access import Reason, Role, RunPrincipal, SystemPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import (
    DecryptionError,
    NotPermitted,
    NotSealed,
    Shredded,
    Unscoped,
)
from checkpoints.ids import uuid7
from checkpoints.keys import hierarchy
from checkpoints.log.hydrate import head_state, read
from checkpoints.models import AuditEvent, Branch, Grant, Membership
from tests.conftest import STATE, as_owner

pytestmark = pytest.mark.django_db

EVENTS = AuditEvent.objects.unscoped(Reason.TEST)


@pytest.fixture
def branch(make_thread, alice) -> Branch:
    return make_thread(owner=alice, title="A trip")


@pytest.fixture
def run(branch, alice) -> RunPrincipal:
    """A run on the branch that acts for alice."""
    grant = Grant.objects.create(
        workspace_id=branch.workspace_id, thread=branch.thread, user_id=alice.user_id
    )
    return RunPrincipal(
        run_id=uuid7(),
        workspace_id=branch.workspace_id,
        thread_id=branch.thread_id,
        grant_id=grant.pk,
    )


def test_a_member_opens_what_is_shared_with_them(branch, alice, bob, viewer):
    for person in (alice, bob, viewer):
        pass_ = gate.admit(person, purpose="read thread", threads=[branch.thread])
        assert pass_.open(branch.thread, "title") == "A trip"
        assert pass_.open(branch, "name") == "main"
        assert head_state(pass_, branch) == STATE


@pytest.mark.django_db(transaction=True)
def test_a_run_is_admitted_and_written_down_in_one_statement(
    branch, run, django_assert_num_queries
):
    with django_assert_num_queries(1):
        pass_ = gate.admit(run, purpose="run", threads=[branch.thread])
    event = EVENTS.get(action="open")
    assert (event.purpose, event.via, event.outcome) == ("run", "worker", "ok")
    assert (event.workspace_id, event.actor_id) == (run.workspace_id, None)
    assert event.object_id == branch.thread_id
    assert event.detail == {"run": str(run.run_id), "grant": str(run.grant_id)}
    assert head_state(pass_, branch) == STATE


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("gone", ["grant", "membership"])
def test_a_run_that_may_not_is_told_why_and_opens_nothing(branch, run, alice, gone):
    with as_owner():
        if gone == "grant":
            Grant.objects.unscoped(Reason.TEST).filter(pk=run.grant_id).update(
                revoked_at=ClockTimestamp()
            )
        else:
            Membership.objects.unscoped(Reason.TEST).filter(
                user_id=alice.user_id
            ).delete()
    said = {"grant": "was revoked", "membership": "may no longer operate"}[gone]
    with pytest.raises(NotPermitted, match=said):
        gate.admit(run, purpose="run", threads=[branch.thread])
    assert not EVENTS.filter(action="open").exists()


def test_each_opening_is_written_down_before_it_happens(branch, alice):
    alice = replace(alice, session="s" * 64, address="192.0.2.1")
    gate.admit(alice, purpose="read thread", threads=[branch.thread], steps="0-3")
    event = EVENTS.get()
    assert (event.action, event.purpose, event.via) == ("open", "read thread", "web")
    assert event.workspace_id == alice.workspace_id
    assert event.actor_id == alice.user_id
    assert (event.object_type, event.object_id) == (
        "checkpoints.thread",
        branch.thread_id,
    )
    assert (event.session, event.address) == ("s" * 64, "192.0.2.1")
    assert event.detail == {"steps": "0-3"}


def test_many_threads_are_one_event(make_thread, alice):
    threads = [make_thread(title=str(n)).thread for n in range(3)]
    pass_ = gate.admit(alice, purpose="list", threads=threads)
    assert pass_.open_all(threads, "title") == ["0", "1", "2"]
    detail = EVENTS.get().detail
    assert detail["count"] == 3
    assert detail["threads"] == sorted(str(thread.pk) for thread in threads)


def test_many_rows_open_with_one_query(make_thread, alice, django_assert_num_queries):
    threads = [make_thread().thread for _ in range(5)]
    pass_ = gate.admit(alice, purpose="list", threads=threads)
    with django_assert_num_queries(1):
        pass_.open_all(threads, "title")


def test_rows_that_do_not_open_cost_no_queries_and_hide_no_other(
    make_thread, alice, bob, django_assert_num_queries
):
    threads = [make_thread(title=str(n)).thread for n in range(8)]
    for thread, by in zip(threads[:4], (alice, bob, alice, bob), strict=True):
        hierarchy.destroy_thread_keys(thread.pk, by_id=by.user_id)
    threads[4].title = b"not sealed"
    threads[5].title = threads[6].title
    threads[7].title = None
    pass_ = gate.admit(alice, purpose="list", threads=threads)
    with django_assert_num_queries(2):  # the keys, and who destroyed some of them
        found = pass_.open_each(threads, "title")
    for error, name in zip(found[:4], ("Alice", "Bob") * 2, strict=True):
        assert isinstance(error, Shredded)
        assert f"by {name}" in str(error)
    assert isinstance(found[4], NotSealed)
    assert isinstance(found[5], DecryptionError)
    assert found[6:] == ["6", None]
    with pytest.raises(Shredded):
        pass_.open_all(threads, "title")
    pass_ = gate.admit(alice, purpose="list", threads=threads[1:])
    with pytest.raises(NotPermitted):
        pass_.open_each(threads, "title")


@pytest.mark.django_db(transaction=True)
def test_a_rollback_does_not_erase_that_someone_looked(branch, alice):
    pass_ = gate.admit(alice, purpose="read thread", threads=[branch.thread])
    with transaction.atomic():
        pass_.open(branch.thread, "title")
        transaction.set_rollback(True)
    assert EVENTS.count() == 1


@pytest.mark.django_db(transaction=True)
def test_nobody_is_admitted_inside_a_transaction(branch, alice):
    with (
        pytest.raises(RuntimeError, match="durable"),
        transaction.atomic(),
    ):
        gate.admit(alice, purpose="read thread", threads=[branch.thread])


def test_an_auditor_opens_nothing(branch, auditor):
    with pytest.raises(NotPermitted, match="audit"):
        gate.admit(auditor, purpose="read thread", threads=[branch.thread])


def test_a_person_of_another_workspace_opens_nothing(branch, other):
    with pytest.raises(NotPermitted):
        gate.admit(other, purpose="read thread", threads=[branch.thread])
    with pytest.raises(NotPermitted):
        gate.admit(other, purpose="x").open(branch.thread, "title")


def test_who_pretends_to_be_of_the_workspace_opens_nothing(branch, other):
    pretender = replace(other, workspace_id=branch.workspace_id)
    with pytest.raises(NotPermitted, match="no longer a member"):
        gate.admit(pretender, purpose="read thread", threads=[branch.thread])


def test_a_private_thread_opens_for_its_owner(make_thread, alice, bob):
    thread = make_thread(owner=alice, visibility="private").thread
    gate.admit(alice, purpose="read thread", threads=[thread])
    with pytest.raises(NotPermitted, match="not shared"):
        gate.admit(bob, purpose="read thread", threads=[thread])


@pytest.mark.parametrize("loss", ["membership", "role", "account"])
def test_who_lost_the_right_is_refused_at_the_next_opening(branch, bob, loss):
    lose(bob.user_id, loss)
    with pytest.raises(NotPermitted):
        gate.admit(bob, purpose="read thread", threads=[branch.thread])
    assert not EVENTS.exists()


def test_a_pass_is_for_its_threads_only(branch, make_thread, alice):
    second = make_thread()
    pass_ = gate.admit(alice, purpose="read thread", threads=[branch.thread])
    for refused in (
        lambda: pass_.open(second.thread, "title"),
        lambda: pass_.open(second, "name"),
        lambda: read(pass_, second),
    ):
        with pytest.raises(NotPermitted):
            refused()


def test_a_run_opens_its_own_thread(branch, run):
    pass_ = gate.admit(run, purpose="run", threads=[branch.thread])
    assert pass_.open(branch.thread, "title") == "A trip"
    assert head_state(pass_, branch) == STATE
    event = EVENTS.get()
    assert event.via == "worker"
    assert event.actor is None
    assert event.detail == {"run": str(run.run_id), "grant": str(run.grant_id)}


def test_a_run_opens_no_other_thread(run, make_thread):
    with pytest.raises(NotPermitted):
        gate.admit(run, purpose="run", threads=[make_thread().thread])


def test_a_run_without_its_grant_opens_nothing(branch, run):
    for wrong in (
        replace(run, grant_id=uuid7()),
        replace(run, thread_id=uuid7()),
        replace(run, workspace_id=uuid7()),
    ):
        with pytest.raises(NotPermitted):
            gate.admit(wrong, purpose="run", threads=[branch.thread])


@pytest.mark.parametrize("loss", ["grant", "membership", "role", "account"])
def test_each_use_of_a_grant_asks_again(branch, run, alice, loss):
    pass_ = gate.admit(run, purpose="run", threads=[branch.thread])
    lose(alice.user_id, loss)
    with pytest.raises(NotPermitted):
        pass_.open(branch.thread, "title")
    with pytest.raises(NotPermitted):
        read(pass_, branch)
    with pytest.raises(NotPermitted):
        gate.admit(run, purpose="run", threads=[branch.thread])


def test_work_on_records_is_written_down_too(branch, other):
    system = SystemPrincipal(task="pack", workspace_id=branch.workspace_id)
    pass_ = gate.admit(system, purpose="pack", threads=[branch.thread])
    assert pass_.open(branch, "name") == "main"
    assert EVENTS.get().detail == {"task": "pack"}
    with pytest.raises(NotPermitted):
        gate.admit(
            SystemPrincipal(task="pack", workspace_id=other.workspace_id),
            purpose="pack",
            threads=[branch.thread],
        )


def test_a_sealed_value_opens_in_its_own_row_and_column_only(make_thread, alice):
    one, two = make_thread().thread, make_thread().thread
    pass_ = gate.admit(alice, purpose="x", threads=[one, two])
    one.title, two.title = two.title, one.title
    for thread in (one, two):
        with pytest.raises(DecryptionError):
            pass_.open(thread, "title")


def test_a_column_without_a_value_opens_to_none(branch, alice):
    branch.name = None
    pass_ = gate.admit(alice, purpose="x", threads=[branch.thread])
    assert pass_.open(branch, "name") is None


@pytest.mark.parametrize("value", [None, "", 0, [], {"a": [1, None]}, "\x00é😀"])
def test_what_was_sealed_comes_back(branch, alice, value):
    branch.name = gate.seal(branch, "name", value)
    branch.save(update_fields=["name"])
    branch.refresh_from_db()
    pass_ = gate.admit(alice, purpose="x", threads=[branch.thread])
    assert pass_.open(branch, "name") == value


def test_no_repr_shows_what_is_inside(branch, alice, history):
    pass_ = gate.admit(alice, purpose="x", threads=[branch.thread])
    shown = "".join(
        map(repr, [pass_, branch, branch.thread, history(branch).records[0]])
    )
    assert "trip" not in shown
    assert "flight" not in shown


@pytest.mark.owner  # the trigger refuses even who owns the table
def test_the_audit_log_cannot_be_changed(branch, alice):
    audit.record(alice, "login")
    for statement in ("UPDATE {} SET outcome = 'x'", "DELETE FROM {}"):
        with (
            pytest.raises(DatabaseError, match="written once"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(statement.format(AuditEvent._meta.db_table))


def test_what_the_audit_log_says_of_an_event(branch, alice):
    audit.record(alice, "fork", obj=branch, outcome="refused", step=3, run=branch.pk)
    audit.record(None, "login", workspace_id=branch.workspace_id, via="command")
    audit.record(None, "expired", obj=branch, via="worker")
    fork, login, expired = EVENTS.order_by("position")
    assert expired.workspace_id == branch.workspace_id
    assert (fork.object_type, fork.object_id) == ("checkpoints.branch", branch.pk)
    assert (fork.outcome, fork.detail) == (
        "refused",
        {"step": 3, "run": str(branch.pk)},
    )
    assert (login.actor, login.via) == (None, "command")
    assert login.position > fork.position


def test_the_audit_log_of_a_workspace_is_its_own(branch, alice, other, auditor):
    audit.record(alice, "login")
    assert AuditEvent.objects.for_user(auditor).count() == 1
    assert not AuditEvent.objects.for_user(other).exists()
    with pytest.raises(Unscoped):
        AuditEvent.objects.count()


def lose(user_id: int, what: str) -> None:
    with as_owner():
        _lose(user_id, what)


def _lose(user_id: int, what: str) -> None:
    mine = Membership.objects.unscoped(Reason.TEST).filter(user_id=user_id)
    match what:
        case "membership":
            mine.delete()
        case "role":
            mine.update(role=Role.AUDITOR)
        case "account":
            User.objects.filter(pk=user_id).update(is_active=False)
        case "grant":
            Grant.objects.unscoped(Reason.TEST).update(revoked_at=timezone.now())
