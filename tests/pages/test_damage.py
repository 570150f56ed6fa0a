"""A damaged record shows as such on its thread, and nowhere else."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from checkpoints.access import Role
from checkpoints.keys import hierarchy
from tests.pages.conftest import Trip
from tests.tampering import tamper

pytestmark = pytest.mark.django_db

STEP = "thread_id = %(thread)s AND branch_id = %(main)s AND step = 3"
OPS = "checkpoints_checkpointdelta"
# What is set, where; FLIP changes one bit of the column.
FLIP = "set_byte({0}, 90, get_byte({0}, 90) # 1)"
DAMAGE = {
    "a step": (OPS, "record", FLIP, STEP),
    "a step in plain text": (OPS, "record", "'x'", STEP),
    "a missing step": (OPS, "", "", STEP),
    "the first step": (OPS, "record", FLIP, "thread_id = %(thread)s AND step = 0"),
    "a step's row": ("checkpoints_checkpoint", "cost", "99", STEP),
    "the title": ("checkpoints_thread", "title", FLIP, "id = %(thread)s"),
    "a branch's name": ("checkpoints_branch", "name", FLIP, "id = %(main)s"),
    "a call's title": ("agents_toolcall", "title", FLIP, "thread_id = %(thread)s"),
    "arguments": ("agents_toolcall", "arguments", FLIP, "thread_id = %(thread)s"),
    "a data key": (
        *("checkpoints_datakey", "wrapped", FLIP),
        "thread_id = %(thread)s AND purpose = 'data'",
    ),
    "the MAC key": (
        *("checkpoints_datakey", "wrapped", FLIP),
        "thread_id = %(thread)s AND purpose = 'mac'",
    ),
    "no key": ("checkpoints_datakey", "", "", "thread_id = %(thread)s"),
}


def damage(trip: Trip, what: str) -> None:
    table, column, value, where = DAMAGE[what]
    begin = f"UPDATE {table} SET {column} =" if column else f"DELETE FROM {table}"  # noqa: S608
    sql = " ".join((begin, value.format(column), "WHERE", where))
    assert tamper(sql, {"thread": trip.thread.pk, "main": trip.branch.pk})


OF_A_FIELD = {"the title", "a branch's name", "a call's title", "arguments"}
TABS = ("diff", "state", "messages", "context", "effects", "raw")


@pytest.fixture
def sound(make_trip, alice) -> Trip:
    trip: Trip = make_trip(alice, title="A sound trip")
    return trip


def said(response) -> str:
    return " ".join(response.content.decode().split())


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_shows_on_its_thread_and_nowhere_else(
    make_trip, sound, browser, alice, what
):
    trip = make_trip(alice, title="A damaged trip")
    damage(trip, what)
    client = browser(alice)

    for address in ("/inbox/", "/threads/", "/threads/?q=sound", "/runs/"):
        response = client.get(address)
        assert response.status_code == 200, address
        if address != "/inbox/":
            assert "A sound trip" in said(response), address
    inbox = said(client.get("/inbox/"))
    assert f"apr-{sound.approval.pk}" in inbox
    assert f"apr-{trip.approval.pk}" in inbox

    page = client.get(trip.page())
    if what in OF_A_FIELD:
        assert page.status_code == 200
        whole = "A damaged trip" if what != "the title" else "title cannot be opened"
        assert whole in said(page)
    else:
        assert page.status_code == 500  # the record's, not the server's
        assert "This thread cannot be opened" in said(page)
        assert "Other threads are not affected" in said(page)
        assert "step 4" in said(page).lower()  # its structure is there
    other = client.get(sound.page())
    assert other.status_code == 200
    assert "cannot be opened" not in said(other)

    _every_part_answers(client, trip, page.status_code)
    assert client.get(sound.page(3)).status_code == 200


def _every_part_answers(client, trip: Trip, status: int) -> None:
    for tab in TABS:
        query = f"?tab={tab}&base={trip.at(4, 'cheap')}"
        assert client.get(trip.page(3) + query).status_code == status
        assert client.get(trip.parts(3) + query).status_code == 200
        assert client.get(trip.page(4, "cheap") + query).status_code in (200, 500)
    assert client.get(f"/f/threads/{trip.thread.pk}/live").status_code == 200
    assert client.get(f"/inbox/{trip.approval.pk}/").status_code == 200
    fork = f"/threads/{trip.thread.pk}/fork/{trip.at(3)}/"
    assert client.get(fork).status_code == (200 if status == 200 else 303)
    form = {"name": "side", "request_key": uuid4(), "do": "create"}
    assert client.post(fork, form).status_code in (200, 303, 422)
    form = {"branch": trip.branch.pk, "message": "Hello?", "request_key": uuid4()}
    sent = client.post(f"/threads/{trip.thread.pk}/message", form)
    assert sent.status_code < 500, said(sent)[:2000]
    form = {"decision": "approve", "revision": 1, "digest": (b"d" * 32).hex()}
    form |= {"request_key": str(uuid4()), "shown": "00" * 32}
    decided = client.post(f"/inbox/{trip.approval.pk}/decide", form)
    assert decided.status_code < 500
    hierarchy.forget()


def test_a_branch_that_does_not_share_the_damage_is_whole(make_trip, browser, alice):
    trip = make_trip(alice)
    damage(trip, "a step")
    client = browser(alice)
    cheap = client.get(f"{trip.page()}?branch={trip.cheap.pk}")
    assert cheap.status_code == 200
    assert "Cheaper it is." in said(cheap)
    compared = client.get(trip.page(4, "cheap") + f"?tab=diff&base={trip.at(4)}")
    assert compared.status_code == 200
    assert "step to compare with cannot be opened" in said(compared)
    assert client.get(trip.page()).status_code == 500


def test_the_admin_lists_it_as_ever(make_trip, browser, alice, join):
    trip = make_trip(alice)
    for what in ("a step", "the title", "a call's title", "a data key"):
        damage(trip, what)
    root = join("root", Role.ADMIN)
    User.objects.filter(pk=root.user_id).update(is_staff=True, is_superuser=True)
    client = browser(root)
    for model in ("thread", "branch", "checkpoint", "datakey"):
        assert client.get(f"/admin/checkpoints/{model}/").status_code == 200, model
    for model in ("run", "toolcall", "approval"):
        assert client.get(f"/admin/agents/{model}/").status_code == 200, model
