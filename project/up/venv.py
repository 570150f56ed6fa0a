"""`.venv` inside the project, holding what the hashed locks say."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from project.up.paths import ROOT, VENV, Problem, lock, not_writable
from project.up.processes import dies_with_us

PYTHON = str(VENV / "bin" / "python")

RUNTIME = "requirements.txt"
EMBEDDED = "requirements-embedded.txt"
DEV = "requirements-dev.txt"
BENCH = "requirements-bench.txt"


def ensure(*locks: str) -> None:
    """Make `.venv` if it is missing or broken, and install those locks that changed.

    A stamp with the lock's hash is written after each installation, so one that was
    interrupted is simply done again.
    """
    with _only_one():
        if not _works():
            _make()
        changed = [name for name in locks if _stamp(name) != _wanted(name)]
        if changed:
            print(f"Installing {', '.join(changed)} into .venv …", flush=True)
            _install(changed)


def has(name: str) -> bool:
    """This lock is installed as it stands now."""
    return _stamp(name) == _wanted(name)


def _only_one() -> IO[str]:
    held = lock("setup.lock", wait=False)
    if held is None:
        print("Another ./dev is setting up .venv; waiting for it …", flush=True)
        held = lock("setup.lock", wait=True)
    assert held is not None  # lock() with wait
    return held


def _works() -> bool:
    """The interpreter it was made with is still there (upgrades of Python remove it)."""
    try:
        subprocess.run([PYTHON, "-c", "import pip"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _make() -> None:
    """Under a temporary name first: what is called `.venv` is complete."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise Problem(
                f"This Python has no {module} module, which Holdpoint needs to make .venv.\n"
                f"Debian and Ubuntu: apt install python{version}-venv"
            )
    part = ROOT / f".venv.{os.getpid()}"
    print(f"Making .venv with Python {version} …", flush=True)
    try:
        for abandoned in ROOT.glob(".venv.*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        if VENV.exists():
            shutil.rmtree(VENV)
        made = subprocess.run(
            [sys.executable, "-m", "venv", part],
            capture_output=True,
            text=True,
            preexec_fn=dies_with_us(signal.SIGKILL),
        )
        if made.returncode:
            raise Problem(
                f"Python could not make .venv:\n{(made.stdout + made.stderr).strip()}\n"
                f"Debian and Ubuntu: apt install python{version}-venv"
            )
        for script in (part / "bin").iterdir():
            _rename_inside(script, part.name)
        part.rename(VENV)
    except OSError as error:
        raise Problem(not_writable(VENV, error)) from error


def _rename_inside(script: Path, old: str) -> None:
    """`activate` and `pip` carry the folder's name."""
    if script.is_symlink():
        return
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace(f"/{old}", f"/{VENV.name}"), encoding="utf-8")


def _install(names: list[str]) -> None:
    wanted = {name: _wanted(name) for name in names}
    files = [part for name in names for part in ("-r", str(ROOT / name))]
    pip = [PYTHON, "-m", "pip", "--quiet", "--no-input", "--retries=2"]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", "install", "--require-hashes", *files],
        capture_output=True,
        text=True,
        # pip's cache would be outside the project.
        env={"PIP_NO_CACHE_DIR": "1", **os.environ},
        preexec_fn=dies_with_us(signal.SIGKILL),
    )
    if done.returncode:
        said = [
            line for line in done.stderr.splitlines() if line[:7] != "WARNING" and line
        ]
        raise Problem(
            "The packages could not be installed. Is there a network, and does pip know"
            " its way out (proxy, PIP_INDEX_URL)? pip said:\n  "
            + "\n  ".join(said[-8:] or done.stderr.splitlines()[-8:])
        )
    for name, digest in wanted.items():
        _stamp_file(name).write_text(digest, encoding="ascii")


def _wanted(name: str) -> str:
    return hashlib.sha256((ROOT / name).read_bytes()).hexdigest()


def _stamp(name: str) -> str | None:
    file = _stamp_file(name)
    return file.read_text(encoding="ascii") if file.exists() else None


def _stamp_file(name: str) -> Path:
    return VENV / f"{name}.sha256"
