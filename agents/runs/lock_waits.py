"""Calls that wait for a lock which another run holds: a row each, and no process.

What waits is the run, with its call's row saying for which lock, and until when. It goes
on once the lock is released, at its end, or when it has waited for long enough, whichever
comes first: then the call is made, and takes the lock or is told who has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from agents.models import ToolCall
from agents.runs.claim import Claim
from agents.tools import Tool
from agents.tools.declared import Awaited
from checkpoints.clock import ClockTimestamp, now


class LockWaits:
    """Those of one claimed run."""

    OPEN: ClassVar = (ToolCall.Status.PROPOSED, ToolCall.Status.APPROVED)

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._to_begin: dict[UUID, Awaited] = {}

    def has_to(self, row: ToolCall, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Whether the call, which may be made, waits: from now on, or still."""
        if tool.awaits is None or row.status not in self.OPEN:
            return False
        if self._claim.agent.checkpoint == "exit":
            return False  # it has nothing to go on from
        if row.waits_until is not None and row.waits_until <= now():
            return False
        found = tool.awaits(self._claim.principal, arguments)
        if found is not None and row.waits_for is None:
            self._to_begin[row.pk] = found
        return found is not None

    def begin(self, row: ToolCall) -> bool:
        """Say so in the call's row, in the open transaction. False: it does not begin."""
        found = self._to_begin.pop(row.pk, None)
        if found is None:
            return False
        rows = ToolCall.objects.for_run(self._claim.principal).filter(pk=row.pk)
        rows.update(waits_for=found.lock, waits_until=ClockTimestamp() + found.most)
        return True
