"""The door: what is recorded of signing in and out, and how often it may fail."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test import Client

from checkpoints import sign_in
from checkpoints.access import Reason
from checkpoints.models import AuditEvent, SignInFailures

pytestmark = pytest.mark.django_db

TOO_MANY = "Too many attempts to sign in failed"


def enter(name: str, password: str, *, address: str = "192.0.2.1", to: str = "/login"):
    client = Client(REMOTE_ADDR=address)
    return client.post(to, {"username": name, "password": password})


def events():
    return AuditEvent.objects.unscoped(Reason.TEST).order_by("position")


def said(response) -> str:
    return response.content.decode()


def test_a_name_that_is_not_the_servers_is_no_riddle(client):
    answer = client.get("/login", headers={"host": "elsewhere.example"})
    assert answer.status_code == 400
    assert "its setting ALLOWED_HOSTS" in said(answer)


def fail(name: str, times: int, **more: str) -> None:
    for _ in range(times):
        assert enter(name, "wrong", **more).status_code == 200


def let_time_pass() -> None:
    SignInFailures.objects.update(since=F("since") - sign_in.WINDOW)


# What is recorded


def test_who_signs_in_and_out_is_recorded_with_the_session(alice):
    client = Client(REMOTE_ADDR="192.0.2.7")
    client.post("/login", {"username": "alice", "password": "alice"})
    client.get("/threads/")
    client.post("/logout")
    login, logout = events().filter(action__in=["login", "logout"])
    for event in (login, logout):
        assert event.workspace_id == alice.workspace_id
        assert (event.actor_id, event.outcome) == (alice.user_id, "ok")
        assert (event.address, event.via) == ("192.0.2.7", "web")
    assert login.session == logout.session != ""


def test_a_sign_in_that_failed_is_recorded_where_the_person_is(alice):
    enter("alice", "wrong")
    event = events().get()
    assert event.workspace_id == alice.workspace_id
    assert (event.action, event.outcome, event.purpose) == (
        "login",
        "refused",
        "no match",
    )
    assert (event.actor, event.address) == (None, "192.0.2.1")  # nobody was let in
    assert event.detail == {"person": alice.user_id}


def test_a_name_that_nobody_has_is_recorded_in_no_workspace_and_not_at_all(alice):
    enter("my-password", "wrong")
    event = events().get()
    assert (event.workspace, event.actor, event.detail) == (None, None, {})
    assert not SignInFailures.objects.filter(key__contains="my-password").exists()


def test_who_was_switched_off_is_refused_and_recorded(alice):
    User.objects.filter(pk=alice.user_id).update(is_active=False)
    assert enter("alice", "alice").status_code == 200
    assert events().get().outcome == "refused"


def test_each_workspace_of_a_person_has_the_event(alice, other, join):
    User.objects.get(pk=alice.user_id).memberships.create(
        workspace_id=other.workspace_id, role="viewer"
    )
    enter("alice", "alice")
    assert {event.workspace_id for event in events()} == {
        alice.workspace_id,
        other.workspace_id,
    }


def test_a_stranger_who_signs_out_is_nobody(db):
    assert Client().post("/logout").status_code == 302
    assert not events().exists()


@pytest.mark.parametrize("name", ["", "alice"])
def test_a_form_that_is_not_filled_in_counts_for_nothing(alice, name):
    enter(name, "")
    assert not events().exists()
    assert not SignInFailures.objects.exists()


# The admin's door is the same


def test_the_admin_is_entered_through_the_same_door(alice):
    User.objects.filter(pk=alice.user_id).update(is_staff=True)
    client = Client()
    asked = client.get("/admin/checkpoints/thread/", follow=True)
    assert asked.redirect_chain[-1][0] == "/login?next=/admin/checkpoints/thread/"
    done = client.post(
        "/login?next=/admin/", {"username": "alice", "password": "alice"}
    )
    assert done["Location"] == "/admin/"
    assert client.get("/admin/").status_code == 200
    assert client.post("/admin/logout/")["Location"] == "/login"
    assert client.get("/admin/").status_code == 302
    assert [event.action for event in events()] == ["login", "logout"]


def test_who_is_not_staff_is_told_so(browser, alice):
    response = browser(alice).get("/admin/", follow=True)
    assert response.status_code == 403
    assert "for staff" in said(response)


# How often it may fail


def test_after_too_many_failures_a_name_is_refused_and_opens_by_itself(alice):
    fail("alice", sign_in.PER_NAME)
    refused = enter("alice", "alice")  # the right one, now
    assert refused.status_code == 429
    assert TOO_MANY in said(refused)
    assert "15 minutes" in said(refused)
    assert 0 < int(refused["Retry-After"]) <= 15 * 60 + 1
    let_time_pass()
    assert enter("alice", "alice").status_code == 302


def test_a_name_that_nobody_has_is_refused_in_the_same_words(alice):
    pages = []
    for name in ("alice", "nobody"):
        answers = [enter(name, "wrong") for _ in range(sign_in.PER_NAME + 1)]
        pages.append([(a.status_code, said(a).replace(name, "N")) for a in answers])
    known, unknown = pages
    for ours, theirs in zip(known, unknown, strict=True):
        assert without_token(ours[1]) == without_token(theirs[1])
        assert ours[0] == theirs[0]
    assert known[-1][0] == 429


def without_token(page: str) -> str:
    before, _, after = page.partition('name="csrfmiddlewaretoken" value="')
    return before + after.partition('"')[2]


def test_a_known_name_and_an_unknown_one_take_the_same_way(alice):
    counts = []
    for name in ("alice", "nobody"):
        enter(name, "wrong")
        with statements() as seen:
            enter(name, "wrong")
        counts.append(seen)
    assert counts[0] == counts[1]


@contextmanager
def statements() -> Iterator[list[str]]:
    """Those of a block, without their values."""
    found: list[str] = []

    def note(execute, sql, params, many, context):
        found.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield found


def test_capitals_do_not_make_another_name(alice):
    for name in ("alice", "ALICE", "Alice") * 4:
        last = enter(name, "wrong")
    assert last.status_code == 429


def test_one_address_may_not_try_every_name(alice, bob):
    for n in range(sign_in.PER_ADDRESS):
        enter(f"name-{n}", "wrong")
    assert enter("alice", "alice").status_code == 429
    assert enter("alice", "alice", address="192.0.2.2").status_code == 302


def test_the_addresses_of_one_ipv6_network_are_one(alice):
    for n in range(sign_in.PER_ADDRESS):
        enter(f"name-{n}", "wrong", address=f"2001:db8::{n:x}")
    assert enter("alice", "alice", address="2001:db8::ffff").status_code == 429
    assert enter("alice", "alice", address="2001:db8:1::1").status_code == 302


def test_ipv4_addresses_that_come_as_ipv6_ones_are_not_one_network(alice):
    """As on a server that listens to both: else fifty failures would lock everyone out."""
    for n in range(sign_in.PER_ADDRESS):
        enter(f"name-{n}", "wrong", address="::ffff:192.0.2.1")
    for address in ("::ffff:192.0.2.1", "192.0.2.1"):
        assert enter("alice", "alice", address=address).status_code == 429
    assert enter("alice", "alice", address="::ffff:192.0.2.2").status_code == 302
    assert {event.address for event in events()} == {"192.0.2.1", "192.0.2.2"}


@pytest.mark.parametrize(
    ("told", "kept"),
    [("", None), ("unknown", None), ("x:1", None), ("fe80::1%eth0", "fe80::1")],
)
def test_an_address_that_is_none_stops_nobody(alice, told, kept):
    enter("alice", "wrong", address=told)
    assert enter("alice", "alice", address=told).status_code == 302
    assert {event.address for event in events()} == {kept}


def test_signing_in_forgets_the_failures_of_the_name(alice):
    for _ in range(3):
        fail("alice", sign_in.PER_NAME - 1)
        assert enter("alice", "alice").status_code == 302


def test_people_who_sign_in_do_not_use_up_their_address(alice):
    for _ in range(sign_in.PER_ADDRESS + 5):
        assert enter("alice", "alice").status_code == 302


def test_what_is_refused_unseen_is_recorded_once(alice):
    fail("alice", sign_in.PER_NAME)
    for _ in range(5):
        enter("alice", "wrong")
    assert Counter(event.purpose for event in events()) == {
        "no match": sign_in.PER_NAME,
        "too many failures": 1,
    }


def test_old_counts_go_by_themselves(alice):
    for n in range(5):
        enter(f"name-{n}", "wrong")
    let_time_pass()
    enter("alice", "wrong")
    assert SignInFailures.objects.count() == 2  # alice, and the address anew


@pytest.mark.django_db(transaction=True)
def test_a_hundred_at_once_are_a_hundred(alice):
    let_in: list[bool] = []

    def try_() -> None:
        try:
            sign_in.attempt("alice", "192.0.2.1")
            let_in.append(True)
        except sign_in.TooManyFailures:
            let_in.append(False)
        finally:
            connection.close()

    threads = [threading.Thread(target=try_) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert let_in.count(True) == sign_in.PER_NAME


def test_the_wait_is_said_in_minutes():
    for seconds, words in ((1, "1 minute."), (61, "2 minutes."), (900, "15 minutes.")):
        wait = timedelta(seconds=seconds)
        assert words in str(sign_in.TooManyFailures(wait, first=False))


# What else is refused


def test_a_refusal_is_recorded_with_who_wanted_what(browser, viewer, trip):
    browser(viewer).post(f"/runs/{trip.run.pk}/cancel")
    event = events().get(action="refused")
    assert (event.actor_id, event.outcome) == (viewer.user_id, "refused")
    assert (event.purpose, event.detail) == ("agents:cancel", {"pk": str(trip.run.pk)})


def test_what_is_not_found_is_not_recorded(browser, other, trip):
    assert browser(other).get(trip.page()).status_code == 404
    assert browser(other).post(f"/runs/{trip.run.pk}/cancel").status_code == 404
    assert not events().filter(action="refused").exists()
