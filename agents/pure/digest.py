"""What an approval and a decision bind: exact bytes, under a key.

Keyed, because an unkeyed hash of short arguments can be guessed. The thread's MAC
key makes the digest of a request; the workspace's decision key, which outlives
threads, makes the MAC of a decision.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from checkpoints.pure.chain import keyed_digest


def approval_digest(
    mac_key: bytes,
    *,
    workspace: UUID,
    thread: UUID,
    branch: UUID,
    reply: UUID,
    reply_mac: bytes,
    call: UUID,
    tool: str,
    tool_version: str,
    schema_hash: str,
    arguments: Mapping[str, Any],
    policy_version: str,
    agent_version: UUID,
    guards: Mapping[str, Any] | None = None,
) -> bytes:
    """32 bytes that stand for one request: this call, in this place, so shown."""
    return keyed_digest(
        mac_key,
        "approval 1",
        {
            "workspace": str(workspace),
            "thread": str(thread),
            "branch": str(branch),
            "reply": str(reply),
            "reply_mac": reply_mac.hex(),
            "call": str(call),
            "tool": tool,
            "tool_version": tool_version,
            "schema": schema_hash,
            "arguments": dict(arguments),
            "policy": policy_version,
            "agent_version": str(agent_version),
            "guards": dict(guards or {}),
        },
    )


def arguments_digest(
    mac_key: bytes, *, tool: str, version: str, arguments: Mapping[str, Any]
) -> bytes:
    """Finds the recorded result of the same call elsewhere in the thread."""
    return keyed_digest(
        mac_key,
        "arguments 1",
        {"tool": tool, "version": version, "arguments": dict(arguments)},
    )


def decision_mac(
    decision_key: bytes,
    *,
    decision: UUID,
    approval: UUID,
    revision: int,
    verdict: str,
    by: int,
    role: str,
    session: str,
    at: str,
    content: object,
    shown: bytes,
    settled: bytes,
) -> bytes:
    """Binds who said what, when, to the digest shown and to the one it settled on.

    They differ after an edit only: `settled` is the digest over the edited arguments.
    `content` is the reason, the response or the edited arguments.
    """
    return keyed_digest(
        decision_key,
        "decision 1",
        {
            "decision": str(decision),
            "approval": str(approval),
            "revision": revision,
            "verdict": verdict,
            "by": by,
            "role": role,
            "session": session,
            "at": at,
            "content": content,
            "shown": shown.hex(),
            "settled": settled.hex(),
        },
    )


def equal(one: bytes | memoryview, other: bytes | memoryview) -> bool:
    """Compares in constant time; takes what the database driver returns."""
    return hmac.compare_digest(bytes(one), bytes(other))
