"""`./dev` as a person uses it: a process in a fresh folder, judged by what it prints,
what answers, and what is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = {".venv", ".data", ".git", "staticfiles", "htmlcov"}
PATIENCE = 240.0  # seconds; the machine may be busy, and one test makes a .venv

pytestmark = pytest.mark.skipif(
    not (ROOT / ".venv" / "requirements-embedded.txt.sha256").exists(),
    reason="./dev has not set up .venv with the embedded servers",
)


class Folder:
    """A copy of the project that borrows our `.venv`, and the commands run in it."""

    def __init__(self, path: Path, user: int | None = None, **env: str) -> None:
        self.path, self.user, self.env = path, user, env
        shutil.copytree(
            ROOT,
            path,
            ignore=lambda folder, names: [
                name
                for name in names
                if name in OURS
                or name.endswith("_cache")
                or name in {"__pycache__", ".hypothesis"}
            ],
        )
        (path / ".venv").symlink_to(ROOT / ".venv")
        if user is not None:
            for found in (path, *path.rglob("*")):
                os.chown(found, user, user, follow_symlinks=False)

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        self.said = self.path.parent / f"{self.path.name}.{time.monotonic_ns()}.out"
        with self.said.open("w") as out:
            return subprocess.Popen(
                [self.path / "dev", *arguments],
                env=clean(self.env | env),
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
            )

    def run(self, *arguments: str, **env: str) -> tuple[int, str]:
        code = self.start(*arguments, **env).wait(PATIENCE)
        return code, self.said.read_text()

    def up(self, **env: str) -> subprocess.Popen[str]:
        """`./dev up`, ready."""
        process = self.start("up", **env)
        eventually(lambda: "is ready" in self.said.read_text() or process.poll())
        assert process.poll() is None, self.said.read_text()
        return process

    @property
    def address(self) -> str:
        address: str = self.facts["address"]
        return address

    @property
    def facts(self):
        return json.loads((self.path / ".data" / "running.json").read_text())

    def processes(self) -> dict[int, str]:
        """Every process that works in this folder: pid → command line."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdecimal() and (entry / "cwd").readlink().is_relative_to(
                    self.path
                ):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    found[int(entry.name)] = b" ".join(words).decode()
            except OSError:  # it has ended
                continue
        return found

    def pids_of(self, part: str) -> set[int]:
        return {pid for pid, words in self.processes().items() if part in words}

    def stop(self, process: subprocess.Popen[str], number=signal.SIGTERM) -> None:
        process.send_signal(number)
        process.wait(PATIENCE)


def clean(env: dict[str, str]) -> dict[str, str]:
    """This process's environment without what the test run itself was told."""
    names = (
        "CI",
        "DATABASE_URL",
        "REDIS_URL",
        "OPENAI_",
        "HOLDPOINT_",
        "DJANGO_",
        "PORT",
    )
    kept = {k: v for k, v in os.environ.items() if not k.startswith(names)}
    return kept | env


def eventually(holds, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=30) as response:  # noqa: S310
            return json.load(response)["status"] == "ok"
    except OSError:
        return False


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Folder:
    """One in which nothing runs."""
    return Folder(tmp_path_factory.mktemp("dev") / "still")


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = Folder(tmp_path_factory.mktemp("dev") / "a folder with blanks")
    (folder.path / "shop").mkdir()
    (folder.path / "shop" / "__init__.py").touch()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # then someone else has it
            taken.bind(("127.0.0.1", 8000))
            taken.listen()
        process = folder.up(HOLDPOINT_APPS="shop")
    yield folder
    folder.stop(process)
    assert not folder.processes()


def test_without_a_command_it_lists_them(folder):
    code, said = folder.run()
    assert code == 0
    assert "./dev up" in said


def test_an_unknown_command_lists_them_too(folder):
    code, said = folder.run("fly")
    assert code == 2
    assert "There is no ./dev fly." in said


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("DATABASE_URL", "mysql://root@localhost/shop", "begins with 'mysql'"),
        ("DATABASE_URL", "postgresql://localhost", "names no database"),
        ("DATABASE_URL", "postgresql://u:tulip@127.0.0.1:1/x", "Connection refused"),
        ("REDIS_URL", "http://localhost", "must begin with redis://"),
        ("REDIS_URL", "redis://127.0.0.1:1/0", "Connection refused"),
        ("PORT", "http", "PORT='http' must be a number"),
    ],
)
def test_a_wrong_variable_is_named(folder, variable, value, message):
    code, said = folder.run(
        "manage" if variable != "PORT" else "up", **{variable: value}
    )
    assert code == 1
    assert variable in said
    assert message in said
    assert "tulip" not in said
    assert "Traceback" not in said


