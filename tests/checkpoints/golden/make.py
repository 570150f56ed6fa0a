"""Write the golden files of a release; never again for the same one.

    GOLDEN=0.2.0 ./dev test -n 0 tests/checkpoints/golden/make.py

A thread as this release stores it: 71 steps, of which 64 are packed, a key that was
rotated in between, a fork, a message that waits. As rows, as an archive, and what one
should read there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from checkpoints import gate
from checkpoints.access import Reason, SystemPrincipal, unscoped
from checkpoints.keys.hierarchy import create_workspace_keys
from checkpoints.keys.rotation import rotate_thread_keys
from checkpoints.log import archive, hydrate, rows, source
from checkpoints.log.append import NewStep, StepMeta, commit, writer
from checkpoints.log.pack import pack_branch
from checkpoints.log.threads import create_thread, fork
from checkpoints.models import (
    Branch,
    Checkpoint,
    DataKey,
    ThreadInput,
    Workspace,
    WorkspaceKey,
)
from checkpoints.pure import ops
from tests.checkpoints.golden.keys import KEK

HERE = Path(__file__).parent
STATE = {
    "_schema": 1,
    "messages": [{"id": "m0", "role": "user", "content": "Lisbon, bitte: ü, 猫, 🜚"}],
    "params": {"model": "scripted", "temperature": 0.1, "seed": 7},
    "facts": {"zero": 0, "minus zero": -0.0, "none": None, "big": 2**63},
}


@pytest.mark.django_db(transaction=True)
def test_make(settings, tmp_path):
    target = HERE / os.environ["GOLDEN"]
    target.mkdir()
    settings.KEY_ENCRYPTION_KEYS = KEK
    settings.BLOB_DIR = tmp_path
    with unscoped(Reason.TEST):
        branch = _thread()
        (target / "rows.jsonl").write_text(
            "".join(json.dumps(row, sort_keys=True) + "\n" for row in _rows(branch))
        )
        (target / "expected.json").write_text(
            json.dumps(_expected(branch), indent=1, sort_keys=True, ensure_ascii=False)
            + "\n"
        )
        made = archive.write(branch.thread_id)
        source.export(made.store, made.object_name, target / "thread.jsonl.zst")


def _thread() -> Branch:
    workspace = Workspace.objects.create(slug="golden", name="Golden")
    create_workspace_keys(workspace)
    main = create_thread(
        workspace=workspace, owner_id=None, title="Golden", state=STATE, label="Begin"
    )
    _say(main, range(1, 50))
    rotate_thread_keys(main.thread_id)
    _say(main, range(50, 71))
    assert pack_branch(main.pk) == 1
    at = Checkpoint.objects.get(branch=main, step=20)
    side = fork(
        at, name="what-if", by_id=None, ops=[ops.set_("/params/seed", 8)], label="Seed"
    )
    _say(side, range(1, 3))
    said = ThreadInput(workspace=workspace, thread=main.thread, branch=main)
    said.content = gate.seal(said, "content", "And a hotel.")
    said.save(force_insert=True)
    main.refresh_from_db()
    return main


def _say(branch: Branch, numbers: range) -> None:
    branch.refresh_from_db()
    at = writer(branch)
    for n in numbers:
        said = {"id": f"m{n}", "role": "assistant", "content": f"Message {n}."}
        made = [ops.append("/messages", said), ops.put("/facts", f"n{n % 5}", n / 4)]
        meta = StepMeta(name="look", seed=n, temperature=0.1, latency_ms=n)
        at = commit(at, NewStep("model", made, f"Step {n}", meta))


def _rows(branch: Branch) -> list[dict[str, Any]]:
    thread = branch.thread_id
    of_workspace = {"workspace": branch.workspace_id}
    found: list[tuple[Any, Any]] = [
        (Workspace, Workspace.objects.filter(pk=branch.workspace_id)),
        (WorkspaceKey, WorkspaceKey.objects.filter(**of_workspace)),
        (DataKey, DataKey.objects.filter(**of_workspace)),
    ]
    found += [(m, rows.of_thread(m, thread)) for m in rows.models_of_threads()]
    return [
        {"table": model._meta.label_lower, "row": rows.to_json(model, row)}
        for model, queryset in found
        for row in queryset.order_by("pk").values()
    ]


def _expected(main: Branch) -> dict[str, Any]:
    seen = gate.admit(
        SystemPrincipal("golden", main.workspace_id),
        purpose="golden",
        threads=[main.thread],
    )
    branches = {}
    for branch in Branch.objects.filter(thread=main.thread):
        history = hydrate.read(seen, branch)
        last = branch.head_step
        branches[seen.open(branch, "name")] = {
            "labels": [record.label for record in history.records],
            "states": {str(n): history.state_at(n) for n in (0, last // 2, last)},
        }
    return {
        "thread": str(main.thread_id),
        "title": seen.open(main.thread, "title"),
        "inputs": seen.open_all(list(main.inputs.all()), "content"),
        "branches": branches,
    }
