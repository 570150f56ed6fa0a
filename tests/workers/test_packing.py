"""Packing while everything else goes on, and while somebody kills it."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, connections, transaction

from checkpoints import gate
from checkpoints.access import SystemPrincipal
from checkpoints.keys import hierarchy
from checkpoints.log import hydrate
from checkpoints.log.append import commit, writer
from checkpoints.log.pack import pack_branch
from checkpoints.log.segments import Run, SegmentWriter
from checkpoints.models import Branch
from tests.checkpoints.packing import deltas, grow, message, segments
from tests.workers.conftest import PATIENCE, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

POINTS = ["before pack", "after segment", "after deltas", "after pack"]


@pytest.fixture
def said(alice):
    """What the messages of a branch say, after the first."""

    def said(branch: Branch) -> list[str]:
        pass_ = gate.admit(alice, purpose="test", threads=[branch.thread])
        messages = hydrate.state(pass_, branch)["messages"]
        return [message["content"] for message in messages[1:]]

    return said


def names(last: int) -> list[str]:
    return [f"step {number}" for number in range(1, last + 1)]


def test_a_worker_packs_what_fills(make_thread, workers, said):
    branch = make_thread()
    grow(branch, 130)
    workers.start()
    wait_until(lambda: segments(branch) == [(0, 63), (64, 127)])
    assert deltas(branch) == [128, 129, 130]
    assert said(branch) == names(130)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.unmeasured
def test_a_packer_that_is_killed_loses_nothing(
    make_thread, workers, said, history, tmp_path, point
):
    branch = make_thread()
    grow(branch, 130)
    before = history(branch).records
    workers.start(
        HOLDPOINT_FAILPOINTS=point, HOLDPOINT_FAILPOINTS_REACHED=str(tmp_path)
    )
    wait_until((tmp_path / point).exists)
    assert said(branch) == names(130)
    wait_until(lambda: len(segments(branch)) == 2)
    assert segments(branch) == [(0, 63), (64, 127)]
    assert deltas(branch) == [128, 129, 130]
    assert history(branch).records == before


def test_of_two_packers_each_segment_is_written_by_one(make_thread, said):
    branch = make_thread()
    grow(branch, 200)
    start = threading.Barrier(4, timeout=PATIENCE)
    written: list[int] = []

    def race() -> None:
        try:
            start.wait()
            written.append(pack_branch(branch.pk))
        finally:
            connections.close_all()

    racers = [threading.Thread(target=race) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    pack_branch(branch.pk)  # what each left to another that then was at the next one
    assert segments(branch) == [(0, 63), (64, 127), (128, 191)]
    assert len(written) == 4
    assert sum(written) <= 3
    assert said(branch) == names(200)


def test_holders_append_and_people_read_while_steps_are_packed(make_thread, said):
    """A reader sees each step once, whatever the packer is doing."""
    branch = make_thread()
    at = writer(branch)
    over = threading.Event()
    problems: list[Exception] = []

    def packing() -> None:
        try:
            while not over.is_set():
                pack_branch(branch.pk, force=True)
        except Exception as error:
            problems.append(error)
        finally:
            connections.close_all()

    packer = threading.Thread(target=packing)
    packer.start()
    try:
        for number in range(1, 161):
            at = commit(at, message(number))
            if number % 8 == 0:
                branch.refresh_from_db()
                assert said(branch) == names(number)
    finally:
        over.set()
        packer.join()
    assert problems == []
    assert len(segments(branch)) > 1
    pack_branch(branch.pk, force=True)
    assert said(branch) == names(160)


def test_a_commit_does_not_wait_for_a_packer(make_thread, said):
    """Not for one that stands still with all the locks that it ever holds."""
    branch = make_thread()
    grow(branch, 70)
    packed, go_on = threading.Event(), threading.Event()
    pass_ = gate.admit(
        SystemPrincipal("pack", branch.workspace_id),
        purpose="pack",
        threads=[branch.thread],
    )

    def stand_still() -> None:
        try:
            keys = hierarchy.thread_keys(branch.thread_id)
            with transaction.atomic():
                SegmentWriter(pass_, branch, keys.data).write(Run(0, 63))
                packed.set()
                go_on.wait(PATIENCE)
        finally:
            connections.close_all()

    packer = threading.Thread(target=stand_still)
    packer.start()
    try:
        assert packed.wait(PATIENCE)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '2s'")
            at = commit(writer(branch), message(71))
        commit(at, message(72))
        assert segments(branch) == []
        branch.refresh_from_db()
        assert said(branch) == names(72)
    finally:
        go_on.set()
        packer.join()
    assert segments(branch) == [(0, 63)]
    assert said(branch) == names(72)
