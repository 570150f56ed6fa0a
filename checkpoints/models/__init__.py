from __future__ import annotations

from checkpoints.models.audit import AuditEvent
from checkpoints.models.keys import DataKey, WorkspaceKey
from checkpoints.models.log import Checkpoint, CheckpointDelta
from checkpoints.models.threads import Branch, Thread, ThreadInput
from checkpoints.models.workspaces import Grant, Group, Membership, Workspace

__all__ = [
    "AuditEvent",
    "Branch",
    "Checkpoint",
    "CheckpointDelta",
    "DataKey",
    "Grant",
    "Group",
    "Membership",
    "Thread",
    "ThreadInput",
    "Workspace",
    "WorkspaceKey",
]
