"""The supervisor of `manage.py worker`: N worker processes under one parent.

A child that dies is replaced, and what it held is free at once: the parent alone
can know that it is dead, where everyone else has to wait for the lease. Children
die with the parent (Linux: PR_SET_PDEATHSIG), whatever kills it.
"""

from __future__ import annotations

import ctypes
import logging
import os
import random
import secrets
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import NoReturn

from django.db import Error as DatabaseError
from django.db import connections

from agents.models import Worker
from agents.pure.queues import QUEUE
from agents.runs import reaper, roster
from agents.runs.worker import Span, Work, attend

logger = logging.getLogger(__name__)

GRACE = 8.0  # seconds that a child gets to reach the end of its step; ./dev gives us 10
YOUNG = 2.0  # seconds; a child that dies sooner may do so again
PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds before a child that died young is replaced
AGAIN = 0.5  # seconds until leases that could not be ended are tried again
LAST = 1.0  # seconds that we try to end leases for before we leave
PR_SET_PDEATHSIG = 1  # prctl(2)

SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}


@dataclass(frozen=True)
class Child:
    name: str
    born: float  # time.monotonic()


class Pool:
    """Keeps `size` workers alive until it is told to stop. Linux and macOS."""

    def __init__(
        self,
        size: int,
        work: Work,
        *,
        on: str = QUEUE,
        span: Span | None = None,
        grace: float = GRACE,
        longest_pause: float = LONGEST_PAUSE,
    ) -> None:
        """`on`: the queue that they listen to. `grace`: seconds until a child that was
        told to stop is killed. `longest_pause`: until one that died young is replaced."""
        self.size = size
        self.work = work
        self.on = on
        self.span = span
        self.grace = grace
        self.longest_pause = longest_pause
        self.children: dict[int, Child] = {}
        self.due: list[float] = [0.0] * size  # when to start what is missing
        # Whose leases are to be ended: what each died of.
        self.dead: dict[str, str] = {}
        self.end_at: float | None = None  # when to try again
        self.died_young = 0
        self.stopping = False
        self.heard, self.bell = os.pipe()

    def run(self) -> None:
        """Blocks until SIGTERM or SIGINT, then until no child is left."""
        os.set_blocking(self.bell, False)
        signal.set_wakeup_fd(self.bell, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, self._on_signal)
        while not self.stopping:
            self._start_due()
            times = self.due if self.end_at is None else [*self.due, self.end_at]
            self._wait(min((at - time.monotonic() for at in times), default=60.0))
            self._bury()
        self._stop()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stopping |= number != signal.SIGCHLD

    def _wait(self, seconds: float) -> None:
        """Until a signal comes; one that came since the last wait counts."""
        if select.select([self.heard], [], [], max(0.0, seconds))[0]:
            os.read(self.heard, 4096)

    def _start_due(self) -> None:
        now = time.monotonic()
        later = [at for at in self.due if at > now]
        for _ in range(len(self.due) - len(later)):
            self._start()
        self.due = later

    def _start(self) -> None:
        name = f"{roster.host()}:{os.getpid()}:{secrets.token_hex(4)}"
        connections.close_all()  # a connection must not have two users
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        # A signal that the child gets before it is itself must not be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        pid = os.fork()
        if pid == 0:
            _be_child(
                name, parent, partial(attend, name, self.work, self.span, on=self.on)
            )
        self.children[pid] = Child(name, time.monotonic())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _bury(self, *, replace: bool = True) -> None:
        """Free what dead children held, and plan their successors."""
        for pid, child in list(self.children.items()):
            dead, status = os.waitpid(pid, os.WNOHANG)
            if not dead:
                continue
            del self.children[pid]
            self.dead[child.name] = _cause(status)
            self._end_leases()
            if not replace:
                continue
            if status == 0:  # it told the roster why
                self.due.append(time.monotonic())
                logger.info(
                    "a worker was recycled", extra={"ids": {"worker": child.name}}
                )
                continue
            young = time.monotonic() - child.born < YOUNG
            self.died_young = self.died_young + 1 if young else 0
            pause = PAUSE * 2 ** (self.died_young - 2) if self.died_young > 1 else 0.0
            pause = min(pause, self.longest_pause)
            self.due.append(time.monotonic() + pause)
            logger.warning(
                "a worker died (%s); the next starts in %.1f s",
                _cause(status),
                pause,
                extra={"ids": {"worker": child.name}},
            )
        if self.end_at is not None and self.end_at <= time.monotonic():
            self._end_leases()

    def _end_leases(self) -> None:
        """Of all who died, as far as that can be done now. The rest is tried again until
        it is done, or the leases have lapsed by themselves."""
        put_off: Exception | None = None
        for name, cause in list(self.dead.items()):
            try:
                reaper.end_leases(name)
                roster.end(name, Worker.Ending.LOST, cause=cause)
                del self.dead[name]
            except reaper.LeasesLeft as error:
                put_off = error
            except DatabaseError as error:
                put_off = error
                break  # PostgreSQL is away, for the others, too
        connections.close_all()
        if put_off is not None and self.end_at is None:
            logger.warning(
                "leases of the dead are tried again (%s)", type(put_off).__name__
            )
        self.end_at = None if put_off is None else time.monotonic() + AGAIN

    def _stop(self) -> None:
        for pid in self.children:
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + self.grace
        while self.children and time.monotonic() < deadline:
            self._wait(deadline - time.monotonic())
            self._bury(replace=False)
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        for pid, child in self.children.items():
            _, status = os.waitpid(pid, 0)
            self.dead[child.name] = _cause(status)
        latest = time.monotonic() + LAST
        self._end_leases()
        while self.dead and time.monotonic() < latest:
            time.sleep(AGAIN / 5)  # the database may be back; it tells nobody
            self._end_leases()
        if self.dead:
            logger.warning("leases of the dead are left to lapse")


def _be_child(name: str, parent: int, live: Callable[[], None]) -> NoReturn:
    """The rest of this process's life."""
    code = 1
    try:
        _die_with(parent)
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        random.seed()
        live()
        code = 0
    except BaseException:
        # The edge of a process: nothing of the parent's stack may go on in the child.
        logger.exception("a worker failed", extra={"ids": {"worker": name}})
    finally:
        logging.shutdown()
        os._exit(code)


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


def _cause(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit {os.waitstatus_to_exitcode(status)}"
