"""Calls with consequences: which may run, which wait for a person, which do neither.

A worker that finds a call `executing` knows that it may have happened. It calls again,
with the same key, where the tool says that this is harmless, or that it did not happen
(`reconcile`); else a person looks, and says what came of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

from agents.approvals.ask import Request, ask
from agents.approvals.verify import EffectiveArguments, verify
from agents.errors import ApprovalInvalid, ArgumentsDoNotFit, UnknownTool
from agents.models import Approval, ToolCall
from agents.models.approvals import ApprovalQuerySet
from agents.pure.engine import Ask, Call, Refuse, RunIt, ToolOutcome
from agents.runs.claim import Claim
from agents.runs.execute import (
    IN_DOUBT,
    CallInDoubt,
    execute,
    once,
    reconcile,
    rest,
)
from agents.runs.ledger import Ledger
from agents.tools import Tool
from checkpoints.blobs import Contents
from checkpoints.failpoints import failpoint
from checkpoints.gate import Pass
from checkpoints.models import Branch
from checkpoints.pure.codec import State, canonical

logger = logging.getLogger(__name__)

CANCELLED = "This call was not run: it was cancelled."
SIMULATED = (
    "Simulated: this branch is a what-if, so the call was not made and nothing happened. "
    "Go on as if it had been done."
)
EDITED = "A person changed the arguments before this ran, to "
IN_FORK = "every call with effects on a fork"

Status = ToolCall.Status


class Effects:
    """The tools of one claimed run, as the engine's step sees them."""

    def __init__(
        self, claim: Claim, opener: Pass, ledger: Ledger, contents: Contents
    ) -> None:
        self.state: State = {}  # the runner sets it before each step
        self._claim = claim
        self._opener = opener
        self._ledger = ledger
        self._tools = {tool.name: tool for tool in claim.agent.tools}
        self._contents = contents
        self._policy = claim.branch.calls
        self._effective: dict[UUID, EffectiveArguments] = {}
        self._fitted: dict[UUID, dict[str, Any]] = {}  # of calls that nobody was asked
        self._called: dict[UUID, ToolOutcome] = {}
        # Calls that were begun: what came of it, None for nothing; or why nobody knows.
        self._found: dict[UUID, ToolOutcome | None] = {}
        self._in_doubt: dict[UUID, str] = {}

    @property
    def schemas(self) -> list[dict[str, Any]]:
        return self._claim.agent.schemas

    def title(self, name: str, arguments: dict[str, Any] | None) -> str:
        return self._ledger.title(name, arguments)

    def consider(self, call: Call) -> RunIt | Ask | Refuse:
        row = self._ledger[call.key]  # the runner proposed it
        tool = self._tools.get(call.name)
        title = self.title(call.name, call.arguments)
        match row.status:
            case Status.SUPERSEDED:
                return Refuse(CANCELLED, title, "cancelled", row.tool)
            case Status.UNKNOWN if self._is_being_asked(row):
                return Ask(title, asked=True)
            case Status.UNKNOWN:
                return Refuse(IN_DOUBT, title, "outcome_unknown", row.tool)
        if tool is None and row.status == Status.EXECUTING:
            return Refuse(IN_DOUBT, title, "outcome_unknown", row.tool)
        if tool is None:
            unknown = UnknownTool(call.name, sorted(self._tools))
            return Refuse(str(unknown), title, unknown.code)
        match row.status:
            case Status.WAITING:
                return Ask(title, asked=True)
            case Status.EXECUTING if row.result is not None:
                return RunIt()  # run() has what came of it
            case Status.EXECUTING if once(tool) and self._must_ask(row, tool, title):
                return Ask(title)
            case Status.EXECUTING if self._found.get(row.pk) is not None:
                return RunIt()  # run() has what came of it
            case Status.APPROVED | Status.EXECUTING if self._was_asked(row):
                return self._verified(row, tool, call, title)
            case Status.EXECUTING:
                return RunIt()
        return self._new(row, tool, call, title)

    def run(self, call: Call) -> ToolOutcome:
        """Raises CallBroke, CallInDoubt, Fenced and StoreUnavailable."""
        row, tool = self._ledger[call.key], self._tools[call.name]
        title = self.title(call.name, call.arguments)
        if (kept := self._ledger.kept(row, self._opener, title=title)) is not None:
            return kept
        if (found := self._found.pop(row.pk, None)) is not None:
            return found
        if row.status == Status.PROPOSED and self._in_fork(tool):
            row.recorded_from = source = self._ledger.recorded(row)
            if source is None:  # consider() lets no other call come here
                assert self._policy == Branch.Calls.SIMULATE
                simulated = {"simulated": True}
                return ToolOutcome(SIMULATED, title, tool.name, context=simulated)
            return ToolOutcome(
                self._opener.open(source, "result"),
                title,
                tool.name,
                ops=self._ledger.remembered(source, self._opener, self.state),
            )
        if tool.cache and (hit := self._ledger.fresh(row, within=tool.cache)):
            return self._from_cache(row, hit, tool, title)
        effective = self._effective.get(row.pk)
        arguments: dict[str, Any] | None = (
            effective.arguments if effective else self._fitted.get(row.pk)
        )
        if arguments is None:
            arguments = self._opener.open(row, "arguments")
        assert arguments is not None  # a call that may run has them
        if row.status == Status.EXECUTING and once(tool):
            rest(row.attempts)  # it did not happen, and broke a moment ago
        if tool.has_effects:
            self._ledger.intend(row)
            failpoint("after intent")
        try:
            outcome = execute(
                tool,
                arguments,
                key=row.pk,
                title=title,
                state=self.state,
                recall=self._contents.restore,
            )
        except CallInDoubt as doubt:
            self._in_doubt[row.pk] = str(doubt)
            raise
        failpoint("after effect")
        if effective and effective.edited:
            told = f"{EDITED}{canonical(arguments).decode()}\n{outcome.content}"
            outcome = replace(outcome, content=told)
        if tool.has_effects:
            self._called[row.pk] = outcome
        return outcome

    def _from_cache(
        self, row: ToolCall, hit: ToolCall, tool: Tool, title: str
    ) -> ToolOutcome:
        made = hit.result_checkpoint
        assert made is not None  # set with every result
        row.recorded_from = hit
        saved = {"step": made.step, "saved_ms": made.latency_ms or 0}
        content = self._opener.open(hit, "result")
        return ToolOutcome(content, title, tool.name, context={"cached": saved})

    def keep(self, key: UUID) -> None:
        """What came of a call with effects is kept, where its step cannot be stored.

        Raises Fenced.
        """
        if (outcome := self._called.get(key)) is not None:
            self._ledger.keep(key, outcome)

    def ask(self, calls: Iterable[Call]) -> None:
        """Write the requests for these calls, in the transaction that is open."""
        requests = []
        for call in calls:
            row, tool = self._ledger[call.key], self._tools[call.name]
            arguments = self._opener.open(row, "arguments")
            if row.pk in self._in_doubt or (once(tool) and self._was_in_doubt(row)):
                why = self._in_doubt.get(row.pk, "")
                tried = self._opener.open(row, "effective") or arguments
                requests.append(Request(row, tool, tried, in_doubt=why))
                continue
            own = tool.requires(tool.fit(call).arguments)
            requests.append(Request(row, tool, arguments, rule="" if own else IN_FORK))
        ask(self._claim.run, requests)

    def _new(
        self, row: ToolCall, tool: Tool, call: Call, title: str
    ) -> RunIt | Ask | Refuse:
        """A call that nothing has happened to yet."""
        try:
            fitted = tool.fit(call)
        except ArgumentsDoNotFit as wrong:
            return Refuse(str(wrong), title, wrong.code, tool.name)
        if tool.question:
            return Ask(title)
        if self._in_fork(tool):
            return self._in_the_fork(row, title)
        if tool.requires(fitted.arguments):
            return Ask(title)
        self._fitted[row.pk] = fitted.arguments  # as the row has them
        return RunIt()

    def _must_ask(self, row: ToolCall, tool: Tool, title: str) -> bool:
        """Whether nobody but a person can say what came of a call that was begun."""
        if row.pk not in self._found:
            try:
                self._found[row.pk] = reconcile(
                    tool,
                    key=row.pk,
                    title=title,
                    state=self.state,
                    tries=row.attempts,
                )
            except CallInDoubt as doubt:
                self._in_doubt.setdefault(row.pk, str(doubt))
                return True
            self._in_doubt.pop(row.pk, None)
        return False

    def _approvals(self, row: ToolCall) -> ApprovalQuerySet:
        return Approval.objects.for_run(self._claim.principal).filter(call=row)

    def _was_asked(self, row: ToolCall) -> bool:
        return self._approvals(row).exists()

    def _was_in_doubt(self, row: ToolCall) -> bool:
        return self._approvals(row).filter(kind=Approval.Kind.UNKNOWN).exists()

    def _is_being_asked(self, row: ToolCall) -> bool:
        """Asked what came of it, and the answer, if there is one, is not taken in yet."""
        given_up = [
            Approval.Status.EXPIRED,
            Approval.Status.SUPERSEDED,
            Approval.Status.CANCELLED,
        ]
        asked = self._approvals(row).filter(kind=Approval.Kind.UNKNOWN)
        return asked.exclude(status__in=given_up).exists()

    def _verified(
        self, row: ToolCall, tool: Tool, call: Call, title: str
    ) -> RunIt | Ask | Refuse:
        """It may run if what was approved still holds; else people are asked again."""
        try:
            self._effective[row.pk] = verify(row, tool=tool, opener=self._opener)
        except ApprovalInvalid:
            logger.warning(
                "an approval does not hold any more", extra={"ids": {"call": row.pk}}
            )
        else:
            return RunIt()
        try:
            tool.fit(call)  # the tool may have changed since people were asked
        except ArgumentsDoNotFit as wrong:
            return Refuse(str(wrong), title, wrong.code, tool.name)
        return Ask(title)

    def _in_the_fork(self, row: ToolCall, title: str) -> RunIt | Ask:
        """Recorded, simulated, or asked about: as whoever forked has chosen."""
        match self._policy:
            case Branch.Calls.SIMULATE:
                return RunIt()
            case Branch.Calls.LIVE:
                return Ask(title)
        return RunIt() if self._ledger.recorded(row) else Ask(title)

    def _in_fork(self, tool: Tool) -> bool:
        return tool.has_effects and self._claim.branch.parent_id is not None
