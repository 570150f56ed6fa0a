"""Steps of two branches beside each other: each once, in order, by what they are."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from checkpoints.pure.abreast import Look, Row, abreast

looks = st.lists(
    st.builds(Look, st.sampled_from("LTU"), st.sampled_from("abcde")).map(
        lambda look: Look(look.kind, f"{look.kind}{look.whole}")
    ),
    max_size=15,
)


def line(text: str) -> list[Look]:
    """ "La Tb": a step of kind L that did "a", one of kind T that did "b"."""
    return [Look(word[0], word) for word in text.split()]


def drawn(a: str, b: str) -> list[str]:
    """Each row as "La=La", "La≠Lb", "Tb~" (only the first has it) or "+Tb"."""
    one, other = line(a), line(b)

    def row(found: Row) -> str:
        left = "" if found.a is None else str(one[found.a].whole)
        right = "" if found.b is None else str(other[found.b].whole)
        sign = "=" if found.same else "≠" if left and right else "~" if left else "+"
        return left + sign + right

    return [row(found) for found in abreast(one, other)]


@given(looks, looks)
def test_every_step_is_there_once_and_in_order(a, b):
    rows = abreast(a, b)
    assert [row.a for row in rows if row.a is not None] == list(range(len(a)))
    assert [row.b for row in rows if row.b is not None] == list(range(len(b)))
    for row in rows:
        if row.a is not None and row.b is not None:
            assert a[row.a].kind == b[row.b].kind
            assert row.same == (a[row.a].whole == b[row.b].whole)
        else:
            assert not row.same


@given(looks)
def test_a_line_beside_itself_is_the_same_throughout(a):
    assert abreast(a, a) == [Row(n, n, same=True) for n in range(len(a))]


@given(looks, looks)
def test_the_other_way_round_the_rows_are_the_same_with_sides_changed(a, b):
    there = Counter(abreast(a, b))
    back = Counter(Row(row.b, row.a, row.same) for row in abreast(b, a))
    assert there == back


@given(looks, st.integers(0, 15))
def test_one_more_step_stands_alone_and_all_others_are_the_same(a, at):
    more = [*a[:at], Look("X", "X!"), *a[at:]]
    rows = abreast(a, more)
    assert [row for row in rows if not row.same] == [Row(None, min(at, len(a)))]


def test_what_differs_stands_beside_what_is_of_its_kind():
    assert drawn("La Tb Lc", "Ld Tb Le") == ["La≠Ld", "Tb=Tb", "Lc≠Le"]
    assert drawn("La Tb", "La Uc Tb") == ["La=La", "+Uc", "Tb=Tb"]
    assert drawn("La !x", "Lb ?y") == ["La≠Lb", "!x~", "+?y"]
    assert drawn("", "La") == ["+La"]
