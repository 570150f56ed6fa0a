"""The filters of the threads list: what each leaves, what of them makes no sense."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from html import unescape

import pytest
from django.utils import timezone

from agents.debug import remarks
from agents.models import Run, ToolCall
from agents.runs import searched
from checkpoints.access import Reason
from checkpoints.models import ApiToken, Branch, Grant, Thread
from tests.pages.test_thread_page import text
from tests.pages.test_threads_list import rows


@pytest.fixture
def two(make_trip, alice, bob):
    """A trip of Alice's whose run failed, and one of Bob's that waits."""
    failed, waits = make_trip(alice, title="Tokyo"), make_trip(bob, title="Porto")
    Run.objects.unscoped(Reason.TEST).filter(pk=failed.run.pk).update(
        status="failed",
        failed_step=5,
        error_class="model_unreachable",
        cost=Decimal("0.40"),
        tokens=38_000,
        worked=timedelta(minutes=6),
        finished_at=timezone.now(),
    )
    Run.objects.unscoped(Reason.TEST).filter(pk=waits.run.pk).update(
        cost=Decimal("0.10"), tokens=1_000, worked=timedelta(seconds=20)
    )
    ToolCall.objects.unscoped(Reason.TEST).filter(run=failed.run).update(tool="hold")
    return failed, waits


def test_a_label_finds_the_threads_that_have_it(two, browser, alice, auditor):
    failed, _ = two
    about = remarks.About(failed.thread)
    remarks.label(about, alice, text="Ask  Helen")
    client = browser(alice)
    for words, found in (("ask helen", 1), ("Ask", 0), ("Ask Helen first", 0)):
        assert len(shown(browser, alice, label=words)) == found
    assert "labelled &lt;b&gt;" in text(client.get("/threads/", {"label": "<b>"}))
    # Who may not read labels learns nothing of them, nor is offered to.
    page = browser(auditor).get("/threads/", {"label": "ask helen"})
    assert not rows(text(page))
    assert 'name="label"' not in page.content.decode()


def test_a_declared_field_finds_the_threads_that_hold_the_value(
    two, browser, alice, auditor
):
    failed, waits = (trip.branch for trip in two)
    searched.store(failed, {"order": "a=4711", "city": "Tokyo"})
    searched.store(waits, {"city": "Porto"})
    for typed, branch in (
        ("order=a=4711", failed),
        (" city = Porto ", waits),
        ("order=4711", None),
        ("city=tokyo", None),
        ("town=Porto", None),
    ):
        left = [str(branch.thread_id)] if branch else []
        assert shown(browser, alice, field=typed) == left, typed
    client = browser(alice)
    page = text(client.get("/threads/", {"field": "city=<b>"}))
    assert "city = &lt;b&gt;" in page
    for typed in ("city", "city=", "=Porto", "City=Porto"):
        page = text(client.get("/threads/", {"field": typed}))
        assert "expected a declared field and its value" in page
        assert len(rows(page)) == 2
    # As with labels: what is found tells what is sealed.
    page = browser(auditor).get("/threads/", {"field": "city=Porto"})
    assert not rows(text(page))
    assert 'name="field"' not in page.content.decode()


def test_the_form_offers_the_fields_that_agents_declare(two, browser, alice):
    page = text(browser(alice).get("/threads/"))
    assert '<option value="booking=">' in page


def shown(browser, alice, **query):
    return rows(text(browser(alice).get("/threads/", query)))


@pytest.mark.parametrize(
    ("query", "which"),
    [
        ({"step": "5"}, "failed"),
        ({"step": "4"}, ""),
        ({"error": "model_unreachable"}, "failed"),
        ({"error": "model_unreachable", "step": "6"}, ""),
        ({"tool": "hold"}, "failed"),
        ({"tool": "book_flight"}, "waits"),
        ({"tool": "hold%"}, ""),
        ({"cost": "0.10"}, "failed"),
        ({"cost": "$0.09"}, "both"),
        ({"cost": "0.4"}, ""),
        ({"tokens": "37,999"}, "failed"),
        ({"tokens": "38k"}, ""),
        ({"time": "5m"}, "failed"),
        ({"time": "19"}, "both"),
        ({"time": "0.1 h"}, ""),
        ({"by": "alice"}, "failed"),
        ({"by": "bob"}, "waits"),
        ({"by": "~program"}, ""),
        ({"version": "1"}, "both"),
        ({"version": "v2"}, ""),
        ({"agent": "trip-planner", "by": "bob"}, "waits"),
        ({"forks": "yes"}, "both"),
        ({"forks": "no"}, ""),
        ({"since": "day"}, "both"),
        ({"status": "failed"}, "failed"),
        ({"status": "waiting", "tool": "hold"}, ""),
        ({"status": "waiting", "cost": "0.05", "by": "bob"}, "waits"),
    ],
)
def test_what_a_filter_leaves(browser, two, alice, query, which):
    failed, waits = (str(trip.thread.pk) for trip in two)
    left = {"failed": [failed], "waits": [waits], "both": [waits, failed], "": []}
    assert shown(browser, alice, **query) == left[which]


def test_days_are_days_from_midnight_to_midnight(browser, two, alice):
    first, second = (str(trip.thread.pk) for trip in two)
    threads = Thread.objects.unscoped(Reason.TEST)
    threads.filter(pk=first).update(created_at="2026-11-03T00:00:00Z")
    threads.filter(pk=second).update(created_at="2026-11-04T23:59:59.999Z")

    def begun(**days):
        return set(shown(browser, alice, **days))

    assert begun(**{"from": "2026-11-03", "to": "2026-11-03"}) == {first}
    assert begun(**{"from": "2026-11-04", "to": "2026-11-04"}) == {second}
    assert begun(to="2026-11-04") == {first, second}
    assert begun(**{"from": "2026-11-05"}) == set()


def test_what_has_not_moved_for_long_is_left_out(browser, two, alice):
    failed, waits = two
    Branch.objects.unscoped(Reason.TEST).filter(thread=failed.thread).update(
        updated_at=timezone.now() - timedelta(days=6)
    )
    assert shown(browser, alice, since="day") == [str(waits.thread.pk)]
    assert len(shown(browser, alice, since="week")) == 2


def again(run, **values):
    """Another run of the same thread, on its fork."""
    branch = Branch.objects.unscoped(Reason.TEST).get(
        thread=run.thread_id, parent__isnull=False
    )
    made = {
        "workspace": run.workspace,
        "thread": run.thread,
        "branch": branch,
        "agent_version": run.agent_version,
        "grant": run.grant,
        "started_by": run.started_by,
    }
    return Run.objects.create(**made | values)


def test_sums_are_over_all_runs_and_questions_are_about_one(browser, two, alice):
    failed, waits = two
    again(waits.run, status="succeeded", cost=Decimal("0.35"))
    assert len(shown(browser, alice, cost="0.39")) == 2
    # One run is of that agent and another failed so: no run is both.
    again(failed.run, status="succeeded", started_by_id=waits.run.started_by_id)
    assert shown(browser, alice, error="model_unreachable", by="bob") == []


def test_what_a_row_says_of_cost_is_what_the_filter_asks(browser, two, alice):
    failed, _ = two
    again(failed.run, status="succeeded", cost=Decimal("0.35"), tokens=2_000)
    page = text(browser(alice).get("/threads/", {"cost": "0.74"}))
    assert rows(page) == [str(failed.thread.pk)]
    assert "$0.750" in page
    assert "40.0k" in page


def test_a_program_starts_runs_too(browser, two, alice, workspace):
    failed, _ = two
    token = ApiToken.objects.create(
        workspace=workspace, name="nightly", prefix="hp_nightly", scopes="start"
    )
    grant = Grant.objects.create(workspace=workspace, thread=failed.thread, token=token)
    Run.objects.unscoped(Reason.TEST).filter(pk=failed.run.pk).update(
        grant=grant, started_by=None
    )
    assert shown(browser, alice, by="~program") == [str(failed.thread.pk)]


WRONG = [
    ("version", "three"),
    ("step", "-1"),
    ("step", "٣"),
    ("step", "9" * 30),
    ("cost", "cheap"),
    ("cost", "-1"),
    ("cost", "NaN"),
    ("cost", "1e9"),
    ("cost", "9" * 40),
    ("tokens", "38g"),
    ("tokens", "k"),
    ("time", "5 days"),
    ("time", "Infinity"),
    ("forks", "some"),
    ("since", "ever"),
    ("from", "2026-02-30"),
    ("from", "0001-01-01"),
    ("to", "9999-12-31"),
    ("to", "tomorrow"),
    ("status", "lost"),
]


@pytest.mark.parametrize(("name", "typed"), WRONG)
def test_what_cannot_be_read_is_told_and_the_rest_holds(
    browser, two, alice, name, typed
):
    answer = browser(alice).get("/threads/", {name: typed, "by": "bob"})
    page = text(answer)
    assert answer.status_code == 200
    assert rows(page) == [str(two[1].thread.pk)]
    told = page.partition('id="filter-errors"')[2].partition("</div>\n</div>")[0]
    assert f"found “{typed}”, expected " in unescape(told)
    if name != "status":
        [field] = re.findall(rf'<(?:input|select) name="{name}"[^>]*>', page)
        assert 'aria-invalid="true"' in field
        assert f'id="f-{name}-e"' in page
        assert '<details class="pop" id="thread-filters" open>' in page
    # What made no sense is in no link that leads on.
    links = re.findall(r'href="(\?[^"]*)"', page)
    assert links
    assert not [link for link in links if f"{name}={typed}" in link]


def test_a_time_that_ends_before_it_begins_is_told(browser, two, alice):
    query = {"from": "2026-11-04", "to": "2026-11-03", "by": "bob"}
    page = text(browser(alice).get("/threads/", query))
    assert "found 2026-11-03, which is before 2026-11-04" in page


@pytest.mark.parametrize("name", ["agent", "tool", "error", "by", "q"])
@pytest.mark.parametrize(
    "typed", ["\0", "<script>alert(1)</script>\u202e", "'; --", "x" * 9_999]
)
def test_no_text_breaks_the_list(browser, two, alice, name, typed):
    answer = browser(alice).get("/threads/", {name: typed})
    assert answer.status_code == 200
    assert "<script>alert" not in answer.content.decode()


def test_each_filter_is_a_chip_that_takes_it_away(browser, two, alice):
    client = browser(alice)
    page = text(
        client.get("/threads/", {"status": "failed", "cost": "$0.1", "step": "5"})
    )
    chips = {
        words: unescape(link)
        for link, words in re.findall(
            r'<a class="chip indigo nw" href="([^"]*)"><span hx-ignore>(.*?)</span>',
            page,
        )
    }
    assert set(chips) == {"failed at step 5", "over $0.10"}
    assert chips["over $0.10"] == "?status=failed&step=5"
    assert "1 match" in page
    assert 'href="?status=failed">clear filters' in page
    assert len(rows(text(client.get("/threads/" + chips["over $0.10"])))) == 1


def test_a_tab_keeps_the_filters(browser, two, alice):
    page = text(browser(alice).get("/threads/", {"tool": "hold"}))
    assert 'href="?status=failed&amp;tool=hold"' in page


def test_the_form_keeps_what_was_chosen(browser, two, alice):
    page = text(
        browser(alice).get("/threads/", {"by": "bob", "agent": "gone", "cost": "0.05"})
    )
    assert '<option value="bob" selected>' in page
    assert (
        '<option value="gone" selected>gone</option>' in page
    )  # no such agent any more
    assert re.search(r'name="cost"\s+type="text"\s+value="0.05"', page)


def test_pages_keep_the_filters_and_new_rows_move_nothing(
    browser, make_thread, make_trip, alice
):
    made = [make_thread(owner=alice, title=f"Trip {n}") for n in range(30)]
    client = browser(alice)
    page = text(client.get("/threads/", {"forks": "no"}))
    [older] = re.findall(r'href="\?([^"]*)" rel="next"', page)
    assert "forks=no" in older
    make_thread(owner=alice, title="Came meanwhile")
    make_trip(alice)
    page = text(client.get("/threads/?" + unescape(older)))
    assert rows(page) == [str(branch.thread_id) for branch in made[4::-1]]


def test_the_newest_run_says_the_status_even_of_those_made_at_once(browser, two, alice):
    failed, _ = two
    same = Run.objects.unscoped(Reason.TEST).get(pk=failed.run.pk)
    done = again(failed.run, status="succeeded", created_at=same.created_at)
    newest = max(same.pk, done.pk)
    tab = "failed" if newest == same.pk else "done"
    other = {"failed": "done", "done": "failed"}[tab]
    assert shown(browser, alice, status=tab) == [str(failed.thread.pk)]
    assert shown(browser, alice, status=other) == []
