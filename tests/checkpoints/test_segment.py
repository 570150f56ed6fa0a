"""A segment's bytes: what goes in comes out, and nothing else is taken for one."""

from __future__ import annotations

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.errors import BrokenChain
from checkpoints.pure import codec, segment
from tests.checkpoints import strategies

MACS = st.binary(min_size=32, max_size=32)
texts = st.lists(
    st.builds(lambda state: {"ops": [["reset", state]]}, strategies.states)
    | strategies.near_twins().map(lambda twins: {"ops": list(twins)}),
    min_size=1,
    max_size=8,
)


def packed(said, *, first=64, parent=None, before=bytes(32), after=b"\1" * 32):
    steps = [(uuid4(), codec.canonical(text)) for text in said]
    branch = uuid4()
    plain = segment.pack(
        steps, branch=branch, first=first, parent=parent, before=before, after=after
    )
    return steps, branch, plain


@given(texts, st.integers(0, 2**40), st.none() | st.uuids(version=4), MACS, MACS)
def test_unpacking_gives_what_was_packed(said, first, parent, before, after):
    steps, branch, plain = packed(
        said, first=first, parent=parent, before=before, after=after
    )
    found = segment.unpack(plain)
    assert (found.branch, found.first, found.parent) == (branch, first, parent)
    assert found.last == first + len(steps) - 1
    assert len(found) == len(steps)
    assert list(zip(found.ids, found.plains, strict=True)) == steps
    assert (found.before, found.after) == (before, after)


@given(texts, st.integers(0, 10))
def test_the_first_steps_can_be_parsed_alone(said, more):
    _, _, plain = packed(said)
    found = segment.unpack(plain)
    last = min(found.first + more, found.last)
    parsed = found.texts(last)
    assert len(parsed) == last - found.first + 1
    assert all(map(codec.same, parsed, said))


def test_nobody_reads_its_text_in_a_log():
    _, _, plain = packed([{"ops": ["canary"]}])
    assert "canary" not in repr(segment.unpack(plain))


@given(texts, st.data())
def test_bytes_that_are_cut_or_grow_are_no_segment(said, data):
    plain = packed(said)[2]
    cut = data.draw(st.integers(0, len(plain) - 1))
    with pytest.raises(BrokenChain):
        segment.unpack(plain[:cut])
    with pytest.raises(BrokenChain):
        segment.unpack(plain + b"]")


def test_what_was_written_otherwise_is_no_segment():
    _, _, plain = packed([{"ops": []}, {"ops": []}])
    comma = plain.index(b"},{") + 1
    for changed in (
        b"HPs\2" + plain[4:],
        plain[:4] + bytes(4) + plain[8:],  # no steps
        plain[:comma] + b" " + plain[comma + 1 :],
        plain[:-1] + b",",
    ):
        with pytest.raises(BrokenChain, match="not as packing writes it"):
            segment.unpack(changed)


@pytest.mark.parametrize("text", [b"{}{}", b"1,2"])
def test_texts_that_are_not_one_value_each_are_refused(text):
    plain = segment.pack(
        [(uuid4(), text)],
        branch=uuid4(),
        first=0,
        parent=None,
        before=bytes(32),
        after=bytes(32),
    )
    with pytest.raises(BrokenChain):
        segment.unpack(plain).texts(0)


@pytest.mark.parametrize(
    ("step", "bounds"), [(0, (0, 63)), (63, (0, 63)), (64, (64, 127))]
)
def test_segments_begin_at_multiples_of_their_length(step, bounds):
    assert segment.bounds(step) == bounds
