"""How times, money and JSON are written on a page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from django.template import Context, Template

from agents.pages import text
from agents.pages.tree import GROUP, LONG, tree


@pytest.mark.parametrize(
    ("amount", "currency", "written"),
    [
        ("1200", "USD", "$1,200.00"),
        ("1200.5", "EUR", "€1,200.50"),
        ("-0.125", "USD", "-$0.125"),
        (Decimal("1E+3"), "CHF", "CHF 1,000.00"),
    ],
)
def test_an_amount_loses_no_digit(amount, currency, written):
    assert text.money(amount, currency) == written


@pytest.mark.parametrize(
    ("amount", "written"),
    [
        (None, text.UNKNOWN),
        (Decimal(0), "$0.00"),
        (Decimal("0.0004"), "<$0.001"),
        (Decimal("0.0612"), "$0.061"),
        (Decimal("1234.5"), "$1,234.50"),
    ],
)
def test_a_cost_is_rounded_but_never_to_nothing(amount, written):
    assert text.cost(amount) == written


@pytest.mark.parametrize(
    ("length", "written"),
    [
        (None, text.UNKNOWN),
        (210, "210ms"),
        (999.7, "1.0s"),
        (59_949, "59.9s"),
        (59_950, "1m 0s"),
        (timedelta(minutes=6, seconds=12), "6m 12s"),
        (timedelta(hours=6, minutes=12), "6h 12m"),
        (timedelta(days=3, hours=2), "3d 2h"),
    ],
)
def test_a_duration_has_two_parts_at_most(length, written):
    assert text.duration(length) == written


@pytest.mark.parametrize(
    ("number", "written"),
    [(None, text.UNKNOWN), (940, "940"), (38_211, "38.2k"), (1_400_000, "1.4M")],
)
def test_a_count_is_short(number, written):
    assert text.count(number) == written


def test_a_moment_is_absolute_where_there_is_no_script():
    when = datetime(2026, 11, 21, 15, 4, tzinfo=timezone(timedelta(hours=1)))
    html = text.ago(when)
    assert ">21 Nov 2026, 14:04 UTC</relative-time>" in html
    assert 'datetime="2026-11-21T15:04:00+01:00"' in html
    assert text.ago(None) == text.UNKNOWN
    assert (
        text.absolute(datetime(2026, 1, 2, 3, 4, tzinfo=UTC)) == "2 Jan 2026, 03:04 UTC"
    )


def test_a_person_has_initials_and_an_id_an_end():
    template = Template("{% load holdpoint %}{{ name|initials }} {{ id|short }}")
    context = {"name": "Mira van der Okafor", "id": "0193-7f3a"}
    assert template.render(Context(context)) == "MO 7f3a"


def test_json_is_indented_and_cannot_hide_or_break_out():
    html = text.json_pretty({"a": "</pre>\u202e", "ü": [1]})
    assert "</pre>" not in html
    assert "U+202E</span>" in html
    assert "ü" in html


def test_a_tree_shows_every_key_and_value_of_a_state():
    html = tree(
        {"goal": "Book", "fare": {"amount": "990.00", "seats": 6}, "none": None}
    )
    assert "<li><b hx-ignore>goal</b>: " in html
    assert '<b hx-ignore>fare</b> {2} <span class="faint" hx-ignore>' in html
    assert html.count("<details") == 1
    assert "&quot;990.00&quot;</span>" in html
    assert ">null</span>" in html


def test_what_changed_is_marked_and_every_branch_above_it_is_open():
    html = tree({"a/b": {"x": [{"y": 1}]}, "other": {"z": 1}}, {"/a~1b/x/0/y": "was 0"})
    assert html.count("<details open>") == 3
    assert html.count("changed here") == 3
    assert '<mark><span class="v" hx-ignore>1</span></mark>' in html
    assert "was 0" in html


def test_a_long_list_is_folded_into_groups():
    html = tree({"n": list(range(GROUP * 2 + 1))}, {f"/n/{GROUP * 2}": "added"})
    assert f"<details><summary>{GROUP} to {GROUP * 2 - 1}</summary>" in html
    assert f"<details open><summary>{GROUP * 2} to {GROUP * 2}</summary>" in html
    assert html.count('class="v"') == GROUP * 2 + 1


def test_long_text_is_folded_and_shown_as_it_reads():
    html = tree({"note": "One line.\n" * LONG})
    assert f"{LONG * 10:,} characters" in html
    assert "<pre hx-ignore>One line.\nOne line." in html


def test_a_tree_of_hostile_keys_and_values_is_inert():
    html = tree({"<b>\u200b": {"<i>": "</span><script>"}})
    assert "<script" not in html
    assert "<i>" not in html
    assert "\u200b" not in html


def test_the_tree_of_a_plain_value_is_that_value():
    assert "&quot;done&quot;" in tree("done")
