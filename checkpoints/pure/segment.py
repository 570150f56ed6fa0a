"""Segments: runs of steps of one branch, packed to be sealed as one record.

The plain bytes of a segment are

    offset  length  field
    0       4       magic
    4       4       n, the number of steps
    8       8       first step
    16      16      branch
    32      16      checkpoint before the first step; zero: there is none
    48      32      MAC before the first step (pure/chain.py)
    80      32      MAC of the last step
    112     16 n    checkpoints, in step order
    112+16n 4 n     length of each step's text
    112+20n         "[" + the texts, a comma between two + "]"

with numbers in big-endian order. A step's text is kept verbatim, byte by byte as its
MAC covers it, so the chain survives packing; that the texts are one JSON list as they
stand lets one call parse a whole segment. The branch, and what the first step follows,
bind a segment to its place in the tree: its record is bound to the thread.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import Any
from uuid import UUID

import orjson

from checkpoints.errors import BrokenChain
from checkpoints.pure.chain import MAC_BYTES
from checkpoints.pure.envelope import NIL

SEGMENT_STEPS = 64  # steps; segments begin where the step number is a multiple of it

MAGIC = b"HPs\x01"

_HEAD = struct.Struct(">4sIQ16s16s32s32s")
_ID = 16
_LENGTH = 4
_FEWEST = len(b"[{}]")
_NEXT = (1).__add__  # from the length of a text to where the next one begins


@dataclass(frozen=True)
class Packed:
    """A segment's steps. What was sealed is kept as bytes until somebody asks."""

    branch: UUID
    first: int
    last: int
    parent: UUID | None  # the checkpoint that the first step follows
    before: bytes = field(repr=False)  # its MAC
    after: bytes = field(repr=False)  # the last step's
    _ids: bytes = field(repr=False)
    _lengths: tuple[int, ...] = field(repr=False)
    _text: memoryview = field(repr=False)

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def ids(self) -> list[UUID]:
        """The checkpoints, in step order."""
        return [self.id_at(step) for step in range(self.first, self.last + 1)]

    def id_at(self, step: int) -> UUID:
        at = (step - self.first) * _ID
        return UUID(bytes=self._ids[at : at + _ID])

    def is_at(self, step: int, id: UUID) -> bool:
        """Whether this checkpoint is the step's; quicker than to make its id."""
        at = (step - self.first) * _ID
        return self._ids[at : at + _ID] == id.bytes

    @property
    def plains(self) -> list[bytes]:
        """Each step's text, verbatim."""
        plains = []
        start = 1
        for length in self._lengths:
            plains.append(bytes(self._text[start : start + length]))
            start += length + 1
        return plains

    def texts(self, last: int) -> list[dict[str, Any]]:
        """What the steps up to `last` say, parsed. Raises BrokenChain."""
        count = min(last, self.last) - self.first + 1
        text: memoryview | bytes = self._text
        if count < len(self):
            text = bytes(text[: sum(self._lengths[:count]) + count]) + b"]"
        try:
            texts: list[dict[str, Any]] = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise _malformed() from None
        if len(texts) != count:
            raise _malformed()
        return texts

    def without_texts(self) -> Packed:
        """Which steps these are, for who is done with their texts, which may be long.

        To read a thread is to unpack one segment after the other: each finds the
        memory of the last one, still in the processor's cache.
        """
        bare = Packed.__new__(Packed)  # `replace` takes four times as long
        vars(bare).update(vars(self), _lengths=(), _text=memoryview(b""))
        return bare


def pack(
    steps: Sequence[tuple[UUID, bytes]],
    *,
    branch: UUID,
    first: int,
    parent: UUID | None,
    before: bytes,
    after: bytes,
) -> bytes:
    """The plain bytes of a segment of these steps: (checkpoint, text) in step order.

    `parent` is the checkpoint that the first step follows, `before` its MAC, and `after`
    the last step's.
    """
    assert len(before) == len(after) == MAC_BYTES  # of HMAC-SHA256, or chain.START
    ids, plains = zip(*steps, strict=True)
    return b"".join(
        (
            _HEAD.pack(
                MAGIC,
                len(steps),
                first,
                branch.bytes,
                (parent or NIL).bytes,
                before,
                after,
            ),
            *(id.bytes for id in ids),
            struct.pack(f">{len(plains)}I", *map(len, plains)),
            b"[",
            b",".join(plains),
            b"]",
        )
    )


def unpack(plain: bytes) -> Packed:
    """The segment that `pack` made.

    Raises BrokenChain when these bytes are none: an authentic record that is not one
    was written by something else.
    """
    if len(plain) < _HEAD.size:
        raise _malformed()
    magic, count, first, branch, parent, before, after = _HEAD.unpack_from(plain)
    ids_end = _HEAD.size + _ID * count
    text_start = ids_end + _LENGTH * count
    if magic != MAGIC or not count or len(plain) < text_start + _FEWEST:
        raise _malformed()
    lengths = struct.unpack_from(f">{count}I", plain, ids_end)
    # Where the list opens, where each text ends.
    marks = [*accumulate(map(_NEXT, lengths), initial=text_start)]
    if (
        len(plain) != marks[-1] + 1
        or bytes(itemgetter(*marks)(plain)) != b"[" + b"," * (count - 1) + b"]"
    ):
        raise _malformed()
    return Packed(
        branch=UUID(bytes=branch),
        first=first,
        last=first + count - 1,
        parent=UUID(bytes=parent) if parent != NIL.bytes else None,
        before=before,
        after=after,
        _ids=plain[_HEAD.size : ids_end],
        _lengths=lengths,
        _text=memoryview(plain)[text_start:],  # not copied: it may be long
    )


def bounds(step: int) -> tuple[int, int]:
    """First and last step of the full segment that this step belongs to.

    Of a branch, a segment holds those that are its own: one that was forked in the
    middle of a segment begins its first one there.
    """
    first = step - step % SEGMENT_STEPS
    return first, first + SEGMENT_STEPS - 1


def _malformed() -> BrokenChain:
    return BrokenChain("A segment is not as packing writes it.")
