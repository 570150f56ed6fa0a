"""Rules about the code that no linter of ours knows. The layers are import-linter's."""

from __future__ import annotations

import ast
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from django.conf import settings
from rq.serializers import JSONSerializer

from agents import queue

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = sorted(
    path
    for package in ("project", "checkpoints", "agents")
    for path in (ROOT / package).rglob("*.py")
)
TREES = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in PRODUCT}

# Bytes that become objects or code: whoever writes them runs what they like.
NO_MODULES = {
    *("pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle"),
    *("jsonpickle", "joblib", "code", "codeop"),
}
NO_CALLS = {"eval", "exec", "compile", "__import__"}
NO_ATTRIBUTES = {("yaml", "load"), ("yaml", "unsafe_load"), ("yaml", "full_load")}

# Where everything is caught: the edges of a process, thread, job or tool.
EDGES = {
    "agents/queue.py": "what an exception says is kept from RQ, which would store it",
    "agents/runs/aside.py": "what an act raises is for whoever waits for it",
    "agents/runs/execute.py": "a tool is somebody else's code",
    "agents/runs/housekeeping.py": "the edge of a duty",
    "agents/runs/pool.py": "the edge of a forked child",
    "agents/runs/reaper.py": "the edge of a row: one bad one does not stop the others",
    "agents/runs/outcomes.py": "the edge of a claim",
    "agents/runs/worker.py": "the edges of a thread and of a job",
    "checkpoints/pure/schema.py": "a migration is somebody else's code",
}
# The environment is read through project.env, so that a missing value stops the start.
READS_THE_ENVIRONMENT = {
    "project/env.py",
    "project/asgi.py",  # sets defaults before the settings are read
    "agents/tools/secrets.py",  # credentials by the names that tools give them
    "checkpoints/failpoints.py",  # armed by tests only, and not a setting
}


def nodes(kind: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, kind):
                yield path, node


def imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=module, names=names):
            return [module or "", *(f"{module}.{alias.name}" for alias in names)]
    return []


def test_there_is_code_to_look_at():
    assert len(TREES) > 100


def test_no_stored_bytes_become_objects_or_code():
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            at = f"{path}:{getattr(node, 'lineno', 0)}"
            for name in imported(node):
                assert name.partition(".")[0] not in NO_MODULES, at
            match node:
                case ast.Call(func=ast.Name(id=name)):
                    assert name not in NO_CALLS, at
                case ast.Attribute(value=ast.Name(id=module), attr=attribute):
                    assert (module, attribute) not in NO_ATTRIBUTES, at
                    assert module not in NO_MODULES, at


def test_queue_and_worker_speak_json_only(settings):
    for name, options in settings.RQ_QUEUES.items():
        assert options["SERIALIZER"] == "rq.serializers.JSONSerializer", name
    with queue.connect(timeout=5) as redis:
        assert queue.queue(redis).serializer is JSONSerializer
        worker = queue.HoldpointWorker(
            print, name=str(uuid4()), stopping=lambda: True, connection=redis
        )
        assert worker.serializer is JSONSerializer
        run = uuid4()
        assert queue.ring(run, fence=1, n=1)
        job = f"{run}-1-1"
        stored = zlib.decompress(redis.hget(f"rq:job:{job}", "data"))
        assert json.loads(stored) == [queue.WORK, None, [str(run)], {}]
        queue.queue(redis).remove(job)
        redis.delete(f"rq:job:{job}")


def test_sessions_and_caches_hold_no_pickles():
    assert settings.SESSION_SERIALIZER.endswith("JSONSerializer")
    assert settings.SESSION_ENGINE == "django.contrib.sessions.backends.db"


def test_everything_is_caught_at_the_edges_only():
    found = set()
    for path, node in nodes(ast.ExceptHandler):
        assert isinstance(node, ast.ExceptHandler)
        caught = ast.unparse(node.type) if node.type else "BaseException"
        if re.search(r"\b(Exception|BaseException)\b", caught):
            found.add(path)
    assert {path for path in found if not path.startswith("project/up/")} == set(EDGES)


def test_there_are_no_signals_and_no_save_of_our_own():
    for path, node in nodes(ast.ImportFrom):
        for name in imported(node):
            assert not re.match(
                r"django\.(db\.models|dispatch|core)\.?signals", name
            ), path
            assert name != "django.dispatch.receiver", path
    for path, node in nodes(ast.ClassDef):
        assert isinstance(node, ast.ClassDef)
        if "/models/" in path:
            methods = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
            assert not methods & {"save", "delete"}, f"{path} {node.name}"


def test_only_the_settings_read_the_environment():
    found = {
        path
        for path, node in nodes(ast.Attribute)
        if ast.unparse(node) in ("os.environ", "os.getenv")
        and not path.startswith("project/up/")
    }
    assert found == READS_THE_ENVIRONMENT


def test_no_module_is_a_drawer_of_odds_and_ends():
    for path in TREES:
        assert Path(path).stem not in ("utils", "util", "helpers", "common", "misc"), (
            path
        )


def test_tests_patch_nothing_of_ours():
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            for name in imported(node):
                assert name.partition(".")[0] not in ("mock", "responses"), path
                assert not name.startswith("unittest.mock"), path


# The map

MAP = re.search(
    r"## The map.*?```\n(.*?)```", (ROOT / "ARCHITECTURE.md").read_text(), re.S
)


def on_the_map() -> Iterator[Path]:
    """Each path that the map names: a folder a line, and files with it."""
    assert MAP
    top = Path()
    for line in MAP[1].splitlines():
        name = line.split()[0]
        if name.endswith("/") and not line.startswith(" "):
            top = Path(name)
            yield top
        for word in re.findall(r"(?:^  |\s{2,})([a-z_]+(?:/|\.py))(?=\s)", f"  {line}"):
            yield top if word.rstrip("/") == top.name else top / word


def test_the_map_names_what_is_there():
    named = list(on_the_map())
    assert len(named) > 20
    for path in named:
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("package", ["checkpoints", "agents"])
def test_every_package_is_on_the_map(package):
    plumbing = {"migrations", "management", "templatetags", "__pycache__"}
    there = {
        Path(package) / folder.name
        for folder in (ROOT / package).iterdir()
        if folder.is_dir() and folder.name not in plumbing
    }
    missing = (
        there - set(on_the_map()) - {Path("checkpoints/admin")}
    )  # named with agents'
    assert not missing
