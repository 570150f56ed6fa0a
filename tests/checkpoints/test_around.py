"""Some rows of a branch, read around a step: as when all are read, or nothing."""

from __future__ import annotations

from functools import partial

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints import gate
from checkpoints.access import Reason
from checkpoints.errors import BrokenChain, StepNotFound
from checkpoints.log import hydrate
from checkpoints.log.history import KEPT
from checkpoints.log.pack import pack_branch
from checkpoints.log.threads import fork
from checkpoints.models import Branch
from checkpoints.pure.codec import canonical
from tests.checkpoints.packing import grow, step_of
from tests.tampering import tamper

pytestmark = pytest.mark.django_db

HEAD = 199
WINDOWS = [(0, 9), (-1, 20), (60, 67), (63, 63), (64, 70), (100, 250), (190, None)]


@pytest.fixture
def lines(make_thread, alice) -> tuple[Branch, Branch]:
    """Three segments and a tail; and a fork in the middle of the second, with its own."""
    main = make_thread(owner=alice)
    grow(main, HEAD)
    pack_branch(main.pk)
    other = fork(step_of(main, 99), name="what-if", by_id=alice.user_id)
    grow(other, 100)
    pack_branch(other.pk)
    return main, Branch.objects.unscoped(Reason.TEST).select_related("thread").get(
        pk=other.pk
    )


@pytest.fixture
def opened(alice):
    return lambda branch: gate.admit(alice, purpose="test", threads=[branch.thread])


@pytest.mark.parametrize(("first", "last"), WINDOWS)
@pytest.mark.parametrize("which", [0, 1])
def test_it_says_what_the_whole_says(lines, opened, which, first, last):
    branch = lines[which]
    whole = hydrate.read(opened(branch), branch)
    some = hydrate.around(opened(branch), branch, first=first, last=last)
    near = some.near
    assert (near.start, near.stop) == (
        max(0, first),
        min(HEAD, HEAD if last is None else last) + 1,
    )
    with CaptureQueriesContext(connection) as asked:
        assert [some.record(n) for n in near] == whole.records[near.start : near.stop]
        assert list(some.records[near.start : near.stop]) == [
            some.record(n) for n in near
        ]
        assert len(some.records) == len(whole.records) == HEAD + 1
        for step in range(HEAD + 1):
            assert some.place(step) == whole.place(step)
            assert some.label(step) == whole.label(step)
        assert list(some.operations()) == list(whole.operations())
        assert list(some.operations(70)) == list(whole.operations(70))
        assert some.states(0, 130, HEAD) == whole.states(0, 130, HEAD)
    assert not asked.captured_queries
    far = 0 if near.start else HEAD
    assert some.record(far) == whole.record(far)
    assert list(some.records) == whole.records
    assert some.records[-1] == whole.records[-1]


def test_a_state_is_the_same_whatever_was_asked_for_before(lines, opened):
    branch = lines[1]
    steps = [70, 3, HEAD, 69, 71, 0, 130, 70, 129, HEAD, 4, 5, 6, 3, 131, 2, 70]
    assert len(set(steps)) > KEPT
    for open_ in (hydrate.read, partial(hydrate.around, first=60, last=75)):
        asked = open_(opened(branch), branch)
        for step in steps:
            alone = open_(opened(branch), branch).state_at(step)
            assert canonical(asked.state_at(step)) == canonical(alone)
            assert list(alone) == list(asked.state_at(step))
        assert asked.states(*steps) == [asked.state_at(step) for step in steps]


def test_there_is_no_step_beyond_the_head(lines, opened):
    some = hydrate.around(opened(lines[0]), lines[0], first=50, last=60)
    for way in (some.record, some.place, some.label, some.state_at):
        for step in (-1, HEAD + 1):
            with pytest.raises(StepNotFound):
                way(step)
    with pytest.raises(IndexError):
        some.records[HEAD + 1]


@pytest.mark.parametrize("step", [64, 65, 66, 70])
def test_a_row_that_was_altered_is_refused_where_it_is_read(lines, opened, step):
    main, _ = lines
    pass_ = opened(main)
    assert tamper(
        "UPDATE checkpoints_checkpoint SET kind = 'tool' WHERE id = %s",
        [step_of(main, step).pk],
    )
    hydrate.around(pass_, main, first=10, last=20)
    with pytest.raises(BrokenChain, match=rf"[Ss]tep {step}\b"):
        hydrate.around(pass_, main, first=65, last=71).record(65)
    far = hydrate.around(pass_, main, first=10, last=20)
    with pytest.raises(BrokenChain, match=rf"[Ss]tep {step}\b"):
        far.record(step)
