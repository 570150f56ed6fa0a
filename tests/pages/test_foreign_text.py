"""Text from a model or a tool cannot hide anything on a page."""

from __future__ import annotations

import time
import unicodedata

import pytest
from django.template import Context, Template
from hypothesis import given
from hypothesis import strategies as st

from agents.pages.text import visible
from agents.pure.visible import COMBINING_LIMIT, flat, misleading

BIDI = [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C]
ZERO_WIDTH = [0x200B, 0x200C, 0x200D, 0x2060, 0x2064, 0xFEFF, 0x00AD, 0x180E]
SELECTORS = [0xFE00, 0xFE0F, 0xE0100, 0xE01EF, 0x180B, 0x180F]
BLANKS = [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0]
SPACES = [0x00A0, 0x1680, 0x2000, 0x2007, 0x200A, 0x202F, 0x205F, 0x3000]
LINES = [0x2028, 0x2029]
CONTROLS = [*range(0x09), *range(0x0B, 0x20), 0x7F, 0x85, 0x9F]
OTHERS = [0xE000, 0xD800, 0xFFFF, 0xE0001, 0xE0041, 0x0378]
HIDING = BIDI + ZERO_WIDTH + SELECTORS + BLANKS + SPACES + LINES + CONTROLS + OTHERS


@pytest.mark.parametrize("code", HIDING, ids=lambda code: f"U+{code:04X}")
def test_a_character_that_shows_nothing_becomes_its_number(code):
    html = visible(f"a{chr(code)}b")
    assert chr(code) not in html
    assert f">U+{code:04X}</span>" in html


def test_a_turned_file_name_is_read_as_it_is_stored():
    html = visible("passport_\u202efdp.exe")
    assert '<span class="tok red" title="RIGHT-TO-LEFT OVERRIDE">U+202E</span>' in html
    assert flat("passport_\u202efdp.exe") == "passport_⟦U+202E⟧fdp.exe"


def test_ordinary_text_stays_as_it_is():
    text = "Crème brûlée, 東京タワー, Ελλάδα, Москва, ¥1,200\n\t— “yes”"
    assert flat(text) == text


def test_line_ends_of_every_system_are_newlines_but_a_lone_return_is_shown():
    assert flat("a\r\nb\rc") == "a\nb⟦U+000D⟧c"


def test_markup_is_text():
    html = visible("<img src=x onerror=alert(1)>&\"'")
    assert html == "&lt;img src=x onerror=alert(1)&gt;&amp;&quot;&#x27;"


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("em\u0456rates.example", "em⟦\u0456 U+0456⟧rates.example"),
        ("p\u0430ypal", "p⟦\u0430 U+0430⟧ypal"),
        ("\uff41dmin", "⟦\uff41 U+FF41⟧dmin"),
        ("\U0001d41adm\u03bfn", "⟦\U0001d41a U+1D41A⟧dm⟦\u03bf U+03BF⟧n"),
    ],
)
def test_a_letter_of_another_alphabet_inside_a_word_is_pointed_out(word, shown):
    assert flat(word) == shown


@pytest.mark.parametrize("word", ["USB-кабель", "東京Tower", "Ελλάδα", "naïve"])
def test_words_that_people_write_are_left_alone(word):
    assert flat(word) == word


def test_a_host_in_another_alphabet_says_its_real_name():
    assert "xn--" in flat("https://\u0430\u0440\u0440\u04cf\u0435.com/login")
    assert (
        flat("mira@münchen.example") == "mira@münchen.example⟦xn--mnchen-3ya.example⟧"
    )
    assert "⟦no such host⟧" in flat(f"https://{'ü' * 70}.example")


def test_a_host_that_is_far_too_long_is_none_and_takes_no_time():
    """Decoding it took more than a minute."""
    begun = time.monotonic()
    assert "⟦no such host⟧" in flat(f"ada@xn--{'b' * 999_000}")
    assert misleading(f"ada@xn--{'b' * 999_000}") == [
        "a host is not what it looks like: no such host"
    ]
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("letters", ["naïve ", "Москва ", "IT-отдел ", "東京Tower "])
def test_a_megabyte_is_looked_through_to_its_end(letters):
    text = letters * (1_000_000 // len(letters))
    begun = time.monotonic()
    assert misleading(text) == []
    assert misleading(text + "p\u0430ypal") == [
        "letters of another alphabet inside a word: \u0430 U+0430"
    ]
    assert time.monotonic() - begun < 20


def test_marks_piled_on_a_letter_are_counted_out():
    tower = "a" + "\u0301" * (COMBINING_LIMIT + 2)
    assert flat(tower) == "a" + "\u0301" * COMBINING_LIMIT + "⟦U+0301⟧" * 2


def test_letters_that_read_from_the_right_keep_to_themselves():
    assert visible("שלום") == "<bdi>שלום</bdi>"


def test_the_filters_are_for_content_and_for_attributes():
    template = Template(
        "{% load holdpoint %}<b title='{{ text|visible_text }}'>{{ text|visible }}</b>"
    )
    html = template.render(Context({"text": "<\u200b'"}))
    assert html.startswith("<b title='&lt;⟦U+200B⟧&#x27;'>&lt;<span ")


@given(st.text())
def test_nothing_hides_in_any_text(text):
    """Whatever was given: what is shown as it stands is visible, and all of it is there."""
    shown = flat(text)
    assert not any(
        unicodedata.category(char) in {"Cf", "Cc", "Co", "Cs", "Cn", "Zl", "Zp"}
        for char in shown
        if char not in "\n\t"
    )
    ordinary = [char for char in text if char.isascii() and char.isprintable()]
    rest = iter(shown)
    assert all(char in rest for char in ordinary)  # in order
