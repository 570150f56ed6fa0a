"""What a model call costs: the newest price that admins gave, else the shipped one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.core.exceptions import ValidationError

from agents import prices
from agents.models import Price
from agents.pure.prices import SHIPPED, cost

pytestmark = [pytest.mark.django_db, pytest.mark.owner]  # admins give prices

TODAY = datetime.now(UTC).date()
ONE = {"fresh": Decimal(1), "cached": Decimal(1), "output": Decimal(1)}


@pytest.fixture(autouse=True)
def forgotten():
    prices.forget()
    yield
    prices.forget()


def test_a_dated_edition_costs_what_the_model_costs():
    rates = prices.rates("gpt-4o-2024-08-06")
    assert rates == SHIPPED["gpt-4o"]
    spent = cost(rates, tokens_in=1000, cached=400, tokens_out=100)
    assert str(spent) == "0.003"


def test_a_model_that_nobody_priced_costs_an_unknown_sum():
    assert prices.rates("llama") is None
    assert cost(None, tokens_in=1, cached=0, tokens_out=1) is None
    assert cost(SHIPPED["o3"], tokens_in=None, cached=None, tokens_out=None) is None


def test_the_newest_price_that_has_begun_counts():
    for days, rate in ((-9, 9), (-1, 1), (1, 5)):
        Price.objects.create(
            model="gpt-4o",
            since=TODAY + timedelta(days),
            **dict.fromkeys(ONE, Decimal(rate)),
        )
    rates = prices.rates("gpt-4o-2024-08-06")
    assert rates is not None
    assert rates.output == 1


def test_an_edition_may_have_a_price_of_its_own():
    Price.objects.create(model="gpt-4o-2024-08-06", since=TODAY, **ONE)
    assert prices.rates("gpt-4o-2024-08-06") != prices.rates("gpt-4o")


def test_a_price_without_rates_is_unknown():
    Price.objects.create(model="gpt-4o", since=TODAY)
    assert prices.rates("gpt-4o") is None


def test_a_price_is_whole_or_unknown():
    price = Price(model="m", since=TODAY, fresh=Decimal(1))
    with pytest.raises(ValidationError, match="all three rates, or none"):
        price.full_clean()


def test_a_change_is_seen_by_processes_that_looked_before(monkeypatch):
    assert prices.rates("llama") is None
    Price.objects.create(model="llama", since=TODAY, **ONE)
    assert prices.rates("llama") is None  # for a few seconds
    monkeypatch.setattr(prices, "FRESH", 0)
    assert prices.rates("llama") is not None
