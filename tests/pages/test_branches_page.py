"""The page of all branches, which the map and the menu lead to where they show some."""

from __future__ import annotations

import re
from uuid import UUID

import pytest

from agents.debug import remarks
from agents.pages.thread.names import Names
from agents.pages.thread.status import MENU
from checkpoints import gate
from checkpoints.access import Reason
from checkpoints.log.threads import fork
from checkpoints.models import AuditEvent, Checkpoint

pytestmark = pytest.mark.django_db

FORKS = 60


@pytest.fixture
def many(trip, alice):
    """The trip with 60 more branches of its second step: what-if-0 to what-if-59."""
    source = Checkpoint.objects.unscoped(Reason.TEST).get(pk=trip.at(2))
    for n in range(FORKS):
        fork(source, name=f"what-if-{n}", by_id=alice.user_id)
    return trip


@pytest.fixture
def shown(browser, alice):
    def shown(address: str, person=alice, **query: str) -> str:
        answer = browser(person).get(address, query)
        assert answer.status_code == 200
        return " ".join(answer.content.decode().split())

    return shown


def named(page: str) -> list[str]:
    """The branches that are listed, in order."""
    table = page.partition('id="branch-table"')[2].partition("</table>")[0]
    return re.findall(r'class="b5 t"[^>]*>.*?<span hx-ignore>([^<]+)<', table)


def address(trip) -> str:
    return f"{trip.page()}branches"


def test_of_many_branches_the_thread_s_page_names_those_it_draws(many, shown):
    page = shown(many.page())
    menu = page.partition('id="branch-menu"')[2].partition("</details>")[0]
    total = FORKS + 2
    assert f"{total} branches" in menu
    assert f'href="{address(many)}"' in menu
    assert f"All {total} branches" in menu
    listed = set(re.findall(r"what-if-\d+", menu))
    assert 20 <= len(listed) < MENU
    assert {f"what-if-{n}" for n in range(FORKS - 10, FORKS)} <= listed
    assert set(re.findall(r"what-if-\d+", page)) == listed
    [hidden] = re.findall(r">\+(\d+) branches<", page)
    assert page.count('class="lane ') + int(hidden) == total


def test_of_few_branches_there_is_no_way_to_more(trip, shown):
    assert address(trip) not in shown(trip.page())


def test_all_are_listed_a_page_at_a_time_the_last_that_moved_first(many, shown):
    first = shown(address(many))
    assert named(first)[:2] == ["what-if-59", "what-if-58"]
    assert "what-if-3<" not in first
    [older] = re.findall(r'href="([^"]+)" rel="next"', first)
    second = shown(older.replace("&amp;", "&"))
    assert len(named(first)) + len(named(second)) == FORKS + 2
    assert len(set(named(first) + named(second))) == FORKS + 2
    assert "where the thread began" in second
    assert "forked from <span hx-ignore>main</span> at step 2" in second


def test_a_branch_is_found_by_a_part_of_its_name(many, shown):
    found = shown(address(many), q="IF-5")
    assert set(named(found)) == {"what-if-5", *(f"what-if-{n}" for n in range(50, 60))}
    assert f"11 of {FORKS + 2}" in found
    none = shown(address(many), q="<b>nothing")
    assert named(none) == []
    assert "No branch is called so" in none
    assert "<b>nothing" not in none


def test_two_that_are_selected_are_compared(many, browser, alice):
    client = browser(alice)
    page = client.get(address(many), {"q": "what-if-5"}).content.decode()
    assert 'id="sel" method="get" action="/threads/compare/"' in page
    one, other = re.findall(r'name="branch" value="([^"]+)" form="sel"', page)[:2]
    answer = client.get("/threads/compare/", {"branch": [one, other]})
    assert answer.status_code == 303
    assert answer["Location"].endswith(f"/{one}/{other}/")


def test_a_star_of_one_s_own_stands_beside_its_branch(many, shown, alice):
    assert "starred" not in shown(address(many), q="cheap")
    remarks.star(remarks.About(many.thread, many.cheap), by=alice)
    assert "starred" in shown(address(many), q="cheap")
    assert "starred" not in shown(address(many), q="what-if")


def test_who_may_not_read_sees_how_they_stand_and_no_name(many, shown, auditor):
    page = shown(address(many), auditor)
    assert "What branches are called is sealed" in page
    assert not re.search(r"what-if|cheap", page)
    assert len(named(page)) == 50
    assert shown(address(many), auditor, q="cheap").count("<tr") == page.count("<tr")


def test_looking_at_it_is_recorded_and_others_threads_are_not_there(
    many, browser, other, shown
):
    opened = AuditEvent.objects.unscoped(Reason.TEST).filter(
        action="open", object_id=many.thread.pk
    )
    shown(address(many))
    assert opened.get().purpose == "branches page"
    assert browser(other).get(address(many)).status_code == 404
    assert opened.count() == 1


@pytest.mark.parametrize(
    ("start", "listed"), [("-1", 50), ("x", 50), ("1e3", 50), ("9999", 12), ("60", 12)]
)
def test_a_start_that_is_none_shows_the_nearest_page(many, shown, start, listed):
    page = shown(address(many), **{"from": start})
    assert len(named(page)) == listed
    assert ('rel="prev"' in page) == (listed == 12)


class Opening(gate.Pass):
    """A pass that tells what it opened."""

    def __init__(self, pass_: gate.Pass) -> None:
        super().__init__(pass_.principal, pass_._threads)
        self.opened: list[UUID] = []

    def open_columns(self, wanted):
        self.opened += [row.pk for row, column in wanted if column == "name"]
        return super().open_columns(wanted)


def test_names_are_opened_once_and_only_those_that_are_asked_for(many, alice):
    branches = list(many.thread.branches.order_by("created_at", "pk"))
    names = Names(branches)
    pass_ = Opening(gate.admit(alice, purpose="test", threads=[many.thread]))
    main, last = branches[0].pk, branches[-1].pk
    assert names.open_with(pass_, many.thread, [main, None]) == "Board week New York"
    assert pass_.opened == [main]
    assert list(names.of([last, main, last])) == ["what-if-59", "main", "what-if-59"]
    names.look([last, last, main])
    assert pass_.opened == [main, last]
    assert names[last] == "what-if-59"
    assert len(list(names.all())) == len(branches)
    assert sorted(pass_.opened) == sorted(branch.pk for branch in branches)


def test_a_name_that_does_not_open_is_a_word_and_an_id(many, alice):
    branches = list(many.thread.branches.order_by("created_at", "pk"))
    branches[3].name = b"no record"
    names = Names(branches)
    assert names[branches[3].pk] == f"branch {str(branches[3].pk)[-4:]}"
    names.open_with(
        gate.admit(alice, purpose="test", threads=[many.thread]), many.thread, []
    )
    assert names[branches[3].pk] == f"branch {str(branches[3].pk)[-4:]}"
    assert names[branches[4].pk].startswith("what-if-")
