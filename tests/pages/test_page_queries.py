"""How many questions a page asks the database: as many with more of everything.

Each page asks who is there (4), whether they may read and records that it opens (2 and a
savepoint), asks whether keys live, and shows the navigation's counts (2). What a thread's steps come
to is asked once for the heads that there are.
"""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.debug import remarks
from agents.models import AgentVersion, Policy
from agents.tools import registry
from agents.tools.versions import digest_of
from checkpoints.access import Reason
from checkpoints.log.threads import fork
from checkpoints.models import Checkpoint
from tests.pages.conftest import append, reply, result
from tests.pages.test_fork_page import unchanged


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

    @pytest.fixture
    def rules(self, size, workspace):
        """A policy: of two versions and rules, or of thirty."""
        for version in range(1, 3 if size == "trip" else 31):
            rules = [
                {"id": f"r{n}", "name": f"Rule {n}", "outcome": "require"}
                for n in range(version)
            ]
            Policy.objects.create(workspace=workspace, version=version, rules=rules)

    @pytest.fixture
    def said(self, size, trip, alice):
        """Notes and labels on the step, its branch and its thread: one each, or many."""
        source = Checkpoint.objects.unscoped(Reason.TEST).get(pk=trip.at(2))
        for n in range(1 if size == "trip" else 10):
            for about in (
                remarks.About(trip.thread),
                remarks.About(trip.thread, trip.branch),
                remarks.About(trip.thread, checkpoint=source),
            ):
                remarks.note(about, alice, text=f"Note {n}")
                remarks.label(about, alice, text=f"label {n}")
                remarks.judge(about, alice, good=False, reason=f"Reason {n}")

    def test_the_page(self, ask, trip):
        ask(22, trip.page(2))

    @pytest.mark.parametrize("tab", ["state", "messages", "context", "raw", "files"])
    def test_another_tab(self, ask, trip, tab):
        ask(22, trip.page(2), tab=tab)

    def test_a_watched_path(self, ask, trip):
        ask(22, trip.page(2), path="/facts/fare")

    def test_the_history_of_a_path(self, ask, trip):
        ask(17, f"{trip.page()}history", path="/facts/fare")

    def test_all_branches(self, ask, trip):
        ask(15, f"{trip.page()}branches")

    def test_a_search_in_all_steps(self, ask, trip):
        ask(18, f"{trip.page()}search", q="fare")

    def test_the_parts_that_a_step_changes(self, ask, trip):
        ask(20, trip.parts(2))

    def test_the_list(self, ask, trip):
        ask(25, "/threads/")

    def test_what_was_said_of_a_thread(self, ask, trip, said):
        ask(23, trip.page(2))  # as without, and whether the keys of the words live
        ask(13, f"{trip.page()}remarks")

    def test_the_runs(self, ask, trip):
        ask(23, "/runs/")

    def test_the_runs_that_failed_somewhere(self, ask, trip):
        ask(17, "/runs/", step=5, since="day", tool="quote_fare", agent="trip-planner")

    def test_the_agents(self, ask, trip):
        ask(12, "/agents/")

    @pytest.mark.parametrize(
        ("tab", "number"),
        [("", 19), ("tools/", 15), ("policies/", 15), ("versions/", 15)],
    )
    def test_an_agent(self, ask, trip, tab, number):
        ask(number, f"/agents/trip-planner/{tab}")

    def test_the_policies(self, ask, trip, rules):
        ask(13, "/policies/", rule=2)

    def test_the_versions_of_policies(self, ask, trip, rules):
        ask(9, "/policies/versions", at=2, base=1)

    def test_a_version_of_an_agent(self, ask, trip):
        ask(21, "/agents/trip-planner/versions/", at="1")

    def test_two_branches(self, ask, trip):
        ask(24, f"/threads/compare/{trip.branch.pk}/{trip.cheap.pk}/")

    def test_two_steps(self, ask, trip):
        ask(15, f"/threads/diff/{trip.at(2)}/{trip.at(4, 'cheap')}/")

    def test_what_to_compare(self, ask, trip):
        ask(14, "/threads/compare/")

    def test_the_fork_page(self, ask, trip):
        planner = registry.agent("trip-planner")
        AgentVersion.objects.unscoped(Reason.TEST).update(
            digest=digest_of(trip.thread.workspace_id, planner)
        )
        # Of the calls that can be chosen for one by one, those that the source recorded.
        ask(19, f"{trip.page()}fork/{trip.at(2)}/")

    def test_a_fork(self, trip, browser, alice):
        """Not what its page asks: the branches, the runs, the calls, every row."""
        client = browser(alice)
        for _ in range(2):  # keys are cached from then on
            form = unchanged(system="Be brief.")
            with CaptureQueriesContext(connection) as asked:
                answer = client.post(f"{trip.page()}fork/{trip.at(2)}/", form)
            assert answer.status_code == 303
        assert len(asked) == 21

    def test_the_fork_page_of_an_agent_that_changed(self, ask, trip):
        # Its versions, and whether the key of the older one lives.
        ask(21, f"{trip.page()}fork/{trip.at(2)}/")


def test_a_poll_without_news(browser, trip, alice, django_assert_num_queries):
    client = browser(alice)
    page = client.get(trip.page()).content.decode()
    tag = page.partition('hx-ptag="')[2].partition('"')[0]
    address = f"/f/threads/{trip.thread.pk}/live"
    with django_assert_num_queries(7):
        assert client.get(address, headers={"HX-PTag": tag}).status_code == 304


def test_a_look_of_an_open_inbox_without_news(
    browser, trip, alice, django_assert_num_queries
):
    client = browser(alice)
    page = client.get("/inbox/").content.decode()
    address = page.partition('hx-get="/f/inbox/')[2].partition('"')[0]
    tag = (
        page.partition('id="inbox-list"')[2].partition('hx-ptag="')[2].partition('"')[0]
    )
    asked = f"/f/inbox/{address.replace('&amp;', '&')}"
    with django_assert_num_queries(6):  # who is there 4, what it shows, what is new
        assert client.get(asked, headers={"HX-PTag": tag}).status_code == 304
    client.get("/f/waiting")
    with django_assert_num_queries(5):
        client.get("/f/waiting")


def test_the_figures_of_decisions(browser, trip, alice, django_assert_num_queries):
    client = browser(alice)
    with django_assert_num_queries(7):
        client.get("/inbox/metrics")


def test_an_auditors_page(browser, trip, auditor, django_assert_num_queries):
    client = browser(auditor)
    with django_assert_num_queries(17):
        client.get(trip.page(2))
