"""The proposed arguments of many calls, opened one by one: each may be a megabyte.

A look back over the last weeks reads thousands of calls and keeps of each what it came
to. All of them opened at once would be gigabytes; so what is in memory is one call, and
the records of a few, which are smaller: they are compressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import F, Func, IntegerField

from agents.models import ToolCall
from checkpoints.access import UserPrincipal
from checkpoints.gate import Pass

BATCH_CALLS = 200
BATCH_BYTES = 2**22  # sealed; one call that is larger is a batch by itself


def arguments_of(
    calls: Sequence[UUID], opener: Pass, by: UserPrincipal
) -> Iterator[Any]:
    """Of each of these calls, in this order: its arguments, None where there are none or
    it is gone, or the error in the place of what does not open (`Pass.open_each`).

    `opener` is for their threads, and of `by`. Raises NotPermitted.
    """
    mine = ToolCall.objects.for_user(by)
    size = Func(F("arguments"), function="octet_length", output_field=IntegerField())
    sizes = dict(mine.filter(pk__in=calls).values_list("pk", size))
    for batch in _batches(calls, sizes):
        rows = mine.only("workspace_id", "thread_id", "arguments").in_bulk(batch)
        found = [rows[pk] for pk in batch if pk in rows]
        opened = opener.one_by_one(found, "arguments")
        for pk in batch:
            yield next(opened) if pk in rows else None


def _batches(
    calls: Sequence[UUID], sizes: Mapping[UUID, int | None]
) -> Iterator[list[UUID]]:
    batch: list[UUID] = []
    held = 0
    for pk in calls:
        size = sizes.get(pk) or 0
        if batch and (len(batch) == BATCH_CALLS or held + size > BATCH_BYTES):
            yield batch
            batch, held = [], 0
        batch.append(pk)
        held += size
    if batch:
        yield batch
