"""Where things are. Nothing outside the project's folder is written, but one short
temporary folder for sockets: a socket's path may have 107 bytes at most."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv"
DATA = ROOT / ".data"
LOGS = DATA / "logs"
RUNNING = DATA / "running.json"


class Problem(Exception):
    """Something the person at the keyboard can put right; the text says what and how."""


def make_folder(path: Path) -> Path:
    """The folder, made if need be, private to its owner."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Problem(not_writable(path, error)) from error
    return path


def not_writable(path: Path, error: OSError) -> str:
    return (
        f"Cannot write {path} ({error.strerror}).\n"
        "Everything ./dev makes stays in the project's folder, so run it as the user who"
        f" owns {ROOT}, or copy the project to a folder of your own."
    )


def lock(name: str, *, wait: bool) -> IO[str] | None:
    """An exclusive lock, held until the file is closed; None when another holds it."""
    path = make_folder(DATA) / name
    try:
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise Problem(not_writable(path, error)) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        file.close()
        return None
    return file


def running() -> dict[str, Any]:
    """What the `up` in this folder wrote about itself: pid, address, environment."""
    try:
        found: dict[str, Any] = json.loads(RUNNING.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def note_running(facts: dict[str, Any]) -> None:
    part = RUNNING.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(facts), encoding="utf-8")
    part.chmod(0o600)
    part.replace(RUNNING)


def socket_folder(data: Path) -> Path:
    """A short private folder for the sockets of what runs in `data`.

    Its path is kept in `data`, so that one left by a kill -9 is removed.
    """
    forget_sockets(make_folder(data))
    folder = Path(tempfile.mkdtemp(prefix="holdpoint-"))
    if len(bytes(folder)) > 80:  # TMPDIR is deep
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="holdpoint-", dir="/tmp"))
    (data / "sockets").write_text(str(folder), encoding="utf-8")
    return folder


def forget_sockets(data: Path) -> None:
    """Remove the folder that socket_folder() made, if there is one."""
    note = data / "sockets"
    if not note.exists():
        return
    folder = Path(note.read_text(encoding="utf-8"))
    if folder.name.startswith("holdpoint-") and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
    note.unlink()
