"""The state chain: each step's MAC covers its content, its place and its parent's MAC.

    mac[i] = HMAC-SHA256(thread's MAC key,
                         label ‖ mac[i-1] ‖ branch ‖ step ‖ parent ‖ metadata ‖ SHA-256(operations))

with every field behind its length. Operations enter as a digest of their plain
bytes, kept verbatim, so that the chain survives packing and a change of data key,
and can be verified without folding.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from uuid import UUID

from checkpoints.pure.codec import canonical

MAC_BYTES = 32
START = bytes(MAC_BYTES)  # what the first step of a thread follows

_LINK = b"holdpoint state chain 1"
_DIGEST = b"holdpoint digest 1"


def link(
    mac_key: bytes,
    previous: bytes,
    *,
    branch: UUID,
    step: int,
    parent: UUID | None,
    metadata: bytes,
    operations: bytes,
) -> bytes:
    """The MAC of a step, 32 bytes. `metadata` is canonical, `operations` as stored.

    `previous` is the MAC of the parent checkpoint (across a fork: on the other
    branch), or START where `parent` is None.
    """
    return link_digest(
        mac_key,
        previous,
        branch=branch,
        step=step,
        parent=parent,
        metadata=metadata,
        operations_digest=sha256(operations).digest(),
    )


def link_digest(
    mac_key: bytes,
    previous: bytes,
    *,
    branch: UUID,
    step: int,
    parent: UUID | None,
    metadata: bytes,
    operations_digest: bytes,
) -> bytes:
    """As `link`, where only the SHA-256 of the operations is at hand (in a segment)."""
    # The fields of `_mac`, most of whose lengths are known: this is made for every step
    # that is written or read.
    message = b"".join(
        (
            _LINK_BEGINS,
            len(previous).to_bytes(8, "big"),
            previous,
            _SIXTEEN,
            branch.bytes,
            _EIGHT,
            step.to_bytes(8, "big"),
            _SIXTEEN + parent.bytes if parent else _NOTHING,
            len(metadata).to_bytes(8, "big"),
            metadata,
            len(operations_digest).to_bytes(8, "big"),
            operations_digest,
        )
    )
    return hmac.digest(mac_key, message, "sha256")


def keyed_digest(key: bytes, purpose: str, value: object) -> bytes:
    """32 bytes that stand for a value: equal for the same JSON under key and purpose.

    They may be kept in clear, which an unkeyed hash may not: it would tell whoever
    guesses the value that the guess is right. Raises NotStorable.
    """
    return _mac(key, _DIGEST, purpose.encode(), canonical(value))


def _mac(key: bytes, *fields: bytes) -> bytes:
    return hmac.digest(key, b"".join(map(_behind_length, fields)), "sha256")


def _behind_length(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part


_LINK_BEGINS = _behind_length(_LINK)
_NOTHING, _EIGHT, _SIXTEEN = (size.to_bytes(8, "big") for size in (0, 8, 16))
