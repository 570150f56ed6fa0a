"""The state chain: each step's MAC covers its content, its place and its parent's MAC.

    mac[i] = HMAC-SHA256(thread's MAC key,
                         label ‖ mac[i-1] ‖ branch ‖ step ‖ parent ‖ metadata ‖ SHA-256(operations))

with every field behind its length. Operations enter as a digest of their plain
bytes, kept verbatim, so that the chain survives packing and a change of data key,
and can be verified without folding.
"""

from __future__ import annotations

import hmac
import struct
from hashlib import sha256
from uuid import UUID

from checkpoints.pure.codec import canonical

MAC_BYTES = 32
START = bytes(MAC_BYTES)  # what the first step of a thread follows

_LINK = b"holdpoint state chain 1"
_DIGEST = b"holdpoint digest 1"

_BEGIN = struct.Struct(f">Q{len(_LINK)}sQ{MAC_BYTES}sQ16sQQ")
_ID = struct.Struct(">Q16s")
_NO_ID = bytes(8)
_DIGEST_LENGTH = MAC_BYTES.to_bytes(8, "big")


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
    if not len(previous) == len(operations_digest) == MAC_BYTES:
        # Of a row that somebody changed: the MAC is another, without ambiguity.
        return _mac(
            mac_key,
            _LINK,
            previous,
            branch.bytes,
            step.to_bytes(8, "big"),
            parent.bytes if parent else b"",
            metadata,
            operations_digest,
        )
    # As _mac() would put it together, in a third of the time.
    message = b"".join(
        (
            _BEGIN.pack(
                len(_LINK), _LINK, MAC_BYTES, previous, 16, branch.bytes, 8, step
            ),
            _ID.pack(16, parent.bytes) if parent else _NO_ID,
            len(metadata).to_bytes(8, "big"),
            metadata,
            _DIGEST_LENGTH,
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
    message = b"".join(len(part).to_bytes(8, "big") + part for part in fields)
    return hmac.digest(key, message, "sha256")
