"""The supervisor of `./dev up`, under signals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TURNS = 20_000
PATIENCE = 120  # seconds

# Signals come from another process, at any moment: while the supervisor waits, wakes and
# begins to wait again; then one that ends it.
UNDER_SIGNALS = f"""
import itertools, os, signal, subprocess, sys
from project.up.processes import Supervisor, dies_with_us

DYING = '''
import os, signal, time
while True:
    os.kill(os.getppid(), signal.SIGCHLD)
    time.sleep(0.0002)
'''
with Supervisor() as supervisor:
    children = subprocess.Popen(
        [sys.executable, "-c", DYING], preexec_fn=dies_with_us(signal.SIGKILL)
    )
    turns = itertools.count()
    supervisor.wait_until(lambda: next(turns) >= {TURNS}, "it", {PATIENCE})
    os.kill(os.getpid(), signal.SIGINT)
    supervisor.run()
    children.kill()
    children.wait()
print("stopped")
"""


def test_a_signal_at_any_moment_wakes_it_and_never_stops_it_for_good():
    said = subprocess.run(
        [sys.executable, "-c", UNDER_SIGNALS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert said.stdout == "stopped\n", said.stderr
