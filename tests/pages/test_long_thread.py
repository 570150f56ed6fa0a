"""A thread of more steps than a page lists: shown as if every row had been read."""

from __future__ import annotations

import copy
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.pages.thread import subject
from checkpoints import gate
from checkpoints.access import Reason
from checkpoints.log import hydrate
from checkpoints.log.pack import pack_branch
from checkpoints.models import Checkpoint
from checkpoints.pure.ops import Op
from tests.pages.conftest import append, reply, result

pytestmark = pytest.mark.django_db

STEPS = 520
MADE_EACH_TIME = re.compile(
    r'(name="(csrfmiddlewaretoken|request_key)" value=")[^"]+|\d+ (milli)?seconds? ago'
)


@pytest.fixture
def long(trip):
    """The trip, and a look-up for every other step; packed, but for the last."""
    steps = [
        step
        for n in range(250)
        for step in (reply(f"Look {n}"), result("look", f"{n}"))
    ]
    trip.branch = append(trip.branch, *steps)
    pack_branch(trip.branch.pk)
    replies = [reply(f"Said {n}") for n in range(STEPS - trip.branch.head_step)]
    trip.branch = append(trip.branch, *replies)
    return trip


@pytest.fixture
def shown(browser, alice):
    """A page's HTML, less what is made each time; as it is, and with all rows read."""
    client = browser(alice)

    def shown(address: str, **query: str) -> tuple[str, str]:
        pages = []
        for most in (subject.LONG, 10_000):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(subject, "LONG", most)
                answer = client.get(address, query)
            assert answer.status_code == 200
            pages.append(MADE_EACH_TIME.sub(r"\1", answer.content.decode()))
        return pages[0], pages[1]

    return shown


@pytest.mark.parametrize(
    "tab", ["diff", "state", "messages", "context", "effects", "raw"]
)
def test_every_tab_is_as_with_all_rows(long, shown, tab):
    for step in (0, 2, 4, 99, 100, 256, 257, 418, 419, 517, STEPS):
        some, whole = shown(long.page(step), tab=tab)
        assert some == whole, f"step {step}"


def test_the_tip_a_step_by_its_number_a_path_and_a_base_are_as_with_all_rows(
    long, shown
):
    page = long.page()
    for query in (
        {},
        {"step": "130"},
        {"step": "9999"},
        {"path": "/facts/fare", "step": "300"},
        {"base": str(long.at(3)), "step": "300"},
        {"base": str(long.at(5, "cheap"))},
        {"branch": str(long.cheap.pk)},
    ):
        some, whole = shown(page, **query)
        assert some == whole, query


def test_who_may_not_read_sees_the_structure(long, browser, auditor):
    page = browser(auditor).get(long.page(256)).content.decode()
    assert 'id="step-256"' in page
    assert "Look 12" not in page


def test_no_page_changes_what_is_kept_for_the_next(long, browser, alice):
    client = browser(alice)
    pass_ = gate.admit(alice, purpose="test", threads=[long.thread])
    branch = long.branch

    def kept() -> list[tuple[int, list[Op]]]:
        seen = hydrate.around(pass_, branch, first=STEPS - 2, last=None)
        return list(seen.operations())

    client.get(long.page())
    before, one = copy.deepcopy(kept()), kept()[3][1]
    assert kept()[3][1] is one
    for step in (0, 2, 4, 130, 256, STEPS):
        for tab in ("diff", "state", "messages", "context", "effects", "raw"):
            for more in ({}, {"path": "/facts/fare"}, {"base": str(long.at(1))}):
                client.get(long.page(step), {"tab": tab, **more})
    assert kept() == before


def test_only_rows_that_are_shown_are_read(long, browser, alice):
    """All rows would be read by a second look at the branch."""
    client = browser(alice)
    tabs = ("diff", "state", "messages", "context", "effects", "raw")
    pages = [(long.page(n), tab) for n in (0, 130, 256, 400, STEPS) for tab in tabs]
    for address, tab in [*pages, (long.page(), "diff")]:
        with CaptureQueriesContext(connection) as asked:
            assert client.get(address, {"tab": tab}).status_code == 200
        looks = [q for q in asked.captured_queries if "WITH RECURSIVE line" in q["sql"]]
        assert len(looks) == 1, (address, tab)


def test_no_more_is_asked_than_of_a_short_one(
    long, browser, alice, django_assert_num_queries
):
    client = browser(alice)
    client.get(long.page(256))
    # The tip's row, which is out of sight, and nobody's name: no step here has an actor.
    with django_assert_num_queries(22):
        client.get(long.page(256))


def test_a_checkpoint_of_another_branch_is_not_a_step_of_this_one(long, browser, alice):
    client = browser(alice)
    of_cheap = (
        Checkpoint.objects.unscoped(Reason.TEST).get(branch=long.cheap, step=4).pk
    )
    address = f"/threads/{long.thread.pk}/at/{of_cheap}/?branch={long.branch.pk}"
    assert client.get(address).status_code == 404
