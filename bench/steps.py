"""What a durable, sealed step costs beside the plainest insert there is."""

from __future__ import annotations

import os
from base64 import b64encode

from django.db import connection

from bench._measure import take_turns
from checkpoints.keys.hierarchy import create_workspace_keys
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.log.threads import create_thread
from checkpoints.models import Workspace
from checkpoints.pure import ops

ROUNDS = 500
PAYLOAD = 1024  # bytes of text in one step


def run() -> None:
    slug = f"bench-{os.urandom(4).hex()}"
    workspace = Workspace.objects.create(slug=slug, name="Bench")
    create_workspace_keys(workspace)
    branch = create_thread(
        workspace=workspace,
        owner_id=None,
        title="Bench",
        state={"_schema": 1, "messages": []},
        label="start",
    )
    at = writer(branch)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS bench_plain"
            " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)"
        )

    def insert() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO bench_plain (body) VALUES (%s)", [text().encode()]
            )

    def step() -> None:
        nonlocal at
        message = {"id": "m", "role": "assistant", "content": text()}
        at = commit(at, NewStep("model", [ops.append("/messages", message)], "said"))

    take_turns(
        f"One step of {PAYLOAD} bytes, committed",
        ROUNDS,
        {"raw INSERT, autocommit": insert, "step: fenced, sealed, chained": step},
    )
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE bench_plain")


def text() -> str:
    """Half as random as a key: about what zstd makes of prose."""
    return b64encode(os.urandom(PAYLOAD * 3 // 8)).decode() * 2
