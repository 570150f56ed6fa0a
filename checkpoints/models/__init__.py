from __future__ import annotations

from checkpoints.models.audit import AuditEvent, AuditLink, AuditPending
from checkpoints.models.blobs import Blob, StoreMark
from checkpoints.models.entries import Entry, EntryLock, EntryVector, EntryVersion
from checkpoints.models.keys import DataKey, WorkspaceKey
from checkpoints.models.log import Checkpoint, CheckpointDelta, Segment
from checkpoints.models.people import SignInFailures
from checkpoints.models.remarks import Remark
from checkpoints.models.retention import (
    Archive,
    Deletion,
    RetentionPolicy,
    RetentionTask,
)
from checkpoints.models.search import SearchField
from checkpoints.models.threads import Branch, Thread, ThreadInput
from checkpoints.models.tokens import ApiToken
from checkpoints.models.workspaces import Grant, Group, Membership, Workspace

__all__ = [
    "ApiToken",
    "Archive",
    "AuditEvent",
    "AuditLink",
    "AuditPending",
    "Blob",
    "Branch",
    "Checkpoint",
    "CheckpointDelta",
    "DataKey",
    "Deletion",
    "Entry",
    "EntryLock",
    "EntryVector",
    "EntryVersion",
    "Grant",
    "Group",
    "Membership",
    "Remark",
    "RetentionPolicy",
    "RetentionTask",
    "SearchField",
    "Segment",
    "SignInFailures",
    "StoreMark",
    "Thread",
    "ThreadInput",
    "Workspace",
    "WorkspaceKey",
]
