"""Packing: what was written reads the same, from fewer rows."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints import gate
from checkpoints.access import Reason
from checkpoints.errors import BrokenChain, Shredded, StepNotFound
from checkpoints.keys import hierarchy
from checkpoints.keys.rotation import rotate_thread_keys
from checkpoints.log import hydrate, pack
from checkpoints.log.pack import Backlog, due, pack_branch
from checkpoints.log.segments import MOST_TEXT
from checkpoints.log.threads import fork
from checkpoints.models import AuditEvent, Branch, Checkpoint, Segment
from checkpoints.pure import codec, ops
from checkpoints.pure.codec import State
from checkpoints.pure.ops import fold
from tests.checkpoints import strategies
from tests.checkpoints.packing import append, deltas, grow, segments, step_of
from tests.tampering import tamper

pytestmark = pytest.mark.django_db


@pytest.fixture
def opened(alice):
    """A pass of alice's to the branch's thread."""

    def opened(branch: Branch) -> gate.Pass:
        return gate.admit(alice, purpose="test", threads=[branch.thread])

    return opened


@pytest.fixture
def said(opened):
    """The messages of the branch at a step, through the hot path."""

    def said(branch: Branch, step: int | None = None) -> list[str]:
        state = hydrate.state(opened(branch), branch, step=step)
        return [message["content"] for message in state["messages"][1:]]

    return said


def names(first: int, last: int) -> list[str]:
    return [f"step {number}" for number in range(first, last + 1)]


def test_full_segments_are_packed_and_the_tail_is_left(make_thread, said):
    branch = make_thread()
    grow(branch, 140)
    assert due(10) == [branch.pk]
    assert pack_branch(branch.pk) == 2
    assert segments(branch) == [(0, 63), (64, 127)]
    assert deltas(branch) == list(range(128, 141))
    assert due(10) == []
    assert pack_branch(branch.pk) == 0
    for step in (0, 1, 63, 64, 100, 127, 128, 140):
        assert said(branch, step) == names(1, step)


def test_what_is_forced_ends_where_the_branch_does(make_thread, said):
    branch = make_thread()
    grow(branch, 70)
    assert pack_branch(branch.pk, force=True) == 2
    assert segments(branch) == [(0, 63), (64, 70)]
    assert deltas(branch) == []
    grow(branch, 60)
    assert pack_branch(branch.pk) == 1
    assert segments(branch) == [(0, 63), (64, 70), (71, 127)]
    assert said(branch) == names(1, 130)


def test_records_are_the_same_before_and_after(make_thread, history):
    branch = make_thread()
    grow(branch, 66)
    before = history(branch).records
    pack_branch(branch.pk)
    assert history(branch).records == before
    assert history(branch, to_step=20).records == before[:21]


def test_reading_is_one_statement(make_thread, opened, django_assert_num_queries):
    branch = make_thread()
    grow(branch, 70)
    pack_branch(branch.pk)
    pass_ = opened(branch)
    hydrate.state(pass_, branch)  # keys are cached from now on
    for ask in (
        hydrate.state,
        hydrate.read,
        hydrate.history,
        hydrate.history_states,
    ):
        with django_assert_num_queries(1):
            ask(pass_, branch)


def test_a_page_of_history(make_thread, opened):
    main = make_thread()
    grow(main, 100)
    side = fork(step_of(main, 80), name="side", by_id=None)
    grow(side, 30)
    pack_branch(main.pk)
    pass_ = opened(side)
    rows = hydrate.history(pass_, side)
    assert [row.step for row in rows] == list(range(110, 60, -1))
    assert {row.branch_id for row in rows[-20:]} == {main.pk}
    earlier = hydrate.history(pass_, side, before=10, limit=20)
    assert [row.step for row in earlier] == list(range(9, -1, -1))
    assert hydrate.history(pass_, side, before=0) == []


@pytest.mark.parametrize("before", [None, 200, 120, 90, 64, 30, 0])
def test_a_page_of_states(make_thread, opened, history, before):
    main = make_thread()
    grow(main, 100)
    side = fork(step_of(main, 80), name="side", by_id=None)
    grow(side, 60)
    pack_branch(main.pk)
    pack_branch(side.pk)
    pass_ = opened(side)
    if before == 200:
        with pytest.raises(StepNotFound):
            hydrate.history_states(pass_, side, before=before)
        return
    page = hydrate.history_states(pass_, side, before=before)
    rows = hydrate.history(pass_, side, before=before)
    assert [row for row, _ in page] == rows
    states = history(side)
    for row, state in page:
        assert codec.same(state, states.state_at(row.step))


def test_a_fork_in_the_middle_of_a_segment(make_thread, said, history):
    main = make_thread()
    grow(main, 130)
    pack_branch(main.pk)
    side = fork(step_of(main, 90), name="side", by_id=None)
    assert said(side) == names(1, 90)
    grow(side, 50)
    assert pack_branch(side.pk) == 1
    assert segments(side) == [(91, 127)]
    assert said(side) == names(1, 140)
    deep = fork(step_of(side, 100), name="deep", by_id=None)
    grow(deep, 3)
    assert said(deep) == names(1, 103)
    assert said(deep, 95) == names(1, 95)
    owners = [record.branch_id for record in history(deep).records]
    assert owners == [main.pk] * 91 + [side.pk] * 10 + [deep.pk] * 3


def test_which_checkpoints_led_here(make_thread, opened, history):
    main = make_thread()
    grow(main, 70)
    pack_branch(main.pk)
    side = fork(step_of(main, 40), name="side", by_id=None)
    grow(side, 2)
    found = hydrate.open_at(opened(side), side).checkpoints()
    records = history(side).records
    assert found == {
        main.pk: {record.id for record in records[:41]},
        side.pk: {record.id for record in records[41:]},
    }


def test_packing_is_recorded_before_anything_is_opened(make_thread):
    branch = make_thread()
    grow(branch, 70)
    pack_branch(branch.pk)
    [event] = AuditEvent.objects.unscoped(Reason.TEST).filter(purpose="pack")
    assert (event.action, event.object_id) == ("open", branch.thread_id)
    assert event.detail["steps"] == "0-63"
    pack_branch(branch.pk)  # nothing to do: nothing was opened
    assert AuditEvent.objects.unscoped(Reason.TEST).filter(purpose="pack").count() == 1


def test_very_long_steps_share_no_segment(make_thread, said):
    """Large values are blobs: only a step of very many values is as long as this."""
    branch = make_thread()
    texts = ["x" * 32_768] * (MOST_TEXT // 32_768 // 2 + 1)
    for _ in range(3):
        append(branch, [ops.append("/messages", {"content": text}) for text in texts])
    assert pack_branch(branch.pk, force=True) == 3
    assert segments(branch) == [(0, 1), (2, 2), (3, 3)]
    assert said(branch) == texts * 3


def keys_of(branch: Branch) -> list[UUID]:
    rows = Segment.objects.unscoped(Reason.TEST).filter(branch=branch)
    return list(rows.order_by("first_step").values_list("data_key", flat=True))


def test_what_lies_under_an_older_key_is_sealed_anew(make_thread, said, history):
    branch = make_thread()
    grow(branch, 130)
    pack_branch(branch.pk)
    before = history(branch).records
    newest = rotate_thread_keys(branch.thread_id)
    assert pack_branch(branch.pk) == 0
    assert pack_branch(branch.pk, rewrite=True) == 2
    assert segments(branch) == [(0, 63), (64, 127)]
    assert keys_of(branch) == [newest.pk] * 2
    assert history(branch).records == before
    assert pack_branch(branch.pk, rewrite=True) == 0
    assert pack_branch(branch.pk, rewrite=True, force=True) == 1
    assert said(branch) == names(1, 130)


def test_packing_takes_the_newest_key(make_thread, said):
    """Not the one that this process would still write with for a few seconds."""
    branch = make_thread()
    grow(branch, 70)
    newest = rotate_thread_keys(branch.thread_id)
    grow(branch, 60)
    pack_branch(branch.pk)
    assert keys_of(branch) == [newest.pk] * 2
    assert said(branch) == names(1, 130)


def test_a_segment_that_does_not_open_is_not_sealed_anew(make_thread):
    branch = make_thread()
    grow(branch, 130)
    pack_branch(branch.pk)
    before = keys_of(branch)
    tamper(
        "UPDATE checkpoints_segment SET last_step = 120"
        " WHERE branch_id = %s AND first_step = 64",
        [branch.pk],
    )
    newest = rotate_thread_keys(branch.thread_id)
    with pytest.raises(BrokenChain, match=r"Steps 64-120 .* not as they were written"):
        pack_branch(branch.pk, rewrite=True)
    assert keys_of(branch) == [newest.pk, before[1]]


def test_a_shredded_thread_is_not_due(make_thread):
    branch = make_thread()
    grow(branch, 64)
    hierarchy.destroy_thread_keys(branch.thread_id)
    assert due(10) == []
    with pytest.raises(Shredded):
        pack_branch(branch.pk)


def test_a_packed_thread_can_be_shredded(make_thread, opened):
    branch = make_thread()
    grow(branch, 64)
    pack_branch(branch.pk)
    pass_ = opened(branch)
    hierarchy.destroy_thread_keys(branch.thread_id)
    for ask in (hydrate.state, hydrate.read, hydrate.history_states):
        with pytest.raises(Shredded, match="was shredded on"):
            ask(pass_, branch)


def test_the_backlog_is_packed_and_what_fails_is_left_alone(make_thread, caplog):
    good, bad = make_thread(), make_thread()
    for branch in (good, bad):
        grow(branch, 64)
    spoil(bad, step=7)
    clock = Clock()
    backlog = Backlog(clock)
    assert backlog.turn() == 1
    assert segments(good) == [(0, 63)]
    assert "Step 7" in caplog.text
    assert due(10) == [bad.pk]
    caplog.clear()
    assert backlog.turn() == 0
    assert caplog.text == ""
    clock.now += pack.LEAVE
    assert backlog.turn() == 0
    assert "Step 7" in caplog.text
    assert deltas(bad) == list(range(65))


def test_steps_that_do_not_follow_are_not_packed(make_thread):
    branch = make_thread()
    grow(branch, 64)
    tamper(
        "UPDATE checkpoints_checkpoint SET seed = 8 WHERE branch_id = %s AND step = 9",
        [branch.pk],
    )
    with pytest.raises(BrokenChain, match=r"Step 9 .* not as it was written"):
        pack_branch(branch.pk)
    assert segments(branch) == []


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def spoil(branch: Branch, *, step: int) -> None:
    tamper(
        "UPDATE checkpoints_checkpointdelta SET record = %s"
        " WHERE branch_id = %s AND step = %s",
        [b"nothing", branch.pk, step],
    )


changes = st.lists(
    st.builds(ops.put, st.just("/vars"), strategies.keys, strategies.values)
    | st.builds(ops.append, st.just("/messages"), strategies.values)
    | st.builds(ops.reset, st.builds(dict, vars=st.just({}), messages=st.just([])))
    | st.builds(
        ops.put,
        st.just("/vars"),
        st.just("twin"),
        strategies.near_twins().flatmap(st.sampled_from),
    ),
    max_size=3,
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["append", "append", "fork", "pack", "rewrite"]),
            st.integers(0, 99),
            changes,
        ),
        max_size=14,
    )
)
def test_folding_gives_the_live_state_whatever_was_packed(
    make_thread, opened, history, plan
):
    """At every step of every branch, by the hot path and by the thorough one."""
    start: State = {"vars": {}, "messages": []}
    main = make_thread(state=start)
    live = {main.pk: [start]}  # the states of each branch, as a program would have them
    branches = [main]
    for act, number, made in plan:
        branch = branches[number % len(branches)]
        match act:
            case "append":
                append(branch, made)
                state = fold(live[branch.pk][-1], made)
                live[branch.pk] = [*live[branch.pk], state]
            case "fork":
                step = number % len(live[branch.pk])
                found: UUID = history(branch).record(step).id
                source = Checkpoint.objects.unscoped(Reason.TEST).get(pk=found)
                branch = fork(source, name="f", by_id=None)
                branches.append(branch)
                live[branch.pk] = live[source.branch_id][: step + 1]
            case "pack":
                pack_branch(branch.pk, force=True)
            case _:
                rotate_thread_keys(branch.thread_id)
                pack_branch(branch.pk, force=bool(number % 2), rewrite=True)
    for branch in branches:
        read_back = history(branch)
        page = hydrate.history_states(opened(branch), branch)
        assert len(read_back.records) == len(page) == len(live[branch.pk])
        for (row, shown), (step, state) in zip(
            reversed(page), enumerate(live[branch.pk]), strict=True
        ):
            assert row.step == step
            assert codec.same(shown, state)
            assert codec.same(read_back.state_at(step), state)
            assert codec.same(hydrate.state(opened(branch), branch, step=step), state)
