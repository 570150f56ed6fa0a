"""The branch map: whatever the tree, it is drawn without overlap and within its frame."""

from __future__ import annotations

from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from agents.pages.thread.map import LANE_HEIGHT, LANES, TOP, Line, Mark, branch_map


@st.composite
def trees(draw, most=40):
    """Branches in order of creation, each forked from a step of an earlier one."""
    lines = [Line(uuid4(), None, -1, draw(st.integers(0, 30)))]
    for _ in range(draw(st.integers(0, most))):
        parent = draw(st.sampled_from(lines))
        fork = draw(st.integers(max(parent.fork_step, 0), max(parent.head_step, 0)))
        tip = fork + draw(st.integers(0, 20))
        status = draw(st.sampled_from(["", "running", "waiting", "failed"]))
        lines.append(Line(uuid4(), parent.id, fork, tip, status))
    return lines


def drawn(lines, shown, marks=(), starred=frozenset()):
    return branch_map(
        lines,
        marks,
        shown=shown.id,
        at=(shown.id, max(shown.head_step, 0)),
        address=lambda branch, step: (f"/{branch}/{step}", f"/f/{branch}/{step}"),
        names=lambda branches: [str(branch) for branch in branches],
        starred=starred,
    )


@given(trees(), st.data())
def test_lanes_do_not_overlap_and_stay_few(lines, data):
    shown = data.draw(st.sampled_from(lines))
    tree = drawn(lines, shown)
    assert len({lane.y for lane in tree.lanes}) <= LANES or shown.parent is not None
    for n, lane in enumerate(tree.lanes):
        for other in tree.lanes[:n]:
            if lane.y == other.y:
                assert (
                    lane.line.tip < other.line.start - 1
                    or other.line.tip < lane.line.start - 1
                )


@given(trees(), st.data())
def test_the_branch_that_is_shown_is_there_with_all_that_it_came_from(lines, data):
    shown = data.draw(st.sampled_from(lines))
    tree = drawn(lines, shown)
    there = {lane.line.id for lane in tree.lanes}
    by_id = {line.id: line for line in lines}
    line = shown
    while line.parent:
        assert line.id in there
        line = by_id[line.parent]
    assert line.id in there
    assert tree.cursor is not None
    assert tree.hidden == len(lines) - len(there)


@given(trees(), st.data())
def test_each_lane_has_its_own_branch_s_name_and_no_other_name_is_asked_for(
    lines, data
):
    shown = data.draw(st.sampled_from(lines))
    asked = []

    def names(branches):
        asked.extend(branches)
        return map(str, branches)

    tree = branch_map(
        lines,
        [],
        shown=shown.id,
        at=(shown.id, 0),
        address=lambda branch, step: ("", ""),
        names=names,
    )
    assert asked == [lane.line.id for lane in tree.lanes]
    assert all(lane.name == str(lane.line.id) for lane in tree.lanes)


@given(trees(), st.data())
def test_everything_lies_within_the_frame(lines, data):
    shown = data.draw(st.sampled_from(lines))
    marks = [Mark(line.id, line.head_step, "red", "!", "failed") for line in lines[1:]]
    tree = drawn(lines, shown, marks)
    for dot in (*tree.dots, *tree.marks):
        assert 0 <= float(dot.x.rstrip("%")) <= 100
        assert TOP <= dot.y < tree.height
    assert all(0 <= step <= tree.last_step for _, step in tree.ticks)
    assert len(tree.ticks) <= 12
    assert not {(d.branch, d.step) for d in tree.dots} & {
        (m.branch, m.step) for m in tree.marks
    }


def test_a_branch_without_a_step_of_its_own_is_drawn_where_it_will_go_on():
    main = Line(uuid4(), None, -1, 4)
    empty = Line(uuid4(), main.id, 2, 2)
    tree = drawn([main, empty], empty)
    assert tree.lanes[1].y == TOP + LANE_HEIGHT
    assert tree.lanes[1].path.endswith("H3")
    assert not [dot for dot in tree.dots if dot.branch == empty.id]


def test_a_long_thread_has_lines_and_no_dots():
    main = Line(uuid4(), None, -1, 5000)
    tree = drawn([main], main)
    assert tree.dots == []
    assert tree.ticks[-1][1] >= 4000


def crowd(count=60):
    """A main branch, and more forks of its first steps than the map draws; all at work."""
    main = Line(uuid4(), None, -1, 4)
    forks = [Line(uuid4(), main.id, 1, 3, "running") for _ in range(count)]
    return [main, *forks]


def test_starred_branches_are_drawn_before_newer_ones_and_those_at_work():
    lines = crowd()
    old = lines[1:4]
    without = {lane.line.id for lane in drawn(lines, lines[0]).lanes}
    assert not without & {line.id for line in old}
    tree = drawn(lines, lines[0], starred={line.id for line in old})
    there = {lane.line.id for lane in tree.lanes}
    assert {line.id for line in old} <= there
    assert lines[-1].id in there  # then the others, where there is room
    assert len(there) + tree.hidden == len(lines)


def test_a_star_takes_no_room_from_the_branch_that_is_shown():
    lines = crowd()
    starred = {line.id for line in lines[10:40]}
    there = {lane.line.id for lane in drawn(lines, lines[5], starred=starred).lanes}
    assert lines[5].id in there
    assert there - {lines[0].id, lines[5].id} <= starred


@given(trees(most=12), st.data())
def test_where_all_are_drawn_stars_change_nothing(lines, data):
    shown = data.draw(st.sampled_from(lines))
    starred = frozenset(data.draw(st.sets(st.sampled_from([x.id for x in lines]))))
    plain = drawn(lines, shown)
    if not plain.hidden:
        assert drawn(lines, shown, starred=starred) == plain
