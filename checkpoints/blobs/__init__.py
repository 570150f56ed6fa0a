"""Blobs: large values of a thread's state, sealed and kept in an object store.

    ops, ids = offload(thread, step.ops)    what a step stores: references to what is large
    contents = Contents(pass_, thread)      and back: contents.restore(message)

A blob's object is written, made durable, read back and opened before its row exists; the
row commits with the step that refers to it. Its id is a keyed digest of its content, so
a thread keeps the same value once, and two branches that store it at once agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid5

from django.conf import settings

from checkpoints import gate, stores
from checkpoints.access import Reason
from checkpoints.errors import DecryptionError, MissingObject, NotStorable
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.keys import hierarchy
from checkpoints.models import Blob, Thread
from checkpoints.pure import codec, envelope, refs
from checkpoints.pure.chain import keyed_digest
from checkpoints.pure.ops import Op
from checkpoints.pure.refs import Large, Ref, is_ref
from checkpoints.stores.mark import refuse_another, require_same

__all__ = ["MAX_BYTES", "Contents", "is_ref", "offload", "put", "read", "ref_to"]

MAX_BYTES = 64 * 1024 * 1024  # of one blob; it is in memory while it is handled
CACHE_BYTES = 32 * 1024 * 1024  # of contents that a run keeps between its model calls

_FIELD = "content"  # what the sealed object is bound to: this "column" of the row


def put(thread: Thread, content: bytes, *, media_type: str) -> Blob:
    """The thread's blob with this content: a new one, or the one that it has.

    The object is durable and was opened again before this returns; the row is inserted
    in the transaction that is open, and goes with it. Raises NotStorable when it is too
    large, Shredded, and StoreUnavailable (StoreFull, WrongStore).
    """
    if len(content) > MAX_BYTES:
        raise NotStorable(
            "$",
            f"holds a value of {len(content):,} bytes",
            f"a blob has {MAX_BYTES // 1024**2} MB at most",
        )
    digest, id = _identity(thread.pk, content, media_type)
    known = Blob.objects.unscoped(Reason.WORKER).filter(pk=id, thread=thread).first()
    if known is not None:
        return known
    store = stores.configured()
    require_same(store)
    blob = Blob(
        id=id,
        workspace_id=thread.workspace_id,
        thread=thread,
        store=store.kind,
        object_name=stores.new_name("blob"),
        size=len(content),
        media_type=media_type,
        digest=digest,
    )
    sealed = gate.seal_bytes(blob, _FIELD, content)
    blob.stored_size = len(sealed)
    blob.data_key = envelope.key_id(sealed)
    store.write(blob.object_name, sealed)
    # Another branch of the thread may store the same at this moment: then its row stays,
    # under the same id, and our object is swept as an orphan.
    Blob.objects.bulk_create([blob], ignore_conflicts=True)
    return blob


def read(pass_: Pass, blob: Blob) -> bytes:
    """The content, shown to be what was stored under this id.

    Raises NotPermitted, Shredded, StoreUnavailable, MissingObject and DecryptionError.
    """
    pass_.require_thread(blob.thread_id)
    # What was shredded is gone, wherever its object is.
    hierarchy.data_keys([blob.data_key])
    store = stores.of(blob.store)
    try:
        sealed = store.read(blob.object_name)
    except MissingObject:
        refuse_another(store)  # or else that is why
        raise
    if envelope.key_id(sealed) != blob.data_key:
        raise DecryptionError
    content = pass_.open_bytes(blob, _FIELD, sealed)
    digest, id = _identity(blob.thread_id, content, blob.media_type)
    if (digest, id, len(content)) != (bytes(blob.digest), blob.pk, blob.size):
        raise DecryptionError(f"Blob {short(blob.pk)} is not what its row says.")
    return content


def ref_to(blob: Blob, words: str = "") -> Ref:
    """What stands in state for the blob; `words` are its first words, or a caption."""
    return refs.ref(blob.pk, blob.size, blob.media_type, words)


def offload(thread: Thread, ops: Sequence[Op]) -> tuple[Sequence[Op], list[UUID]]:
    """The operations as they are to be stored: large values put away, as these blobs.

    Cheap where nothing is large. Raises as `put` does, and NotStorable for operations
    that are no JSON.
    """
    most: int = settings.BLOB_BYTES
    codec.check_structure(list(ops))
    made: dict[tuple[bytes, str], Blob] = {}

    def take(large: Large) -> Ref:
        name = (large.content, large.media_type)
        if name not in made:
            made[name] = put(thread, large.content, media_type=large.media_type)
        return ref_to(made[name], large.words)

    kept = refs.extract_ops(ops, most, take)
    return (kept if made else ops), [blob.pk for blob in made.values()]


class Contents:
    """What the references of one thread stand for, read through a pass and remembered."""

    def __init__(self, pass_: Pass, thread_id: UUID) -> None:
        self._pass = pass_
        self._thread_id = thread_id
        self._known: dict[UUID, Large] = {}
        self._held = 0  # bytes

    def restore(self, value: Any) -> Any:
        """The value with what its references stand for.

        What has a reference's form and is none (the thread has no such blob) stays as
        it is. Raises as `read` does.
        """
        return refs.restore(value, self.load)

    def load(self, ref: Ref) -> Large | None:
        """What a reference stands for; None for one that is none. Raises as `read`."""
        id = refs.ref_id(ref)
        if id in self._known:
            self._pass.require_right()
            return self._known[id]
        blob = self.row(ref)
        if blob is None:
            return None
        found = Large(read(self._pass, blob), blob.media_type)
        if self._held + blob.size <= CACHE_BYTES:
            self._known[id] = found
            self._held += blob.size
        return found

    def row(self, ref: Ref) -> Blob | None:
        """The blob of a reference, if the thread has it."""
        self._pass.require_thread(self._thread_id)
        return (
            Blob.objects.unscoped(Reason.GATE)
            .filter(
                pk=refs.ref_id(ref),
                thread=self._thread_id,
                workspace=self._pass.principal.workspace_id,
            )
            .first()
        )


def _identity(thread_id: UUID, content: bytes, media_type: str) -> tuple[bytes, UUID]:
    """Keyed digest of a content in this thread, and the id that follows from it."""
    mac = hierarchy.thread_keys(thread_id).mac
    digest = keyed_digest(mac, "blob", [media_type, sha256(content).hexdigest()])
    return digest, uuid5(thread_id, digest.hex())
