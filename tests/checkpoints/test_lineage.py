"""The tree: the way to a step runs through forks without gaps; lanes do not collide."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.errors import StepNotFound
from checkpoints.pure.lineage import Line, Stretch, cut, lanes, owner, path, shared


@st.composite
def trees(draw) -> list[Line]:
    """Branches in the order in which they were made, forked at any step seen."""
    lines = [Line(UUID(int=1), None, -1, draw(st.integers(0, 30)))]
    for number in range(2, draw(st.integers(2, 40))):
        parent = draw(st.sampled_from(lines))
        fork_step = draw(st.integers(0, parent.tip))
        tip = fork_step + draw(st.integers(0, 20))
        lines.append(Line(UUID(int=number), parent.id, fork_step, tip))
    return lines


@given(trees(), st.data())
def test_the_way_to_a_step_has_every_step_before_it_once(lines, data):
    by_id = {line.id: line for line in lines}
    line = data.draw(st.sampled_from(lines))
    step = data.draw(st.integers(0, line.tip))
    way = path(by_id, line.id, step)
    assert [n for part in way for n in range(part.first, part.last + 1)] == list(
        range(step + 1)
    )
    for part in way:
        assert by_id[part.branch].fork_step < part.first <= part.last
        assert part.last <= by_id[part.branch].tip
    for one, following in pairwise(way):
        assert one.branch != following.branch
    assert owner(by_id, line.id, step) == way[-1].branch


A, B, C = (UUID(int=n) for n in (1, 2, 3))
TREE = {
    A: Line(A, None, -1, 9),
    B: Line(B, A, 5, 12),
    C: Line(C, B, 3, 3),  # forked from what B shares with A; has no step of its own
}


@pytest.mark.parametrize(
    ("branch", "step", "way"),
    [
        (A, 0, [Stretch(A, 0, 0)]),
        (B, 5, [Stretch(A, 0, 5)]),
        (B, 6, [Stretch(A, 0, 5), Stretch(B, 6, 6)]),
        (B, 12, [Stretch(A, 0, 5), Stretch(B, 6, 12)]),
        (C, 3, [Stretch(A, 0, 3)]),
    ],
)
def test_a_step_before_the_fork_belongs_to_the_source(branch, step, way):
    assert path(TREE, branch, step) == way


@pytest.mark.parametrize(("branch", "step"), [(A, 10), (B, 13), (C, 4), (A, -1)])
def test_a_step_that_is_not_there_is_said_to_be_missing(branch, step):
    with pytest.raises(StepNotFound, match=f"Step {step} "):
        path(TREE, branch, step)


@given(trees())
def test_branches_on_one_lane_keep_a_step_apart(lines):
    placed = lanes(lines)
    assert placed.keys() == {line.id for line in lines}
    for lane in set(placed.values()):
        spans = sorted((n.fork_step, n.tip) for n in lines if placed[n.id] == lane)
        assert all(one[1] + 1 < other[0] for one, other in pairwise(spans))


@given(trees())
def test_every_branch_takes_the_first_lane_with_room(lines):
    placed = lanes(lines)
    for position, line in enumerate(lines):
        for lane in range(placed[line.id]):
            assert any(
                placed[other.id] == lane
                and other.fork_step <= line.tip + 1
                and line.fork_step <= other.tip + 1
                for other in lines[:position]
            )


def test_the_main_line_is_on_top_and_lanes_are_used_again():
    lines = [
        Line(A, None, -1, 20),
        Line(B, A, 2, 5),
        Line(C, A, 7, 9),
        Line(UUID(int=4), A, 6, 8),
    ]
    assert list(lanes(lines).values()) == [0, 1, 1, 2]


@given(trees(), st.data())
def test_two_ways_share_the_steps_that_both_have_from_the_start(lines, data):
    by_id = {line.id: line for line in lines}

    def way() -> list[Stretch]:
        line = data.draw(st.sampled_from(lines))
        return path(by_id, line.id, data.draw(st.integers(0, line.tip)))

    def steps(of: list[Stretch]) -> list[tuple[UUID, int]]:
        return [
            (part.branch, n) for part in of for n in range(part.first, part.last + 1)
        ]

    one, other = way(), way()
    common = shared(one, other)
    assert common == shared(other, one)
    assert steps(one)[:common] == steps(other)[:common]
    assert steps(one)[common : common + 1] != steps(other)[common : common + 1] or (
        common == len(steps(one)) == len(steps(other))
    )
    first = data.draw(st.integers(0, 30))
    last = data.draw(st.integers(first, 40))
    assert steps(cut(one, first, last)) == steps(one)[first : last + 1]
