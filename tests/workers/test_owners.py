"""Runs whose person left: they open nothing more, and wait for somebody who goes on."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.approvals import decide
from agents.models import Run
from agents.runs import reaper, start, stop
from checkpoints import gate
from checkpoints.access import Reason, Role
from checkpoints.errors import NotPermitted
from checkpoints.models import AuditEvent, Grant, Membership
from tests.conftest import as_owner
from tests.workers.conftest import kinds, pending

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def admin(join) -> Client:
    """A browser of somebody who administers Holdpoint."""
    client = Client()
    with as_owner():
        client.force_login(User.objects.create_superuser("root", password="root"))
    return client


def enter(name: str) -> Client:
    """A browser that signed in through the door."""
    client = Client()
    client.post("/login", {"username": name, "password": name})
    return client


def membership(person) -> Membership:
    return Membership.objects.unscoped(Reason.TEST).get(user_id=person.user_id)


def leave(way: str, person, admin: Client) -> None:
    """The person loses the right, by what an operator does in the admin."""
    its = membership(person)
    match way:
        case "role taken":
            page = f"/admin/checkpoints/membership/{its.pk}/change/"
            answer = admin.post(page, {"role": Role.VIEWER, "can_approve": "on"})
        case "membership removed":
            page = f"/admin/checkpoints/membership/{its.pk}/delete/"
            answer = admin.post(page, {"post": "yes"})
        case "members removed":
            answer = admin.post(
                "/admin/checkpoints/membership/",
                {"action": "delete_selected", "_selected_action": its.pk, "post": "y"},
            )
        case "switched off":
            page = f"/admin/auth/user/{person.user_id}/change/"
            answer = admin.post(
                page,
                {
                    "username": "alice",
                    "date_joined_0": "2026-01-01",
                    "date_joined_1": "00:00:00",
                },
            )
        case "grant revoked":
            ids = list(
                Grant.objects.unscoped(Reason.TEST)
                .filter(user_id=person.user_id)
                .values_list("pk", flat=True)
            )
            answer = admin.post(
                "/admin/checkpoints/grant/",
                {"action": "revoke", "_selected_action": ids},
            )
    assert answer.status_code == 302, answer.content.decode()[:3000]


WAYS = [
    "role taken",
    "membership removed",
    "members removed",
    "switched off",
    "grant revoked",
]


def fresh(run: Run) -> Run:
    return Run.objects.unscoped(Reason.TEST).select_related("grant").get(pk=run.pk)


@pytest.mark.parametrize("way", WAYS)
def test_the_next_use_of_a_grant_is_refused_and_the_run_waits_visibly(
    way, begin, work, server, alice, bob, admin
):
    server.will_say("Done.")
    run = begin()
    leave(way, alice, admin)
    assert fresh(run).needs_owner
    work()
    run = fresh(run)
    assert (run.status, run.needs_owner) == ("waiting", True)
    assert kinds(run) == ["input"]  # nothing was thought in the name of who left
    assert server.requests == []
    assert reaper.sweep().woken == 0
    revoked = AuditEvent.objects.unscoped(Reason.TEST).filter(action="revoke")
    assert revoked.get().detail == {"grants": 1}

    client = enter("bob")
    for page in ("/runs/", f"/threads/{run.thread_id}/"):
        text = client.get(page).content.decode()
        assert "needs an owner" in text
        assert "Take over" in text
    assert client.post(f"/runs/{run.pk}/retry").status_code == 303
    work()
    run = fresh(run)
    assert (run.status, run.grant.user_id) == ("succeeded", bob.user_id)
    taken = AuditEvent.objects.unscoped(Reason.TEST).get(action="take_over")
    assert (taken.actor_id, taken.object_id) == (bob.user_id, run.pk)


def test_who_signs_out_ends_what_acts_for_that_session(begin, work, server, alice, bob):
    server.will_say("Done.")
    client = enter("alice")
    client.post(
        "/runs/new",
        {
            "agent": begin().agent_version.agent.name,
            "message": "Go.",
            "visibility": "workspace",
            "request_key": "01900000-0000-7000-8000-000000000001",
        },
    )
    first, second = Run.objects.unscoped(Reason.TEST).order_by("created_at")
    client.post("/logout")
    assert not fresh(first).needs_owner  # of another session
    assert fresh(second).needs_owner
    assert client.get(f"/threads/{second.thread_id}/").status_code == 302
    work()
    assert fresh(second).status == "waiting"


def test_a_decision_of_somebody_who_may_operate_takes_the_run_over(
    begin, work, server, alice, bob, admin
):
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Booked.")
    run = begin()
    work()
    leave("membership removed", alice, admin)
    (approval,) = pending(run)  # and can still be decided
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    run = fresh(run)
    assert (run.status, run.grant.user_id) == ("succeeded", bob.user_id)
    assert kinds(run) == ["input", "model", "interrupt", "decision", "tool", "model"]
    assert len(server.ledger()) == 1


def test_a_decision_of_a_viewer_stands_until_somebody_takes_the_run_over(
    begin, work, server, alice, bob, join, admin
):
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Booked.")
    run = begin()
    work()
    leave("membership removed", alice, admin)
    (approval,) = pending(run)
    vera = join("vera", Role.VIEWER, can_approve=True)
    decide.approve(approval, seen=approval.as_shown(), by=vera)
    work()
    assert (fresh(run).status, server.ledger()) == ("waiting", [])
    start.retry(run, by=bob)
    work()
    assert fresh(run).status == "succeeded"
    assert len(server.ledger()) == 1  # what vera approved, and once


def test_taking_over_leaves_what_is_asked_to_be_decided(
    begin, work, server, alice, bob, admin
):
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Not booked.")
    run = begin()
    work()
    leave("switched off", alice, admin)
    start.retry(run, by=bob)
    work()
    assert fresh(run).status == "waiting"
    assert not fresh(run).needs_owner
    (approval,) = pending(run)
    decide.reject(approval, seen=approval.as_shown(), by=bob, reason="Too dear.")
    work()
    assert fresh(run).status == "succeeded"


def test_a_message_takes_the_run_over(begin, work, server, alice, bob, admin):
    server.will_say("Hello, Bob.")
    run = begin()
    leave("switched off", alice, admin)
    work()
    start.send_message(run.branch, message="Go on, for me.", by=bob)
    work()
    run = fresh(run)
    assert (run.status, run.grant.user_id) == ("succeeded", bob.user_id)


def test_who_may_not_operate_takes_nothing_over(begin, viewer, alice, admin):
    run = begin()
    leave("switched off", alice, admin)
    assert "Take over" not in enter("vera").get("/runs/").content.decode()
    with pytest.raises(NotPermitted):
        start.retry(run, by=viewer)


def test_a_run_that_needs_an_owner_can_be_cancelled(begin, work, alice, bob, admin):
    run = begin()
    leave("switched off", alice, admin)
    work()
    assert stop.cancel(run, by=bob)
    assert fresh(run).status == "cancelled"
    assert not fresh(run).needs_owner


@pytest.mark.parametrize("way", WAYS[:4])
def test_the_next_opening_of_the_person_is_refused(way, begin, alice, bob, admin):
    run = begin()
    leave(way, alice, admin)
    with pytest.raises(NotPermitted):
        gate.admit(alice, purpose="read thread", threads=[run.thread])


def test_who_is_let_in_again_does_not_get_the_grant_back(begin, alice, admin):
    run = begin()
    leave("switched off", alice, admin)
    with as_owner():
        User.objects.filter(pk=alice.user_id).update(is_active=True)
    assert fresh(run).needs_owner


def test_only_who_may_change_grants_revokes_them(begin, alice):
    run = begin()
    client = Client()
    with as_owner():
        User.objects.filter(pk=alice.user_id).update(is_staff=True)
        client.force_login(User.objects.get(pk=alice.user_id))
    client.post(
        "/admin/checkpoints/grant/",
        {"action": "revoke", "_selected_action": run.grant_id},
    )
    assert not fresh(run).needs_owner
