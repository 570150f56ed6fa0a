"""What released versions stored opens for ever: as rows, and as an archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from checkpoints import gate
from checkpoints.access import Reason, SystemPrincipal, unscoped
from checkpoints.keys import hierarchy
from checkpoints.log import hydrate, rows
from checkpoints.log.restore import restore
from checkpoints.log.source import filed
from checkpoints.log.verify import Tally, verify
from checkpoints.models import Branch, Thread
from checkpoints.pure.codec import canonical
from tests.checkpoints.golden.keys import KEK
from tests.conftest import as_owner

RELEASES = sorted(
    path.parent for path in (Path(__file__).parent / "golden").glob("*/expected.json")
)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name),
]


@pytest.fixture(autouse=True)
def installation(settings, tmp_path):
    """An empty one, that has the key."""
    settings.KEY_ENCRYPTION_KEYS = KEK
    settings.BLOB_DIR = tmp_path
    hierarchy.forget()
    with unscoped(Reason.TEST):
        yield
    hierarchy.forget()


def load(file: Path) -> None:
    """The rows, without foreign keys: in any order."""
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        try:
            for line in file.read_text().splitlines():
                given = json.loads(line)
                model = rows.model_named(given["table"])
                assert model is not None, given["table"]
                row = model(**rows.from_json(model, given["row"]))
                rows.everything(model).bulk_create([row])
        finally:
            cursor.execute("SET session_replication_role = DEFAULT")


def require(expected: dict[str, Any]) -> None:
    thread = Thread.objects.get(pk=expected["thread"])
    seen = gate.admit(
        SystemPrincipal("golden", thread.workspace_id),
        purpose="golden",
        threads=[thread],
    )
    assert seen.open(thread, "title") == expected["title"]
    inputs = list(thread.inputs.order_by("pk"))
    assert seen.open_all(inputs, "content") == expected["inputs"]
    branches = list(Branch.objects.filter(thread=thread))
    names = seen.open_all(branches, "name")
    assert sorted(names) == sorted(expected["branches"])
    for branch, name in zip(branches, names, strict=True):
        known = expected["branches"][name]
        history = hydrate.read(seen, branch)
        assert [record.label for record in history.records] == known["labels"]
        for step, state in known["states"].items():
            assert canonical(history.state_at(int(step))) == canonical(state)
            found = hydrate.state(seen, branch, step=int(step))
            assert canonical(found) == canonical(state)
    tally = Tally()
    assert list(verify(tally=tally)) == []
    assert tally.segments
    assert tally.steps == sum(
        branch.head_step - branch.fork_step for branch in branches
    )


def test_there_are_golden_files(release):
    assert release.name


def test_rows_open(release):
    load(release / "rows.jsonl")
    require(json.loads((release / "expected.json").read_text()))


def test_an_archive_is_restored(release):
    with as_owner():  # `manage.py archive restore`: it makes a workspace, and people
        restored = restore(filed(release / "thread.jsonl.zst"))
    assert restored.is_new
    require(json.loads((release / "expected.json").read_text()))
