"""How many questions a page asks the database: as many with more of everything.

Each page asks who is there (4), records that it opens (2 and a savepoint), asks whether
keys live, and shows the navigation's counts (2).
"""

from __future__ import annotations

import pytest

from checkpoints.access import Reason
from checkpoints.log.threads import fork
from checkpoints.models import Checkpoint
from tests.pages.conftest import append, reply, result


@pytest.fixture
def grown(trip, make_trip, alice):
    """The trip after 40 more steps and 5 more branches, among 10 more trips."""
    for n in range(10):
        make_trip(alice, title=f"Trip {n}")
    steps = [step for n in range(20) for step in (reply(f"{n}"), result("look", "x"))]
    trip.branch = append(trip.branch, *steps)
    source = Checkpoint.objects.unscoped(Reason.TEST).get(pk=trip.at(3))
    for n in range(5):
        fork(source, name=f"what-if-{n}", by_id=alice.user_id)
    return trip


@pytest.mark.parametrize("size", ["trip", "grown"])
class TestQueries:
    @pytest.fixture
    def trip(self, size, request):
        return request.getfixturevalue(size)

    @pytest.fixture
    def ask(self, browser, alice, django_assert_num_queries):
        client = browser(alice)

        def ask(number, address, **query):
            client.get(address, query)  # keys are cached from now on
            with django_assert_num_queries(number):
                client.get(address, query)

        return ask

    def test_the_page(self, ask, trip):
        ask(25, trip.page(2))

    @pytest.mark.parametrize("tab", ["state", "messages", "context", "raw"])
    def test_another_tab(self, ask, trip, tab):
        ask(25, trip.page(2), tab=tab)

    def test_the_parts_that_a_step_changes(self, ask, trip):
        ask(23, trip.parts(2))

    def test_the_list(self, ask, trip):
        ask(21, "/threads/")

    def test_the_runs(self, ask, trip):
        ask(23, "/runs/")

    def test_the_runs_that_failed_somewhere(self, ask, trip):
        ask(16, "/runs/", step=5, since="day", tool="quote_fare", agent="trip-planner")

    def test_the_fork_page(self, ask, trip):
        ask(20, f"{trip.page()}fork/{trip.at(2)}/")


def test_a_poll_without_news(browser, trip, alice, django_assert_num_queries):
    client = browser(alice)
    page = client.get(trip.page()).content.decode()
    tag = page.partition('hx-ptag="')[2].partition('"')[0]
    address = f"/f/threads/{trip.thread.pk}/live"
    with django_assert_num_queries(7):
        assert client.get(address, headers={"HX-PTag": tag}).status_code == 304


def test_an_auditors_page(browser, trip, auditor, django_assert_num_queries):
    client = browser(auditor)
    with django_assert_num_queries(17):
        client.get(trip.page(2))
