"""Show that an archive holds a thread whole: every record opens, every link follows.

Everything is asked of the archive; of the database only the thread's keys. In memory
are the steps' MACs and digests (some 200 bytes a step), never their content.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db.models import Model

from checkpoints import gate
from checkpoints.errors import BadArchive, DecryptionError
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.keys import hierarchy
from checkpoints.log import rows
from checkpoints.log.source import Source
from checkpoints.log.step import blobs_of, metadata
from checkpoints.models import (
    Blob,
    Branch,
    Checkpoint,
    CheckpointDelta,
    Segment,
    Thread,
)
from checkpoints.models.fields import SealedField
from checkpoints.pure import chain, envelope, segment
from checkpoints.pure.archived import CHUNK, Row

# Of the pieces of one row's values: a sealed record of 256 MB as Base64, and some more.
MAX_CHARACTERS = 400_000_000

Found = tuple[type[Model], Row, dict[str, bytes]]


def load(lines: Iterable[tuple[str, Row]]) -> Iterator[Found]:
    """Each row's model, its columns' values, and what else its line carried (bytes).

    Raises BadArchive for rows that this release does not know.
    """
    pieces: list[str] = []
    held = 0
    for table, row in lines:
        if table == CHUNK:
            pieces.append(str(row.get("text")))
            held += len(pieces[-1])
            if held > MAX_CHARACTERS:
                raise BadArchive(
                    f"The archive has a row of more than {MAX_CHARACTERS:,} characters."
                )
            continue
        for column, value in row.items():
            if isinstance(value, dict) and value.keys() == {"chunks"}:
                number = value["chunks"]
                if type(number) is not int or not 0 < number <= len(pieces):
                    raise BadArchive(f"A row of {table[:80]} lacks a part of its text.")
                row[column] = "".join(pieces[:number])
                del pieces[:number]
        pieces, held = [], 0
        model = rows.model_named(table)
        if model is None:
            raise BadArchive(
                f"The archive has rows of {table[:80]}, which this release does not"
                " know. Use the release that wrote it, or a newer one."
            )
        try:
            values = rows.from_json(model, row)
            carried = {
                name: rows.from_base64(row[name]) for name in ("object",) if name in row
            }
        except (ValueError, TypeError, ValidationError):
            raise BadArchive(f"A row of {table} in the archive is malformed.") from None
        yield model, values, carried


def verify(pass_: Pass, source: Source) -> Row:
    """The manifest of an archive that is whole, and was written under its thread's keys.

    Raises BadArchive, DecryptionError, Shredded, UnknownKey, MissingObject,
    StoreUnavailable; NotPermitted for a thread that the pass was not made for.
    """
    reader = source.read()
    thread_id = UUID(reader.manifest["thread_id"])
    pass_.require_thread(thread_id)
    pass_.require_right()
    seen = _Seen(thread_id, hierarchy.thread_keys(thread_id).mac)
    for model, values, carried in load(reader):
        seen.take(model, values, carried)
    reader.require_signed(seen.mac_key)
    seen.require_whole(reader.manifest)
    return reader.manifest


@dataclass
class _Seen:
    thread_id: UUID
    mac_key: bytes = field(repr=False)
    keys: dict[UUID, envelope.DataKey] = field(default_factory=dict, repr=False)
    operations: dict[tuple[UUID, int], bytes] = field(default_factory=dict)  # digests
    macs: dict[UUID, bytes] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)
    branches: list[tuple[UUID, UUID | None, bytes]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    blobs: set[UUID] = field(default_factory=set)
    wanted: set[UUID] = field(default_factory=set)  # blobs that steps name

    def take(self, model: type[Model], values: Row, carried: dict[str, bytes]) -> None:
        self.counts[model._meta.label_lower] += 1
        row: Any = model(**values)
        if model in rows.models_of_threads():
            owner = row.pk if model is Thread else row.thread_id
            if owner != self.thread_id:
                raise BadArchive(
                    f"The archive has a row of thread {short(owner)} among those of"
                    f" {short(self.thread_id)}."
                )
        if model is Blob:
            self._open(row, "content", carried.get("object", b""))
            self.blobs.add(row.pk)
        plains = {
            column.attname: self._open(
                row, column.attname, getattr(row, column.attname)
            )
            for column in model._meta.concrete_fields
            if isinstance(column, SealedField)
            and getattr(row, column.attname) is not None
        }
        if model is CheckpointDelta:
            self._operations(row.branch_id, row.step, plains["record"])
        elif model is Segment:
            packed = segment.unpack(plains["record"])
            for step, plain in enumerate(packed.plains, start=packed.first):
                self._operations(row.branch_id, step, plain)
        elif model is Checkpoint:
            self._follow(row)
        elif model is Branch:
            self.heads[str(row.pk)] = f"{row.head_step}:{bytes(row.head_mac).hex()}"
            self.branches.append((row.pk, row.head_id, bytes(row.head_mac)))

    def require_whole(self, manifest: Row) -> None:
        for branch, head, mac in self.branches:
            if head is not None and self.macs.get(head) != mac:
                raise BadArchive(
                    f"The archive does not have the head of branch {short(branch)}."
                )
        if self.operations:
            branch, step = next(iter(self.operations))
            raise BadArchive(
                f"The archive has operations of step {step} of branch {short(branch)},"
                " and not the step."
            )
        if missing := self.wanted - self.blobs:
            raise BadArchive(
                f"The archive does not have blob {short(min(missing))}, which a step names."
            )
        promised = manifest["thread"]
        counted = {label: self.counts[label] for label in promised["rows"]}
        if promised["heads"] != self.heads or promised["rows"] != counted:
            raise BadArchive("The archive does not hold what its first line says.")

    def _open(self, row: Model, column: str, record: bytes) -> bytes:
        key_id = envelope.key_id(record)
        if key_id not in self.keys:
            self.keys |= hierarchy.data_keys([key_id])
        try:
            return envelope.open_sealed(
                record, key=self.keys[key_id], context=gate.context(row, column)
            )
        except DecryptionError as error:
            raise DecryptionError(
                f"{row._meta.verbose_name} {short(row.pk)}, {column}: {error}"
            ) from None

    def _operations(self, branch: UUID, step: int, plain: bytes) -> None:
        if (branch, step) in self.operations:
            raise BadArchive(f"The archive has step {step} of a branch twice.")
        self.operations[branch, step] = sha256(plain).digest()
        self.wanted.update(blobs_of(plain))

    def _follow(self, row: Checkpoint) -> None:
        digest = self.operations.pop((row.branch_id, row.step), None)
        before = chain.START if row.parent_id is None else self.macs.get(row.parent_id)
        name = f"Step {row.step} of branch {short(row.branch_id)}"
        if digest is None or before is None:
            raise BadArchive(f"{name} is not complete in the archive.")
        expected = chain.link_digest(
            self.mac_key,
            before,
            branch=row.branch_id,
            step=row.step,
            parent=row.parent_id,
            metadata=metadata(row.pk, row.kind, row.schema_version, row),
            operations_digest=digest,
        )
        mac = bytes(row.state_mac)
        if not hmac.compare_digest(mac, expected):
            raise BadArchive(f"{name} is not in the archive as it was written.")
        self.macs[row.pk] = mac
