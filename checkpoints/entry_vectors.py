"""Entries by their meaning: vectors of what they say, made when somebody searches.

Where an embedding model is configured, a search asks it for the vector of what is looked
for, and for those of entries that have none yet, or have one of another version or model.
A run's search keeps what was made, sealed as the entries are; a page only reads, and makes
a few that it does not keep. Nothing else waits for the model: neither who writes an entry
nor a step. Where it does not answer in time, the search goes by words and says so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from django.db import transaction

from checkpoints import gate
from checkpoints.access import RunPrincipal
from checkpoints.errors import NoVectors
from checkpoints.gate import Pass
from checkpoints.models import Entry, EntryVector
from checkpoints.models.entries import EntryVectorQuerySet
from checkpoints.owners import By
from checkpoints.pure.vectors import Vector, nearness, packed, unpacked

SECONDS = 4.0  # that a search waits for the model, in all
BATCH = 64  # texts that it is asked for at once
MOST_MADE = 4  # batches that one search of a run has made; of a page: one
LONGEST = 2_000  # characters of a text that count: models take so much in any script


class Embedder(Protocol):
    """An embedding model."""

    @property
    def model(self) -> str: ...

    def embed(self, texts: Sequence[str], *, seconds: float) -> list[Vector]:
        """A vector for each text. Raises NoVectors."""


@dataclass(frozen=True)
class Text:
    """What the newest version of an entry says."""

    entry: Entry
    version: int
    said: str = field(repr=False)


@dataclass(frozen=True)
class Meaning:
    """How far a search knew meanings."""

    left: int = 0  # entries that went by their words
    trouble: str = ""  # why, where that is the model's doing

    @property
    def note(self) -> str:
        """For who searches; "" where all went by their meaning."""
        if self.trouble:
            return f"{self.trouble} {self._left or 'This was'} searched by words alone."
        if self.left:
            return (
                f"{self._left} searched by words alone; later searches know what"
                f" {'it means' if self.left == 1 else 'they mean'}."
            )
        return ""

    @property
    def _left(self) -> str:
        if not self.left:
            return ""
        return "1 entry was" if self.left == 1 else f"{self.left:,} entries were"


def near(
    by: By, opener: Pass, query: str, texts: Sequence[Text], embedder: Embedder
) -> tuple[dict[int, float], Meaning]:
    """How near each of these texts is to the query, by its place, as far as it is known."""
    until = time.monotonic() + SECONDS
    try:
        [wanted] = embedder.embed([query[:LONGEST]], seconds=SECONDS)
    except NoVectors as trouble:
        return {}, Meaning(len(texts), str(trouble))
    kept = _kept(by, opener, texts, embedder.model)
    # A model that was replaced under its name may give vectors of another length.
    known = {at: one for at, one in kept.items() if len(one) == len(wanted)}
    missing = [at for at in range(len(texts)) if at not in known]
    made: dict[int, Vector] = {}
    said = ""
    keeps = isinstance(by, RunPrincipal)
    for first in range(0, len(missing), BATCH)[: MOST_MADE if keeps else 1]:
        some = missing[first : first + BATCH]
        try:
            given = embedder.embed(
                [texts[at].said[:LONGEST] for at in some],
                seconds=until - time.monotonic(),
            )
        except NoVectors as trouble:
            said = str(trouble)
            break
        fits = zip(some, given, strict=True)
        made |= {at: one for at, one in fits if len(one) == len(wanted)}
    if isinstance(by, RunPrincipal) and made:
        _keep(by, [(texts[at], one) for at, one in made.items()], embedder.model)
    found = {at: nearness(wanted, one) for at, one in (known | made).items()}
    return found, Meaning(len(texts) - len(found), said)


def _kept(by: By, opener: Pass, texts: Sequence[Text], model: str) -> dict[int, Vector]:
    """The vectors there are of these versions, by this model. One that does not open, or
    was moved here from another entry, is none: it is made anew."""
    places = {text.entry.pk: at for at, text in enumerate(texts)}
    rows = list(_seen(by).filter(entry__in=places))
    found: dict[int, Vector] = {}
    for row, content in zip(rows, opener.open_each(rows, "vector"), strict=True):
        at = places[row.pk]
        if not isinstance(content, dict):
            continue
        if (content["version"], content["model"]) == (texts[at].version, model):
            found[at] = unpacked(content["vector"])
    return found


def _seen(by: By) -> EntryVectorQuerySet:
    if isinstance(by, RunPrincipal):
        return EntryVector.objects.for_run(by)
    return EntryVector.objects.for_user(by)


def _keep(by: RunPrincipal, made: Sequence[tuple[Text, Vector]], model: str) -> None:
    """Each in place of the one before. An entry that another writes, or removes, at this
    moment is left to the next search."""
    entries = Entry.objects.for_run(by).filter(
        pk__in=[text.entry.pk for text, _ in made]
    )
    with transaction.atomic():
        locked = entries.select_for_update(skip_locked=True, no_key=True, of=("self",))
        there = set(locked.values_list("pk", flat=True))
        EntryVector.objects.bulk_create(
            [_row(text, one, model) for text, one in made if text.entry.pk in there],
            update_conflicts=True,
            unique_fields=["entry"],
            update_fields=["vector"],
        )


def _row(text: Text, vector: Vector, model: str) -> EntryVector:
    row = EntryVector(entry=text.entry, workspace_id=text.entry.workspace_id)
    content: dict[str, Any] = {"version": text.version, "model": model}
    row.vector = gate.seal(row, "vector", content | {"vector": packed(vector)})
    return row
