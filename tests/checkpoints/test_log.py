"""Appending to a branch, forking it, and reading it back."""

from __future__ import annotations

import dataclasses
import threading
from datetime import timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, connection, connections, transaction
from django.db.utils import DatabaseError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints import gate
from checkpoints.access import Reason
from checkpoints.errors import Fenced, NotPermitted, NotStorable, StepNotFound
from checkpoints.log.append import NewStep, StepMeta, commit, committed, writer
from checkpoints.log.hydrate import read
from checkpoints.log.step import delta_context
from checkpoints.log.threads import fork
from checkpoints.models import Branch, Checkpoint, CheckpointDelta, Thread
from checkpoints.pure import codec, ops
from checkpoints.pure.codec import State
from checkpoints.pure.ops import fold
from tests.checkpoints import strategies
from tests.checkpoints.holding import take
from tests.elsewhere import Elsewhere

pytestmark = pytest.mark.django_db

LEASE = timedelta(seconds=15)
BRANCHES = Branch.objects.unscoped(Reason.TEST)


def message(text: str, kind: str = "model") -> NewStep:
    return NewStep(
        kind=kind,
        ops=[ops.append("/messages", {"id": text, "role": "user", "content": text})],
        label=text,
    )


def append(branch: Branch, *steps: NewStep) -> None:
    """Commit these steps and bring the row up to date."""
    at = writer(branch)
    for step in steps:
        at = commit(at, step)
    branch.refresh_from_db()


def said(history, branch: Branch) -> list[str]:
    """What the messages at the head say, after the first one."""
    records = history(branch).records
    messages = history(branch).state_at(len(records) - 1)["messages"]
    return [message["content"] for message in messages[1:]]


def test_a_thread_begins_with_step_0(make_thread, alice, history):
    branch = make_thread(owner=alice, state={"a": 1}, label="hello")
    assert branch.head_step == 0
    [record] = history(branch).records
    assert (record.step, record.kind, record.label) == (0, "input", "hello")
    assert record.parent_id is None
    assert history(branch).state_at(0) == {"a": 1}


def test_a_step_comes_back_as_it_was_written(make_thread, alice, history):
    branch = make_thread()
    meta = StepMeta(
        status="failed",
        name="search_flights",
        run=uuid4(),
        actor_id=alice.user_id,
        agent_version=uuid4(),
        model_requested="gpt",
        model_returned="gpt-2026",
        temperature=0,
        top_p=0.1,
        seed=7,
        fingerprint="fp",
        tokens_in=10,
        tokens_out=20,
        tokens_cached=5,
        cost=Decimal("0.0012345"),
        latency_ms=77,
        error_class="tool_stopped",
    )
    step = dataclasses.replace(message("hi"), meta=meta, context={"messages": ["m1"]})
    append(branch, step)
    record = history(branch).record(1)
    assert record.id == step.id == branch.head_id
    assert record.label == "hi"
    assert record.ops == step.ops
    assert record.context == {"messages": ["m1"]}
    assert record.cost == Decimal("0.001234")
    assert all(
        getattr(record, name) == value
        for name, value in dataclasses.asdict(meta).items()
    )


def test_what_a_provider_says_about_itself_is_cut_to_fit(make_thread, history):
    branch = make_thread()
    meta = StepMeta(model_returned="x" * 500, fingerprint="\x00fp\ud800")
    append(branch, dataclasses.replace(message("hi"), meta=meta))
    record = history(branch).record(1)
    assert record.model_returned == "x" * 100
    assert record.fingerprint == "fp\ufffd"


def test_what_is_not_json_is_refused_and_nothing_is_stored(make_thread, history):
    branch = make_thread()
    with pytest.raises(NotStorable, match="is nan"):
        commit(writer(branch), NewStep("tool", [["put", "", "a", float("nan")]], "a"))
    branch.refresh_from_db()
    assert branch.head_step == 0


