"""The list of steps, narrowed by kind, outcome, tool and words of labels."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from checkpoints.log.append import NewStep, StepMeta
from tests.pages.conftest import append, reply, result
from tests.pages.test_long_thread import long

__all__ = ["long"]

pytestmark = pytest.mark.django_db


def listed(page: str) -> list[int]:
    """The steps of the list, in its order."""
    steps = page.partition('id="step-list"')[2].partition("</section>")[0]
    return [int(step) for step in re.findall(r'id="step-(\d+)"', steps)]


@pytest.fixture
def ask(browser, alice):
    client = browser(alice)

    def ask(address: str, **query: str) -> str:
        answer = client.get(address, query)
        assert answer.status_code == 200
        return answer.content.decode()

    return ask


@pytest.mark.parametrize(
    ("wanted", "steps"),
    [
        ({"kind": "model"}, [1, 3]),
        ({"kind": "tool"}, [2]),
        ({"status": "waiting"}, [4]),
        ({"status": "ok"}, [0, 1, 2, 3]),
        ({"status": "failed"}, []),
        ({"tool": "quote_fare"}, [2]),
        ({"label": "tp 209"}, [2, 4]),
        ({"label": "TP 209", "kind": "tool"}, [2]),
        ({"kind": "model", "status": "waiting"}, []),
        ({"kind": "", "status": "", "tool": "", "label": " "}, [0, 1, 2, 3, 4]),
    ],
)
def test_each_filter_leaves_the_steps_that_are_so(trip, ask, wanted, steps):
    assert listed(ask(trip.page(2), **wanted)) == steps
    assert listed(ask(trip.parts(2), **wanted)) == steps


def test_a_tool_whose_call_ended_the_run_can_be_chosen(trip, ask):
    assert "<option>look</option>" not in ask(trip.page(2)).replace(' value="look"', "")
    ended = StepMeta(status="failed", name="look", error_class="tool_stopped")
    trip.cheap = append(trip.cheap, NewStep("error", [], "stopped", ended))
    page = ask(trip.page(6, "cheap"))
    assert '<option value="look">look</option>' in page
    assert listed(ask(trip.page(6, "cheap"), tool="look")) == [6]


def test_failures_are_steps_that_failed_and_steps_that_say_so(trip, ask):
    broken = StepMeta(status="failed", name="look", error_class="timeout")
    trip.cheap = append(trip.cheap, NewStep("tool", [], "look", broken))
    page = trip.page(5, "cheap")
    assert listed(ask(page, status="failed")) == [5, 6]
    assert listed(ask(page, status="ok")) == [0, 1, 2, 3, 4]
    assert listed(ask(page, tool="look")) == [6]


def test_steps_that_an_ancestor_took_are_found_and_say_whose_they_are(trip, ask):
    page = ask(trip.page(5, "cheap"), kind="model")
    assert listed(page) == [1, 4]
    assert "1 step shared with main" in page
    assert "2 of 6 steps" in page


def test_a_step_leads_to_itself_with_the_filter(trip, ask):
    page = ask(trip.page(3), kind="model", tab="state")
    [first, _] = re.findall(r'class="step"[^>]* href="([^"]+)"', page)
    query = parse_qs(urlsplit(first.replace("&amp;", "&")).query)
    assert query == {"kind": ["model"], "tab": ["state"]}


def test_keys_lead_through_the_steps_that_match(trip, ask):
    page = ask(trip.page(3), label="tp 209")
    ways = {
        key: re.search(rf'href="([^"?]+)[^"]*"[^>]*data-hotkey="{key}', page)
        for key in ("k,", "j,", "Home", "End")
    }
    assert {key: way and way[1] for key, way in ways.items()} == {
        "k,": trip.page(2),
        "j,": trip.page(4),
        "Home": trip.page(2),
        "End": trip.page(4),
    }


def test_nothing_found_says_by_what_and_how_to_clear(trip, ask):
    page = ask(trip.page(2), kind="summary", tool='<b>"x"')
    assert listed(page) == []
    nothing = page.partition('id="no-match"')[2].partition("</section>")[0]
    assert "No step matches" in nothing
    assert "kind: summary, tool &lt;b&gt;" in nothing
    assert f'href="{trip.page(2)}' in nothing
    # What is asked for is in the form all the same.
    assert '<option value="summary" selected>' in page


def test_a_filter_is_taken_away_by_its_chip(trip, ask):
    page = ask(trip.page(2), kind="tool", status="ok")
    chips = page.partition('id="chosen"')[2].partition("</p>")[0]
    left = [
        parse_qs(urlsplit(address.replace("&amp;", "&")).query)
        for address in re.findall(r'<a [^>]*?href="([^"]+)"', chips)
    ]
    assert [set(query) - {"branch"} for query in left] == [{"status"}, {"kind"}]


def test_the_form_keeps_the_place_and_offers_what_the_thread_has(trip, ask):
    page = ask(trip.page(2), tab="raw", path="/facts/fare", kind="tool")
    form = page.partition('id="step-filter"')[2].partition("</form>")[0]
    assert f'action="{trip.page(2)}"' in form
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    assert hidden == {
        "branch": str(trip.branch.pk),
        "tab": "raw",
        "path": "/facts/fare",
    }
    offered = re.findall(r'<option value="(\w+)"', form)
    assert {"model", "tool", "quote_fare", "failed"} <= set(offered)
    assert "snapshot" not in offered


def test_who_may_not_read_filters_by_what_is_clear_alone(trip, browser, auditor):
    client = browser(auditor)
    page = client.get(trip.page(2), {"tool": "quote_fare"}).content.decode()
    assert listed(page) == [2]
    page = client.get(trip.page(2), {"label": "TP 209"}).content.decode()
    assert listed(page) == [0, 1, 2, 3, 4]
    assert 'id="label-sealed"' in page
    assert 'name="label"' not in page.partition('id="step-filter"')[2]


def test_a_page_of_a_thread_at_work_keeps_its_filter(trip, ask):
    page = ask(trip.page(), kind="model")
    live = page.partition('id="live"')[2].partition("></div>")[0]
    assert "kind=model" in live
    [address] = re.findall(r'hx-get="([^"]+)"', live)
    append(trip.branch, reply("Anything else?"), result("look", "x"))
    assert listed(ask(address.replace("&amp;", "&"))) == [1, 3, 5]


def test_of_a_long_thread_a_window_of_what_matches_is_listed(long, ask):
    page = ask(long.page(256), kind="tool")
    steps = listed(page)
    assert len(steps) == 120
    assert all(step % 2 == 0 for step in steps)
    assert steps[0] < 256 < steps[-1]
    assert "251 of 521 steps" in page
    assert "Earlier steps" in page
    first = listed(ask(long.page(0), kind="tool"))
    assert first[0] == 2
    assert len(first) == 120
    assert listed(ask(long.page(256), label="LOOK 12")) == [29, *range(245, 265, 2)]


def test_a_filter_costs_two_statements_and_opens_no_more(
    long, browser, alice, django_assert_num_queries
):
    client = browser(alice)
    client.get(long.page(256))
    for wanted in ({"kind": "tool"}, {"label": "look"}, {"status": "failed"}):
        number = 23 if "status" in wanted else 24  # none to list, so no rows
        with django_assert_num_queries(number):
            client.get(long.page(256), wanted)
