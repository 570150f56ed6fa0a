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
    policy: Mapping[str, Any],
    agent_version: UUID | None,
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
            "policy": dict(policy),
            "agent_version": str(agent_version),
            "guards": dict(guards or {}),
        },
    )


def alike_digest(index_key: bytes, *, tool: str, arguments: Mapping[str, Any]) -> bytes:
    """Finds requests of a workspace for the same tool with the same arguments."""
    return keyed_digest(
        index_key, "alike 1", {"tool": tool, "arguments": dict(arguments)}
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
    fragment: bytes | None = None,
    confirmed: str = "",
    break_glass: bool = False,
) -> bytes:
    """Binds who said what, when, to the digest shown and to the one it settled on.

    They differ after an edit only: `settled` is the digest over the edited arguments.
    `content` is the reason, the response or the edited arguments. `fragment` is the
    keyed hash of what the page showed. A decision without any of the last three has the
    MAC that it had before there were any: what else is in its columns says which.
    """
    more = {
        "fragment": None if fragment is None else fragment.hex(),
        "confirmed": confirmed,
        "break_glass": break_glass,
    }
    is_new = any(more.values())
    return keyed_digest(
        decision_key,
        "decision 2" if is_new else "decision 1",
        {
            **(more if is_new else {}),
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