def test_a_step_is_one_statement_and_so_is_reading(
    make_thread, alice, history, django_assert_num_queries
):
    branch = make_thread()
    step, at = message("one"), writer(branch)
    with django_assert_num_queries(1):
        commit(at, step)
    branch.refresh_from_db()
    pass_ = gate.admit(alice, purpose="test", threads=[branch.thread])
    read(pass_, branch)  # keys are cached from now on
    with django_assert_num_queries(1):
        read(pass_, branch)


def test_the_state_at_any_step_is_the_one_that_was_live(make_thread, history):
    branch = make_thread(state={"messages": []})
    append(branch, *(message(text) for text in "abc"))
    states = history(branch).states(3, 0, 2)
    assert [len(state["messages"]) for state in states] == [3, 0, 2]
    assert history(branch, to_step=1).state_at(1) == history(branch).state_at(1)


def test_a_step_that_is_not_there(make_thread, history):
    branch = make_thread()
    with pytest.raises(StepNotFound, match="step 1"):
        history(branch, to_step=1)
    with pytest.raises(StepNotFound):
        history(branch, to_step=-1)
    with pytest.raises(StepNotFound):
        history(branch).state_at(1)


def test_a_fork_leaves_its_source_as_it_is(make_thread, history, alice):
    main = make_thread()
    append(main, message("a"), message("b"))
    before = rows_of(main)
    side = fork(
        main_step(main, 1),
        name="what if",
        by_id=alice.user_id,
        ops=[ops.set_("/params/seed", 8)],
        label="seed 8",
    )
    append(side, message("c"))
    assert rows_of(main) == before
    assert said(history, main) == ["a", "b"]
    assert said(history, side) == ["a", "c"]
    kinds = [(r.step, r.kind, r.branch_id) for r in history(side).records]
    assert kinds == [
        (0, "input", main.pk),
        (1, "model", main.pk),
        (2, "edit", side.pk),
        (3, "model", side.pk),
    ]
    assert history(side).record(2).actor_id == alice.user_id


def test_a_fork_without_edits_is_one_row(make_thread, history, alice):
    main = make_thread()
    append(main, message("a"))
    count = Checkpoint.objects.unscoped(Reason.TEST).count()
    side = fork(main_step(main, 1), name="again", by_id=alice.user_id)
    assert Checkpoint.objects.unscoped(Reason.TEST).count() == count
    assert said(history, side) == ["a"]
    assert history(side, to_step=0).records == history(main, to_step=0).records


def test_a_fork_of_a_fork_from_before_the_first_fork(make_thread, history):
    main = make_thread()
    append(main, message("a"), message("b"))
    side = fork(main_step(main, 2), name="side", by_id=None)
    append(side, message("c"))
    # A step that the side branch has from the main one.
    deep = fork(main_step(main, 0), name="deep", by_id=None)
    append(deep, message("d"))
    below = fork(head(side), name="below", by_id=None)
    append(below, message("e"))
    assert said(history, deep) == ["d"]
    assert said(history, below) == ["a", "b", "c", "e"]
    assert said(history, side) == ["a", "b", "c"]


def test_a_repeated_request_makes_one_thread_and_one_fork(make_thread, alice, bob):
    key = uuid4()
    first = make_thread(owner=alice, request_key=key)
    assert make_thread(owner=alice, request_key=key) == first
    with pytest.raises(NotPermitted):
        make_thread(owner=bob, request_key=key)
    assert Thread.objects.unscoped(Reason.TEST).count() == 1
    sides = [
        fork(head(first), name="x", by_id=alice.user_id, request_key=key)
        for _ in range(2)
    ]
    assert sides[0] == sides[1]
    with pytest.raises(NotPermitted):
        fork(head(first), name="x", by_id=bob.user_id, request_key=key)
    with pytest.raises(NotPermitted):
        fork(head(make_thread()), name="x", by_id=alice.user_id, request_key=key)


