"""Recorded calls whose results are used again: by what a fork chose, or from a cache.

A call that gets a recorded result is not made. Its row says which one stood for it
(`recorded_from`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.db.models import Q

from agents.models import ToolCall
from agents.pure.step import ToolOutcome
from agents.runs.claim import Claim
from agents.tools import Tool
from checkpoints.access import ThreadScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import BadOperation
from checkpoints.gate import Pass
from checkpoints.models import Branch, CheckpointDelta
from checkpoints.pure.codec import State
from checkpoints.pure.ops import Op, fold

Calls = Branch.Calls
Status = ToolCall.Status

SIMULATED = (
    "Simulated: this branch is a what-if, so the call was not made and nothing happened. "
    "Go on as if it had been done."
)


class Reuse:
    """What the calls of the claimed branch get instead of being made."""

    def __init__(self, claim: Claim, opener: Pass) -> None:
        self._branch = claim.branch
        self._principal = claim.principal
        self._opener = opener
        self._choices: dict[str, str] = claim.branch.call_choices or {}

    def in_fork(self, tool: Tool) -> bool:
        """Whether it may become of the call what was chosen when the branch was forked."""
        if self._branch.parent_id is None or tool.of_branch:
            return False
        return tool.has_effects or (bool(self._choices) and tool.effect == "read")

    def is_made(self, row: ToolCall, tool: Tool) -> bool:
        """Whether a call on a fork is made: it is not simulated, nor has it a recorded
        result."""
        if self._branch.calls == Calls.SIMULATE and not self._choices:
            return False  # recorded or not, as instead() finds
        becomes = self._becomes(row, tool)
        return not isinstance(becomes, ToolCall) and becomes != Calls.SIMULATE

    def instead(
        self, row: ToolCall, tool: Tool, title: str, state: State
    ) -> ToolOutcome | None:
        """What a call on a fork gets without being made. None: it is made."""
        match self._becomes(row, tool):
            case ToolCall() as source:
                row.recorded_from = source
                content = self._opener.open(source, "result")
                ops = self._remembered(source, state)
                return ToolOutcome(content, title, tool.name, ops=ops)
            case Calls.SIMULATE:
                simulated = {"simulated": True}
                return ToolOutcome(SIMULATED, title, tool.name, context=simulated)
        return None

    def cached(
        self, row: ToolCall, tool: Tool, title: str, *, within: timedelta
    ) -> ToolOutcome | None:
        """What the same call gave in this thread, if it was made not longer ago."""
        hit = self._fresh(row, within)
        if hit is None:
            return None
        made = hit.result_checkpoint
        assert made is not None  # set with every result
        row.recorded_from = hit
        saved = {"step": made.step, "saved_ms": made.latency_ms or 0}
        content = self._opener.open(hit, "result")
        return ToolOutcome(content, title, tool.name, context={"cached": saved})

    def _becomes(self, row: ToolCall, tool: Tool) -> ToolCall | str:
        """What whoever forked has chosen for the call: the recorded one whose result it
        gets, or that it is simulated, or made (`Branch.Calls`)."""
        # What only looks is made again.
        usual = self._branch.calls if tool.has_effects else Calls.LIVE
        if usual == Calls.LIVE and not self._choices:
            return usual
        recorded = self._recorded(row)
        if recorded is None:
            return Calls.LIVE if usual == Calls.RECORDED else usual
        chosen = self._choices.get(str(recorded.pk))
        if chosen is None and usual != Calls.LIVE:
            return recorded
        return recorded if chosen == Calls.RECORDED else chosen or usual

    def _recorded(self, row: ToolCall) -> ToolCall | None:
        """The same call, as the source branch made it after the fork; each counts once."""
        branch = self._branch
        used = self._calls().filter(branch=branch).exclude(recorded_from=None)
        # Answered, of a call that was begun: people found that it happened.
        happened = Q(status=Status.RESPONDED, attempts__gt=0)
        left = (
            self._same_of_source(row)
            .filter(
                Q(status=Status.SUCCEEDED) | happened,
                result_checkpoint__step__gt=branch.fork_step,
            )
            .exclude(pk__in=used.values("recorded_from"))
            .order_by("result_checkpoint__step")
        )
        return self._not_met(row, left) if self._choices else left.first()

    def is_in_doubt(self, row: ToolCall) -> bool:
        """Whether the source made the same call, and nobody knows what came of it."""
        begun = self._same_of_source(row).filter(attempts__gt=0)
        return begun.filter(status__in=[Status.EXECUTING, Status.UNKNOWN]).exists()

    def _same_of_source(self, row: ToolCall) -> ThreadScopedQuerySet[ToolCall]:
        return self._calls().filter(
            branch=self._branch.parent_id, arguments_digest=row.arguments_digest
        )

    def _not_met(self, row: ToolCall, left: Iterable[ToolCall]) -> ToolCall | None:
        """The first whose turn it is: of those whose result is not used, no row says so,
        but each stood for one earlier call of the fork that used none."""
        left = list(left)
        if not any(map(self._is_passed_over, left)):
            return left[0] if left else None
        same = self._calls().filter(
            branch=self._branch, arguments_digest=row.arguments_digest
        )
        met = same.filter(recorded_from=None).exclude(pk=row.pk).count()
        for each in left:
            if not self._is_passed_over(each):
                return each
            if not met:
                return each
            met -= 1
        return None

    def _is_passed_over(self, call: ToolCall) -> bool:
        """Whether the fork was told not to use this call's result."""
        return self._choices.get(str(call.pk), Calls.RECORDED) != Calls.RECORDED

    def _fresh(self, row: ToolCall, within: timedelta) -> ToolCall | None:
        """The same call as it was last made in this thread, if not longer ago."""
        return (
            self._calls()
            .filter(
                arguments_digest=row.arguments_digest,
                status=Status.SUCCEEDED,
                recorded_from=None,  # made then, not cached itself
                effective=None,  # with these arguments, not with what people made of them
                finished_at__gt=ClockTimestamp() - within,
            )
            .select_related("result_checkpoint")
            .order_by("-finished_at")
            .first()
        )

    def _remembered(self, source: ToolCall, state: State) -> tuple[Op, ...]:
        """What a recorded call changed of working memory, where it fits this state."""
        delta = CheckpointDelta.objects.for_run(self._principal).get(
            pk=source.result_checkpoint_id
        )
        *ops, _ = self._opener.open(delta, "record")[
            "ops"
        ]  # the last appends the result
        try:
            fold(state, ops)
        except BadOperation:
            return ()  # an edit has made something else of it: as the edit has it
        return tuple(ops)

    def _calls(self) -> ThreadScopedQuerySet[ToolCall]:
        return ToolCall.objects.for_run(self._principal)
