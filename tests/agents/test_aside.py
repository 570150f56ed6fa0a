from __future__ import annotations

import os
import sys
import threading
import time
from contextvars import ContextVar

import pytest

from agents.runs.aside import GivenUp, TookTooLong, aside, left_behind

PATIENCE = 20.0  # seconds
where = ContextVar("where", default="")


@pytest.fixture(autouse=True)
def _nothing_is_left_of_other_tests():
    until_nothing_is_left()


def until_nothing_is_left() -> None:
    assert not left_behind(patience=PATIENCE)


def test_what_the_act_gives_or_raises_is_the_callers():
    assert aside(lambda: 6 * 7) == 42
    with pytest.raises(TimeoutError, match="the act's own"):
        aside(lambda: (_ for _ in ()).throw(TimeoutError("the act's own")).send(None))


def test_the_act_runs_beside_its_caller_and_sees_its_context():
    token = where.set("here")
    seen = aside(lambda: (where.get(), threading.get_ident()))
    where.reset(token)
    assert seen[0] == "here"
    assert seen[1] != threading.get_ident()


def test_one_thread_serves_one_act_after_the_other():
    assert len({aside(threading.get_ident) for _ in range(20)}) == 1


@pytest.mark.parametrize(
    ("limits", "raised"),
    [({"seconds": 0.05}, TookTooLong), ({"enough": lambda: True}, GivenUp)],
)
def test_an_act_that_is_given_up_holds_up_nobody_and_is_counted(limits, raised):
    go_on = threading.Event()
    began = time.monotonic()
    with pytest.raises(raised):
        aside(lambda: go_on.wait(PATIENCE), **limits)
    assert time.monotonic() - began < 1
    assert left_behind() == 1
    assert aside(lambda: "another") == "another"
    go_on.set()
    until_nothing_is_left()


def test_an_act_that_is_over_in_time_is_not_given_up():
    late = threading.Timer(0.05, (event := threading.Event()).set)
    late.start()
    assert aside(lambda: event.wait(PATIENCE), seconds=PATIENCE) is True


def test_a_child_process_has_a_thread_of_its_own():
    aside(lambda: None)
    pid = os.fork()
    if pid == 0:
        os._exit(aside(lambda: 7, seconds=PATIENCE))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_an_act_that_was_given_up_and_ends_at_once_is_not_left_behind():
    go_on = threading.Event()
    with pytest.raises(GivenUp):
        aside(lambda: go_on.wait(PATIENCE), enough=lambda: True)
    assert left_behind(patience=0.05) == 1
    threading.Timer(0.1, go_on.set).start()
    assert left_behind(patience=PATIENCE) == 0


needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's scheduler")


@needs_linux
def test_a_short_act_stays_on_the_processor_of_who_waits_for_it():
    every = os.sched_getaffinity(0)
    assert {
        frozenset(aside(lambda: os.sched_getaffinity(threading.get_native_id())))
        for _ in range(20)
    } <= {frozenset({cpu}) for cpu in every}
    assert os.sched_getaffinity(0) == every  # who waits is left alone


@needs_linux
def test_a_long_act_goes_wherever_its_caller_may():
    every = os.sched_getaffinity(0)
    go_on = threading.Event()

    def act() -> set[int]:
        go_on.wait(PATIENCE)
        return os.sched_getaffinity(threading.get_native_id())

    def enough() -> bool:
        go_on.set()
        return False

    assert aside(act, enough=enough) == every


@needs_linux
def test_where_threads_cannot_be_moved_acts_go_on(monkeypatch):
    def refuse(thread: int, where: set[int]) -> None:
        raise PermissionError

    aside(lambda: None)
    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    assert aside(lambda: 6 * 7) == 42
    with pytest.raises(TookTooLong):
        aside(lambda: time.sleep(0.3), seconds=0.15)
