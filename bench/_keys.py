"""What it takes to change the key-encryption key: key rows are wrapped anew, no blob."""

from __future__ import annotations

import os
import secrets

from django.conf import settings
from django.test.utils import override_settings

from bench._server import seconds
from checkpoints.keys import material
from checkpoints.keys.rewrap import rewrap
from checkpoints.models import Workspace, WorkspaceKey
from checkpoints.pure.envelope import KEY_BYTES

KEYS = 20_000


def rewrap_seconds() -> float:
    """For as many keys as 20,000 workspaces have. As the owner, as the command does it."""
    workspaces = Workspace.objects.bulk_create(
        Workspace(slug=f"bench-key-{number}", name="Bench") for number in range(KEYS)
    )
    keys = [WorkspaceKey(workspace=workspace) for workspace in workspaces]
    for key in keys:
        material.wrap_workspace_key(key, secrets.token_bytes(KEY_BYTES))
    WorkspaceKey.objects.bulk_create(keys, batch_size=5000)
    new = {"bench": os.urandom(KEY_BYTES)}
    with override_settings(KEY_ENCRYPTION_KEYS=new | settings.KEY_ENCRYPTION_KEYS):
        found = []
        taken = seconds(lambda: found.append(rewrap()))
    assert found[0].done >= KEYS  # each was due, and none failed
    return taken
