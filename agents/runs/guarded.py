"""When a claimed run has its guards look: before people are asked, and before a call is made.

What was begun is not looked at again: what the call itself did would look like a change.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from agents.approvals import guards
from agents.approvals.guards import Look
from agents.models import Approval, ToolCall
from agents.runs.claim import Claim
from agents.runs.execute import Heart, unwanted
from agents.runs.looks import look
from agents.tools import Tool
from checkpoints.gate import Pass
from checkpoints.pure.codec import same

Status = ToolCall.Status


class Guarded:
    """The looks of one claim, by call."""

    def __init__(self, claim: Claim, opener: Pass, heart: Heart) -> None:
        self._claim = claim
        self._opener = opener
        self._heart = heart
        self._looks: dict[UUID, Look] = {}

    def take(self, row: ToolCall) -> Look | None:
        """What to ask people about, which is asked now; None: the call as it is."""
        return self._looks.pop(row.pk, None)

    def __getitem__(self, call: UUID) -> Look:
        return self._looks[call]

    def first(
        self, row: ToolCall, tool: Tool, arguments: dict[str, Any]
    ) -> Look | None:
        """Look at a call that people are to be asked about, once.

        What was found, where that makes other arguments of them. Raises GivenUp.
        """
        nothing = tool.guard is None and tool.preview is None
        if nothing or row.pk in self._looks:
            return None
        found = self._looks[row.pk] = look(
            tool, arguments, call=row.pk, enough=lambda: unwanted(self._heart)
        )
        return None if same(found.arguments, arguments) else found

    def holds(self, row: ToolCall, tool: Tool, arguments: dict[str, Any]) -> bool:
        """Whether all is still as it was approved, just before the call is made.

        Where it is not, `take` has what to ask about now. Raises GivenUp.
        """
        if tool.guard is None or row.status != Status.APPROVED:
            return True
        approval = Approval.objects.for_run(self._claim.principal).get(call=row)
        if approval.kind != Approval.Kind.APPROVAL:
            return True
        seen = self._opener.open(approval, "guard_seen")
        found = look(
            tool,
            arguments,
            seen,
            before=self._opener.open(approval, "guard_found"),
            call=row.pk,
            enough=lambda: unwanted(self._heart),
        )
        guards.revalidated(
            approval, found, self._claim.principal, revision=approval.revision
        )
        if found.holds and found.is_about(arguments, seen):
            return True
        self._looks[row.pk] = found
        return False
