"""Packing: which branches have steps to pack, and what of a branch is packed.

Full segments are packed as they fill, about a second later (`Backlog`, a duty of the
workers). How one segment is written: `segments`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from itertools import groupby
from uuid import UUID

from django.db import connection

from checkpoints import gate
from checkpoints.access import Reason, SystemPrincipal
from checkpoints.errors import CheckpointsError
from checkpoints.keys import hierarchy
from checkpoints.log.segments import Run, SegmentWriter
from checkpoints.models import Branch, CheckpointDelta, DataKey, Segment
from checkpoints.pure import envelope, segment
from checkpoints.pure.segment import SEGMENT_STEPS

logger = logging.getLogger(__name__)

BATCH = 16  # branches of one turn
AT_ONCE = 8  # segments of one branch in one turn, so that a long import lets others in
TURN = 0.25  # seconds; other duties come after it
LEAVE = 600.0  # seconds until a branch that could not be packed is tried again


def due(limit: int, *, leaving: Collection[UUID] = ()) -> list[UUID]:
    """Branches with a full segment that waits, of threads whose keys live; any order."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE, {"limit": limit, "leaving": list(leaving)})
        return [branch for (branch,) in cursor.fetchall()]


def pack_branch(
    branch_id: UUID,
    *,
    force: bool = False,
    rewrite: bool = False,
    most: int | None = None,
) -> int:
    """Pack the branch's full segments, `most` of them at once; how many were written.

    `force`: also its tail, which makes a short segment. `rewrite`: also seal anew what
    lies under an older data key. Who else packs the branch now has precedence, and what
    they do is not counted. Not to be called in a transaction: what is opened is recorded
    first. Raises Shredded, DecryptionError, and BrokenChain where a step is not as it was
    written; what comes before it has been packed then.
    """
    branch = (
        Branch.objects.unscoped(Reason.PACK).select_related("thread").get(pk=branch_id)
    )
    key = hierarchy.sealing_key(branch.thread_id)
    runs = _waiting(branch, force=force)
    if rewrite:
        runs += _outdated(branch, key)
    if not runs:
        return 0
    runs = runs[:most]
    pass_ = gate.admit(
        SystemPrincipal("pack", branch.workspace_id),
        purpose="pack",
        threads=[branch.thread],
        steps=f"{min(run.first for run in runs)}-{max(run.last for run in runs)}",
    )
    writer = SegmentWriter(pass_, branch, key)
    return sum(writer.write(run) for run in runs)


class Backlog:
    """One process's turns at what is due. What fails is left alone for a while."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[UUID, float] = {}  # branch: when to try again

    def turn(self) -> int:
        """Pack what is due, for as long as a turn lasts; how many segments."""
        now = self._clock()
        self._left = {pk: until for pk, until in self._left.items() if until > now}
        packed = 0
        for branch in due(BATCH, leaving=self._left):
            try:
                packed += pack_branch(branch, most=AT_ONCE)
            except CheckpointsError as error:
                self._left[branch] = now + LEAVE
                logger.error(
                    "a branch was not packed: %s",
                    error,
                    extra={"ids": {"branch": branch}},
                )
            if self._clock() - now > TURN:
                break
        return packed


def _waiting(branch: Branch, *, force: bool) -> list[Run]:
    """The branch's deltas, by the segment that they belong to."""
    steps = (
        CheckpointDelta.objects.unscoped(Reason.PACK)
        .filter(thread_id=branch.thread_id, branch=branch)
        .order_by("step")
        .values_list("step", flat=True)
    )
    runs = []
    for (_, end), group in groupby(steps, segment.bounds):
        first, *_, last = [*group] * 2
        if last == end or force:
            runs.append(Run(first, last))
    return runs


def _outdated(branch: Branch, key: envelope.DataKey) -> list[Run]:
    """The branch's segments that are sealed with another key than this."""
    segments = (
        Segment.objects.unscoped(Reason.PACK)
        .filter(thread_id=branch.thread_id, branch=branch)
        .exclude(data_key=key.id)
        .order_by("first_step")
    )
    return [
        Run(old.first_step, old.last_step, old.pk) for old in segments.defer("record")
    ]


# A shredded thread's steps wait for ever. The index holds what waits, and nothing else.
_DUE = f"""
SELECT d.branch_id
FROM {CheckpointDelta._meta.db_table} d
WHERE d.step %% {SEGMENT_STEPS} = {SEGMENT_STEPS - 1}
  AND NOT EXISTS (
    SELECT FROM {DataKey._meta.db_table} k
    WHERE k.thread_id = d.thread_id AND k.purpose = '{DataKey.Purpose.MAC}'
      AND k.destroyed_at IS NOT NULL
  )
  AND d.branch_id <> ALL (%(leaving)s::uuid[])
GROUP BY d.branch_id
LIMIT %(limit)s
"""  # noqa: S608  # our own names; values are parameters