def test_a_given_port_that_is_in_use_is_not_replaced(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = folder.run("up", PORT=str(port))
    assert code == 1
    assert f"PORT={port} is in use" in said


def test_an_old_python_says_which_one_is_needed(folder):
    """The file parses on any Python; one that is too old is imitated by its version."""
    source = (folder.path / "dev").read_text().replace("(3, 11)", "(3, 99)")
    (folder.path / "dev-on-old-python").write_text(source)
    done = subprocess.run(
        [shutil.which("python3") or "", folder.path / "dev-on-old-python", "up"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Holdpoint needs Python 3.99 or newer" in done.stderr


@pytest.mark.slow
def test_up_answers_on_a_free_port_and_says_how_to_log_in(running):
    assert answers(running.address)
    assert not running.address.endswith(":8000")
    said = running.said.read_text()
    assert f"Holdpoint is ready: {running.address}" in said
    assert "PostgreSQL" in said
    assert "scripted model" in said


@pytest.mark.slow
def test_a_second_up_says_where_the_first_is(running):
    first = running.said
    code, said = running.run("up")
    running.said = first
    assert code == 1
    assert running.address in said
    assert answers(running.address)


@pytest.mark.slow
def test_manage_reaches_the_servers_of_up_and_knows_its_apps(running):
    first = running.said
    ask = (
        "from django.conf import settings;"
        "print(settings.DATABASES['default']['HOST'], settings.INSTALLED_APPS[-1])"
    )
    code, said = running.run("manage", "shell", "-v", "0", "-c", ask)
    running.said = first
    assert code == 0, said
    host, app = said.split()
    assert host in running.facts["env"]["DATABASE_URL"]
    assert app == "shop"


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", ["uvicorn", "valkey-server", "bin/postgres", "manage.py worker"]
)
def test_what_dies_is_started_again(running, part):
    before = running.pids_of(part)
    os.kill(min(before), signal.SIGKILL)  # of several, the one that began the others
    eventually(lambda: running.pids_of(part) - before)
    eventually(lambda: answers(running.address))


@pytest.mark.slow
def test_nothing_is_left_behind_however_it_ends_and_the_next_start_works(tmp_path):
    folder = Folder(tmp_path / "project")
    # After a kill -9 there are a stale lock, a socket and a pid file.
    for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        process = folder.up()
        assert answers(folder.address)
        folder.stop(process, number)
        eventually(lambda: not folder.processes())


@pytest.mark.slow
def test_an_ordinary_user_can_do_the_same(nobodys_folder):
    process = nobodys_folder.up()
    assert answers(nobodys_folder.address)
    owners = {Path(f"/proc/{pid}").stat().st_uid for pid in nobodys_folder.processes()}
    assert owners == {nobodys_folder.user}
    nobodys_folder.stop(process)
    assert not nobodys_folder.processes()


def test_a_folder_that_is_not_ones_own_is_named(nobodys_folder):
    nobodys_folder.path.chmod(0o555)
    os.chown(nobodys_folder.path, 0, 0)
    shutil.rmtree(nobodys_folder.path / ".data", ignore_errors=True)
    code, said = nobodys_folder.run("up")
    assert code == 1
    assert f"Cannot write {nobodys_folder.path / '.data'}" in said


@pytest.fixture
def nobodys_folder():
    """The project as the user nobody has it, whom only root can become.

    It borrows our `.venv` where nobody can reach that, and else makes one of its own.
    """
    if os.geteuid() != 0:
        pytest.skip("not root: every other test here runs as an ordinary user")
    nobody = pwd.getpwnam("nobody").pw_uid
    folders = [Path(name) for name in os.environ["PATH"].split(os.pathsep)]
    path = os.pathsep.join(str(f) for f in folders if can_reach(f / "x", nobody))
    python = shutil.which("python3", path=path)
    new_enough = "import sys; sys.exit(sys.version_info < (3, 11))"
    if (
        python is None
        or subprocess.run([python, "-c", new_enough], check=False).returncode
    ):
        pytest.skip("no Python that is new enough lies where nobody can reach it")
    place = Path(tempfile.mkdtemp(prefix="hp-"))
    place.chmod(0o755)
    folder = Folder(place / "project", user=nobody, PATH=path)
    ours = ROOT / ".venv" / "bin" / "python"
    if not (can_reach(ours, nobody) and can_reach(ours.resolve(), nobody)):
        (folder.path / ".venv").unlink()
    yield folder
    shutil.rmtree(place)


def can_reach(path: Path, user: int) -> bool:
    return all(
        folder.is_dir()
        and (folder.stat().st_mode & 0o001 or folder.stat().st_uid == user)
        for folder in path.parents
    )