@pytest.mark.django_db(transaction=True)
def test_a_request_sent_twice_at_once_makes_one_thread(make_thread, alice):
    key = uuid4()
    start = threading.Barrier(4, timeout=30)
    made: list[Branch] = []

    def send() -> None:
        try:
            start.wait()
            made.append(make_thread(owner=alice, request_key=key))
        finally:
            connections.close_all()

    senders = [threading.Thread(target=send) for _ in range(4)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert len(made) == 4
    assert len({branch.pk for branch in made}) == 1


def test_what_is_not_a_repeat_is_a_mistake(make_thread):
    make_thread(external_id="theirs-1")
    with pytest.raises(IntegrityError):
        make_thread(external_id="theirs-1", request_key=uuid4())


def test_a_holder_that_was_replaced_cannot_append(make_thread, history):
    branch = make_thread()
    stale = writer(branch)
    take(branch)
    with pytest.raises(Fenced, match="step 1 was not stored"):
        commit(stale, message("late"))
    branch.refresh_from_db()
    append(branch, message("mine"))
    assert said(history, branch) == ["mine"]


def test_a_head_that_moved_cannot_be_appended_to(make_thread, history):
    branch = make_thread()
    stale = writer(branch)
    append(branch, message("first"))
    with pytest.raises(Fenced):
        commit(stale, message("second"))
    assert said(history, branch) == ["first"]


def test_only_its_last_holder_renews_and_releases_a_branch(make_thread):
    branch = make_thread()
    take(branch)
    assert BRANCHES.renew(branch.pk, fence=1, lease=LEASE)
    take(branch)
    assert not BRANCHES.renew(branch.pk, fence=1, lease=LEASE)
    assert not BRANCHES.release(branch.pk, fence=1)
    assert BRANCHES.release(branch.pk, fence=2)
    assert not BRANCHES.renew(branch.pk, fence=2, lease=LEASE)  # nobody holds it


def test_each_step_renews_the_lease(make_thread):
    branch = make_thread()
    take(branch, timedelta(seconds=1))
    branch.refresh_from_db()
    before = branch.lease_until
    commit(writer(branch, lease=LEASE), message("a"))
    branch.refresh_from_db()
    assert branch.lease_until - before > timedelta(seconds=10)
    commit(writer(branch), message("b"))
    kept = branch.lease_until
    branch.refresh_from_db()
    assert branch.lease_until == kept


def test_whether_a_commit_in_doubt_got_through(make_thread):
    branch = make_thread()
    step, never = message("sent"), message("lost")
    at = writer(branch)
    assert not committed(at, step.id)
    commit(at, step)
    assert committed(at, step.id)
    after = commit(writer(reread(branch)), message("next"))
    assert committed(at, step.id)
    assert not committed(after, never.id)
    take(branch)
    assert committed(at, step.id)
    with pytest.raises(Fenced):
        committed(after, never.id)


@pytest.mark.django_db(transaction=True)
def test_of_many_writers_at_once_one_wins_each_step(make_thread, history):
    branch = make_thread()
    won: list[int] = []
    start = threading.Barrier(6, timeout=30)

    def race(number: int) -> None:
        start.wait()
        try:
            for _ in range(5):
                try:
                    commit(writer(reread(branch)), message(f"{number}"))
                    won.append(number)
                except Fenced:
                    pass
        finally:
            connections.close_all()

    threads = [threading.Thread(target=race, args=[n]) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    branch.refresh_from_db()
    assert branch.head_step == len(won) > 0
    assert sorted(said(history, branch)) == sorted(map(str, won))


@pytest.mark.django_db(transaction=True)
def test_a_commit_on_its_way_is_waited_for(make_thread):
    """The lock on the branch, without which an own commit would look absent."""
    branch = make_thread()
    at, step = writer(branch), message("slow")
    with transaction.atomic():
        commit(at, step)
        asks = Elsewhere(lambda: committed(at, step.id))
        asks.wait_until_it_waits()
    assert asks.result() is True


def test_what_goes_with_a_step_is_undone_with_it(make_thread, history):
    branch = make_thread()
    with transaction.atomic():
        commit(writer(branch), message("a"))
        transaction.set_rollback(True)
    assert said(history, reread(branch)) == []
    with transaction.atomic():
        commit(writer(branch), message("b"))
    assert said(history, reread(branch)) == ["b"]


def test_operations_are_bound_to_their_row(make_thread):
    branch = make_thread()
    delta = CheckpointDelta.objects.unscoped(Reason.TEST).get(branch=branch)
    assert gate.context(delta, "record") == delta_context(
        branch.workspace_id, branch.thread_id, delta.pk, 0
    )


@pytest.mark.owner  # the trigger refuses even who owns the table
@pytest.mark.parametrize(
    ("model", "verb"),
    [(Checkpoint, "update"), (Checkpoint, "delete"), (CheckpointDelta, "update")],
)
def test_the_database_refuses_to_change_the_log(make_thread, model, verb):
    make_thread()
    table = model._meta.db_table
    statement = {
        "update": f"UPDATE {table} SET step = step + 1",  # noqa: S608
        "delete": f"DELETE FROM {table}",  # noqa: S608
    }[verb]
    with (
        pytest.raises(DatabaseError, match="written once"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)


operations = st.lists(
    st.builds(ops.put, st.just("/vars"), strategies.keys, strategies.values)
    | st.builds(ops.append, st.just("/messages"), strategies.values)
    | st.builds(ops.reset, st.builds(dict, vars=st.just({}), messages=st.just([]))),
    max_size=3,
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(st.integers(0, 99), operations), max_size=12))
def test_folding_gives_the_live_state_at_every_step_of_every_branch(
    make_thread, history, plan
):
    """Each entry appends to some branch or, where the number says so, forks one first."""
    start: State = {"vars": {}, "messages": []}
    main = make_thread(state=start)
    live = {main.pk: [start]}  # the states of each branch, as a program would have them
    branches = [main]
    for number, changes in plan:
        branch = branches[number % len(branches)]
        if number % 3 == 0:
            step = number % len(live[branch.pk])
            states = live[branch.pk][: step + 1]
            branch = fork(step_of(history, branch, step), name="f", by_id=None)
            branches.append(branch)
            live[branch.pk] = states
        append(branch, NewStep("tool", changes, ""))
        live[branch.pk] = [*live[branch.pk], fold(live[branch.pk][-1], changes)]
    for branch in branches:
        read_back = history(branch)
        assert len(read_back.records) == len(live[branch.pk])
        for step, state in enumerate(live[branch.pk]):
            assert codec.same(read_back.state_at(step), state)


def main_step(branch: Branch, step: int) -> Checkpoint:
    return Checkpoint.objects.unscoped(Reason.TEST).get(branch=branch, step=step)


def step_of(history, branch: Branch, step: int) -> Checkpoint:
    """A step that the branch may have from the one it was forked from."""
    found: UUID = history(branch).record(step).id
    return Checkpoint.objects.unscoped(Reason.TEST).get(pk=found)


def head(branch: Branch) -> Checkpoint:
    return Checkpoint.objects.unscoped(Reason.TEST).get(
        branch=branch, step=branch.head_step
    )


def reread(branch: Branch) -> Branch:
    return BRANCHES.get(pk=branch.pk)


def rows_of(branch: Branch) -> list[object]:
    checkpoints = Checkpoint.objects.unscoped(Reason.TEST).filter(branch=branch)
    deltas = CheckpointDelta.objects.unscoped(Reason.TEST).filter(branch=branch)
    return [
        list(BRANCHES.filter(pk=branch.pk).values()),
        list(checkpoints.order_by("step").values()),
        list(deltas.order_by("step").values()),
    ]
