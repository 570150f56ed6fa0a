"""Ranking by words: what is found, what is folded, and what comes first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.pure.rank import rank, said, words

# A fact, and how somebody asks for it later.
PLANTED = [
    ("travellers marsh seat: aisle, never near the galley", "which seat does Marsh like"),
    ("travellers osei visa: UAE visa runs out 2027-03-02", "Osei visa expiry UAE"),
    ("travellers vega loyalty: TAP Miles&Go 1120", "vega loyalty programme number"),
    ("hotels lisbon: the Memmo Alfama gives 12 % from three nights", "hotel in Lisbon"),
    ("budget board week: 1,600.00 USD are left for flights", "how much budget is left"),
    ("policy refunds: above 500 EUR two people approve", "refund approval above 500"),
    ("vendor acme contact: Ms Zhāng, +49 30 1234", "contact at Acme, Zhang"),
    ("airline TP 209: leaves Newark at 18:20, gate C71", "TP 209 departure gate"),
    ("meals petrov: vegetarian, no nuts", "is Petrov a vegetarian"),
    ("office porto: closed on 24 June, São João", "sao joao office closing"),
    ("incident 4711: duplicate booking came from a retry after a timeout", "duplicate bookings and retries"),
    ("invoice cadence: Globex wants one invoice a month, by the 5th", "globex monthly invoices"),
    ("顧客 田中: 窓側の席を希望", "田中 窓側"),
    ("straße köln: Büro in der Schildergasse 12", "buero köln schildergasse"),
    ("passport ana: number ends in 882, renewed in Bern", "ana passport renewal"),
    ("train preference lee: quiet coach, forward facing", "lee trains quiet"),
    ("approvals deadline: six hours for anything above 1,000", "deadline for approvals"),
    ("sla helios: answer within 30 minutes at night", "helios night answer time"),
    ("rental cars: automatic only, Hertz Gold for Diaz", "diaz car rental"),
    ("currency: quotes to Nordwind are in NOK", "nordwind quote currency"),
]  # fmt: skip


def test_planted_facts_are_among_the_first_five():
    topics = ("seat", "hotel", "invoice", "visa", "gate", "booking", "office", "quote")
    chatter = [f"note {n}: {topics[n % 8]} was looked at, item {n}" for n in range(400)]
    texts = chatter + [fact for fact, _ in PLANTED]
    found = sum(
        len(chatter) + n in rank(asked, texts, most=5)
        for n, (_, asked) in enumerate(PLANTED)
    )
    assert found / len(PLANTED) >= 0.9


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Café-Crème", ["cafe", "creme"]),
        ("snake_case and 12.5", ["snake", "case", "and", "12", "5"]),
        ("STRASSE straße", ["strasse", "strasse"]),
        ("\ufb01ne \u2460", ["fine", "1"]),
        ("e\u0301te\u0301 \u00e9t\u00e9", ["ete", "ete"]),
        ("東京駅 Tokyo", ["東京", "京駅", "tokyo"]),
        ("駅", ["駅"]),
        ("", []),
        ("… \u2013 !", []),
    ],
)
def test_words_are_folded(text, folded):
    assert list(words(text)) == folded


def test_what_says_it_more_and_shorter_comes_first():
    texts = ["a seat among many other things that are said", "seat seat", "no", "seat"]
    assert rank("seat", texts, most=9) == [1, 3, 0]
    assert rank("seat", texts, most=1) == [1]


def test_a_rare_word_counts_for_more_than_a_usual_one():
    texts = ["flight paris", *["flight london"] * 9, "london zurich"]
    assert rank("flight zurich", texts, most=1) == [10]


def test_a_longer_word_is_found_by_its_beginning_and_a_short_one_is_not():
    assert rank("flights", ["flight plan", "flat"], most=5) == [0]
    assert rank("car", ["carpet"], most=5) == []


def test_nothing_fits_nothing():
    assert rank("", ["a"], most=5) == rank("a", [], most=5) == []
    assert rank("a", ["", "…"], most=5) == []


def test_keys_texts_and_numbers_of_a_value_are_said():
    value = {"seat": "12A", "legs": [{"from": "EWR"}, None, True, 2.5]}
    assert sorted(said(value).split()) == ["12A", "2.5", "EWR", "from", "legs", "seat"]
    assert said("as it is") == "as it is"


@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=12))
def test_what_is_found_is_there_once_and_shares_a_word(query, texts):
    found = rank(query, texts, most=5)
    assert len(found) == len(set(found)) <= 5
    asked = set(words(query))
    for place in found:
        own = set(words(texts[place]))
        assert any(a.startswith(b) or b.startswith(a) for a in asked for b in own)
