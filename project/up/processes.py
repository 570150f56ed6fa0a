"""Child processes that do not outlive us, and the supervisor that keeps them running."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from project.up.paths import LOGS, ROOT, Problem, make_folder

PR_SET_PDEATHSIG = 1
STEADY = (
    30.0  # seconds after which a start counts as a success, and backoff begins anew
)
LONGEST_PAUSE = 30.0  # seconds between two starts
LOG_LIMIT = 5_000_000  # bytes; a log larger than this is set aside at the next start
EARLY_DEATHS = 3  # of one child, before the whole has been ready once: we give up

Arguments = Sequence[str | Path]


def dies_with_us(death: signal.Signals) -> Callable[[], None] | None:
    """For `preexec_fn`: the kernel sends `death` when this process ends, however it ends.

    Strictly when the *thread* that spawned the child ends, so spawn from the main one.
    Linux only; elsewhere None, and our kill -9 leaves the children behind.
    """
    if not sys.platform.startswith("linux"):
        return None
    assert threading.current_thread() is threading.main_thread()
    prctl, parent = ctypes.CDLL(None, use_errno=True).prctl, os.getpid()

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, int(death), 0, 0, 0)
        if os.getppid() != parent:  # it ended before we could ask
            os._exit(1)

    return ask


@dataclass
class Child:
    """How to start one process, how to stop it, and how it has been doing."""

    name: str
    command: Arguments
    env: Mapping[str, str] = field(default_factory=dict)
    stop_with: signal.Signals = signal.SIGTERM
    death: signal.Signals = signal.SIGKILL  # sent by the kernel when we die
    patience: float = 10.0  # seconds to stop in, before it is killed
    user: int | None = None
    before: Callable[[], None] = lambda: None  # clears what a killed one left behind
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0
    next_start: float = 0.0

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    def start(self) -> None:
        self.before()
        make_folder(self.log.parent)
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT:
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env=dict(self.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C at the terminal reaches us alone; we stop them in order.
                start_new_session=True,
                preexec_fn=dies_with_us(self.death),
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
            )
        self.started = time.monotonic()

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def ask_to_stop(self) -> None:
        if self.is_running():
            assert self.process is not None  # is_running()
            self.process.send_signal(self.stop_with)

    def wait(self) -> None:
        """Until it has stopped; it is killed when its patience is over."""
        if self.process is None:
            return
        try:
            self.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.sweep()

    def sweep(self) -> None:
        """End what it left behind in its session."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def last_words(self, lines: int = 15) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(f"  {line}" for line in text.splitlines()[-lines:])


class Supervisor:
    """Keeps children running: restarts what dies, later each time; stops them in order.

    Children start in the order they were added and stop in the reverse order, those
    of one stage together.
    """

    def __init__(self) -> None:
        self.stages: list[list[Child]] = []
        self.is_ready = False
        self.stopping = False
        self._heard, self._bell = os.pipe()

    def __enter__(self) -> Supervisor:
        # A lock would not do: a handler runs in the thread that waits, and may hold it.
        os.set_blocking(self._bell, False)
        signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGCHLD, self._on_child)
        return self

    def __exit__(self, *reason: object) -> None:
        self.stop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.close(self._bell)
        os.close(self._heard)

    def start(self, *children: Child) -> None:
        """Start a stage: it stops before the stages that were started earlier."""
        self.stages.append(list(children))
        for child in children:
            child.start()

    def stop(self) -> None:
        """End all children, the youngest stage first. Twice is harmless."""
        self.stopping = True
        while self.stages:
            stage = self.stages.pop()
            for child in stage:
                child.ask_to_stop()
            for child in stage:
                child.wait()

    def wait_until(self, ready: Callable[[], bool], what: str, seconds: float) -> None:
        """Tend the children until `ready`. Raises Problem after `seconds`, Interrupted
        when we are told to stop."""
        deadline = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > deadline:
                raise Problem(f"{what} did not answer within {seconds:.0f} s.")
            self._wait(0.05)
            self.tend()
            if self.stopping:
                raise Interrupted

    def run(self) -> None:
        """Tend the children until we are told to stop."""
        self.is_ready = True
        while not self.stopping:
            self._wait(self._until_next_start())
            self.tend()

    def tend(self) -> None:
        """Restart what has died and whose pause is over."""
        now = time.monotonic()
        for child in [child for stage in self.stages for child in stage]:
            if self.stopping or child.is_running():
                continue
            if not child.next_start:
                self._note_death(child, now)
            if now >= child.next_start:
                child.next_start = 0.0
                child.start()

    def _note_death(self, child: Child, now: float) -> None:
        assert child.process is not None  # start() came before tend()
        child.sweep()
        child.deaths = 1 if now - child.started > STEADY else child.deaths + 1
        if not self.is_ready and child.deaths >= EARLY_DEATHS:
            raise Problem(
                f"{child.name} does not start. The end of {child.log}:\n{child.last_words()}"
            )
        pause = min(0.25 * 2 ** (child.deaths - 1), LONGEST_PAUSE)
        child.next_start = now + pause
        code = child.process.returncode
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        print(
            f"{child.name} {how}; starting it again in {pause:g} s ({child.log})",
            file=sys.stderr,
            flush=True,
        )

    def _until_next_start(self) -> float:
        starts = [c.next_start for stage in self.stages for c in stage if c.next_start]
        return max(0.0, min(starts) - time.monotonic()) if starts else 60.0

    def _wait(self, seconds: float) -> None:
        """Until a signal comes; one that came since the last wait counts."""
        if select.select([self._heard], [], [], max(0.0, seconds))[0]:
            os.read(self._heard, 4096)

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        if self.stopping:  # asked twice: at once
            for child in [child for stage in self.stages for child in stage]:
                child.patience = 0.0
        self.stopping = True

    def _on_child(self, number: int, frame: FrameType | None) -> None:
        """Without a handler the signal would wake nobody."""


class Interrupted(Exception):
    """We were told to stop before everything was ready."""
