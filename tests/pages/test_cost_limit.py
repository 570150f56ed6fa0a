"""A run that somebody gave a limit of cost: what it used of it, and the way on at its end."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from agents.models import Run
from agents.tools import Limits, registry
from checkpoints.access import Reason
from tests.pages.test_agents_pages import words

pytestmark = pytest.mark.django_db

NAME = "trip-planner"


def runs():
    return Run.objects.unscoped(Reason.TEST)


@pytest.fixture
def limited(trip):
    """Changes the trip's run, which may cost 20 cents and has cost 6."""

    def limited(**changes) -> Run:
        values = {"max_cost": Decimal("0.2"), "cost": Decimal("0.061"), **changes}
        runs().filter(pk=trip.run.pk).update(**values)
        return runs().get(pk=trip.run.pk)

    return limited


@pytest.fixture
def ended(limited):
    return lambda **more: limited(
        status="failed", error_class="too_expensive", cost=Decimal("0.21"), **more
    )


@pytest.fixture
def client(browser, alice):
    return browser(alice)


def test_what_a_run_may_cost_stands_where_it_is_shown(client, trip, limited):
    limited()
    assert "waiting for a person $0.061 of $0.20" in words(client, trip.page())
    step = words(client, trip.page(3))
    assert f"run {str(trip.run.pk)[-4:]}, trip-planner v1, $0.061 of at most" in step
    assert "of at most $0.20" in words(client, "/runs/")


def test_of_a_run_without_one_nothing_is_said(client, trip):
    assert "of at most" not in words(client, trip.page(3))
    assert "of at most" not in words(client, "/runs/")


def test_calls_of_unknown_price_are_not_nothing(client, trip, limited):
    limited(cost=None, unpriced=2)
    assert "$0.00 + ? of $0.20" in words(client, trip.page())


def test_an_agents_own_limit_counts_where_it_is_less(client, trip, limited, declare):
    limited()
    declare(Decimal("0.10"))
    assert "$0.061 of $0.10" in words(client, trip.page())
    declare(Decimal("0.30"))
    assert "$0.061 of $0.20" in words(client, trip.page())


@pytest.fixture
def declare(monkeypatch):
    """The trip's agent lets its runs cost that much: declare(Decimal("0.10"))."""

    def declare(most: Decimal) -> None:
        agent = replace(registry.agent(NAME), limits=Limits(max_cost=most))
        monkeypatch.setitem(registry._agents, NAME, agent)

    return declare


def test_a_run_that_ended_because_of_it_says_so_and_the_way_on(client, trip, ended):
    run = ended()
    page = words(client, trip.page())
    assert "The run ended at its limit of cost: $0.210 of at most $0.20." in page
    assert "as much again or a higher limit; or fork an earlier step" in page
    assert 'name="max_cost"' in (html := client.get(trip.page()).content.decode())
    assert 'value="0.4"' in html
    assert "Retry with a higher limit" in words(client, "/runs/?show=failed")
    assert f"?branch={run.branch_id}#cost-limit" in (
        client.get("/runs/").content.decode()
    )


def test_a_retry_takes_the_higher_limit(client, trip, ended):
    run = ended()
    answer = client.post(f"/runs/{run.pk}/retry", {"max_cost": "0.50"})
    assert answer.status_code == 303
    again = runs().get(retry_of=run)
    assert again.max_cost == Decimal("0.5")
    page = words(client, trip.page())
    assert "$0.00 of $0.50" in page
    assert "ended at its limit" not in page


def test_a_retry_without_a_word_has_as_much_again(client, ended):
    run = ended()
    client.post(f"/runs/{run.pk}/retry")
    assert runs().get(retry_of=run).max_cost == Decimal("0.2")


@pytest.mark.parametrize("typed", ["0", "-1", "much", "0.0000001", "1e9", "NaN"])
def test_what_is_no_limit_starts_nothing(client, ended, typed):
    run = ended()
    answer = client.post(f"/runs/{run.pk}/retry", {"max_cost": typed})
    assert "Nothing was retried." in words(client, answer["Location"])
    assert not runs().filter(retry_of=run).exists()


def test_what_its_agent_does_not_allow_is_not_offered(client, trip, ended, declare):
    ended()
    declare(Decimal("0.10"))
    page = words(client, trip.page())
    assert "Its agent lets no run cost more." in page
    assert "Retry with" not in page
    assert "Retry with a higher limit" not in words(client, "/runs/")


def test_who_may_not_start_runs_is_told_and_offered_nothing(
    browser, trip, ended, viewer, auditor
):
    ended()
    for person in (viewer, auditor):
        page = words(browser(person), trip.page())
        assert "The run ended at its limit of cost" in page
        assert "Retry with" not in page
        assert "Retry with" not in words(browser(person), "/runs/")
