"""Calls with consequences: which may run, which wait for a person, which do neither.

A worker that finds a call `executing` knows that it may have happened. It calls again,
with the same key, where the tool says that this is harmless, or that it did not happen
(`reconcile`); else a person looks, and says what came of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from agents.approvals.ask import Request, ask, demand_of
from agents.approvals.asked import asked_of
from agents.approvals.verify import EffectiveArguments, verify
from agents.errors import ApprovalInvalid, ArgumentsDoNotFit, UnknownTool
from agents.models import Approval, ToolCall
from agents.models.approvals import ApprovalQuerySet
from agents.policies.judge import NOT_ALLOWED, REJECTED, STOPPED, STOPS, Judge
from agents.pure.calls import Call
from agents.pure.policies import Outcome, Why
from agents.pure.step import Ask, Refuse, RunIt, ToolOutcome
from agents.pure.terms import Demand
from agents.runs.claim import Claim
from agents.runs.execute import (
    IN_DOUBT,
    TRIES,
    CallInDoubt,
    Heart,
    execute,
    once,
    reconcile,
    rest,
    seconds_of,
)
from agents.runs.guarded import Guarded
from agents.runs.ledger import Ledger
from agents.runs.lock_waits import LockWaits
from agents.runs.patience import Patience
from agents.runs.reuse import Reuse
from agents.runs.sub_agents import SubAgents
from agents.tools import Tool
from checkpoints.blobs import Contents
from checkpoints.failpoints import failpoint
from checkpoints.gate import Pass
from checkpoints.pure.codec import State, canonical

logger = logging.getLogger(__name__)

CANCELLED = "This call was not run: it was cancelled."
EDITED = "A person changed the arguments before this ran, to "
IN_FORK = "every call with effects on a fork"
MAY_HAVE_HAPPENED = "the same call of the source may have happened"
# An agent that stores one checkpoint at its end has nothing to go on from.
ASKS_NOBODY = (
    "This call was not made: a policy of the workspace asks a person about it, and this"
    " agent cannot wait for one."
)

Status = ToolCall.Status


class Effects:
    """The tools of one claimed run, as the engine's step sees them."""

    def __init__(
        self,
        claim: Claim,
        opener: Pass,
        ledger: Ledger,
        contents: Contents,
        heart: Heart,
        patience: Patience,
    ) -> None:
        self.state: State = {}  # the runner sets it before each step
        self._claim = claim
        self._opener = opener
        self._ledger = ledger
        self._tools = {tool.name: tool for tool in claim.agent.tools}
        self._contents = contents
        self._heart = heart
        self._patience = patience
        self._reuse = Reuse(claim, opener)
        stores = claim.agent.checkpoint == "step"
        self._judge = Judge(claim.run, claim.policies, opener, counts=stores)
        # Of calls that a policy's rule asks about; that end the run: what a policy says.
        self._demands: dict[UUID, Demand] = {}
        self._stopped: dict[UUID, str] = {}
        self._effective: dict[UUID, EffectiveArguments] = {}
        self._fitted: dict[UUID, dict[str, Any]] = {}  # of calls that nobody was asked
        self._called: dict[UUID, ToolOutcome] = {}
        # Calls that were begun: what came of it, None for nothing; or why nobody knows.
        self._found: dict[UUID, ToolOutcome | None] = {}
        self._in_doubt: dict[UUID, str] = {}
        self._guarded = Guarded(claim, opener, heart)
        self._lock_waits = LockWaits(claim)
        self._sub_agents = SubAgents(claim)
        self._to_start: set[UUID] = set()  # calls whose sub-agent may begin

    @property
    def schemas(self) -> list[dict[str, Any]]:
        return self._claim.agent.schemas

    def title(self, name: str, arguments: dict[str, Any] | None) -> str:
        return self._ledger.title(name, arguments)

    def touches_none(self, call: Call) -> bool:
        """Whether it may be begun though the step that asks for it may turn out not to be
        stored: it neither changes nor reads what is outside, and nobody has to look."""
        tool = self._tools.get(call.name)
        if tool is None or tool.effect != "none":
            return False
        return not self._judge.concerns(tool)

    def consider(self, call: Call) -> RunIt | Ask | Refuse:
        """Raises GivenUp."""
        row, tool = self._ledger[call.key], self._tools.get(call.name)
        if tool is not None and tool.awaits is not None:
            return self._awaiting(row, tool, call)
        if tool is None or not tool.delegates or row.status not in SubAgents.OPEN:
            return self._judged(call)
        title = self._ledger.title_of(call)
        if (child := self._sub_agents.child(row)) is not None:
            return Ask(title, asked=True) if child.is_live else RunIt()
        verdict = self._judged(call)
        if not isinstance(verdict, RunIt) or row.pk in self._stopped:
            return verdict
        if self._reuse.in_fork(tool) and row.status == Status.PROPOSED:
            return verdict  # recorded or simulated: people are asked about any other
        if (why := self._sub_agents.refusal(tool)) is not None:
            return Refuse(why, title, "sub_agent_refused", tool.name)
        self._to_start.add(row.pk)
        return Ask(title)

    def _awaiting(self, row: ToolCall, tool: Tool, call: Call) -> RunIt | Ask | Refuse:
        """A call that may have to wait for a lock, once it may be made at all."""
        verdict = self._judged(call)
        if not isinstance(verdict, RunIt) or row.pk in self._stopped:
            return verdict
        effective = self._effective.get(row.pk)
        arguments = effective.arguments if effective else tool.fit(call).arguments
        if not self._lock_waits.has_to(row, tool, arguments):
            return verdict
        return Ask(self._ledger.title_of(call), asked=row.waits_for is not None)

    def _judged(self, call: Call) -> RunIt | Ask | Refuse:
        verdict = self._considered(call)
        row = self._ledger[call.key]
        if row.status == Status.EXECUTING:
            return verdict  # what it did itself would look like a change to its guard
        if isinstance(verdict, Ask) and not verdict.asked:
            tool = self._tools[call.name]
            found = self._guarded.first(row, tool, tool.fit(call).arguments)
            if found is not None:  # what it costs now may be another rule's
                by_policy = self._by_policy(row, tool, found.arguments, verdict.title)
                return by_policy or verdict
        return verdict

    def _considered(self, call: Call) -> RunIt | Ask | Refuse:
        row = self._ledger[call.key]  # the runner proposed it
        tool = self._tools.get(call.name)
        title = self._ledger.title_of(call)
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
            case Status.APPROVED if row.attempts and self._came(row, tool, title):
                return RunIt()  # as above
            case Status.APPROVED | Status.EXECUTING if self._was_asked(row):
                return self._verified(row, tool, call, title)
            case Status.EXECUTING:
                return RunIt()
        return self._new(row, tool, call, title)

    def run(self, call: Call) -> ToolOutcome:
        """Raises CallBroke, CallInDoubt, GivenUp, Fenced and StoreUnavailable."""
        row, tool = self._ledger[call.key], self._tools[call.name]
        title = self._ledger.title_of(call)
        if (stop := self._stopped.get(row.pk)) is not None:
            return ToolOutcome(
                stop, title, tool.name, failed=True, error_class=STOPS, stop=stop
            )
        if (kept := self._ledger.kept(row, self._opener, title=title)) is not None:
            return kept
        if tool.delegates and (child := self._sub_agents.child(row)) is not None:
            return self._sub_agents.outcome(child, tool, title)
        if (found := self._found.pop(row.pk, None)) is not None:
            return found
        if row.status == Status.PROPOSED and self._reuse.in_fork(tool):
            instead = self._reuse.instead(row, tool, title, self.state)
            if instead is not None:
                return instead
            assert not tool.has_effects  # consider() asks about any other
        effective = self._effective.get(row.pk)
        edited = effective is not None and effective.edited
        if tool.cache and not edited:  # people may have changed what it looks for
            cached = self._reuse.cached(row, tool, title, within=tool.cache)
            if cached is not None:
                return cached
        arguments: dict[str, Any] | None = (
            effective.arguments if effective else self._fitted.get(row.pk)
        )
        if arguments is None:
            arguments = self._opener.open(row, "arguments")
        assert arguments is not None  # a call that may run has them
        if tool.has_effects:
            self._opener.require_right()  # not as it was when the last step was stored
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
                heart=self._heart,
                sign=self._patience.quiet_signs(title),
                run=self._claim.principal,
            )
        except CallInDoubt as doubt:
            self._in_doubt[row.pk] = str(doubt)
            failpoint("after giving up")
            self._ledger.doubt(row, str(doubt))
            raise
        failpoint("after effect")
        if edited and call.by_code:
            outcome = replace(outcome, ran_with=arguments)
        elif edited:
            told = f"{EDITED}{canonical(arguments).decode()}\n{outcome.content}"
            outcome = replace(outcome, content=told)
        if tool.has_effects:
            self._called[row.pk] = outcome
        return outcome

    def keep(self, key: UUID) -> None:
        """What came of a call with effects is kept, where its step cannot be stored.

        Raises Fenced.
        """
        if (outcome := self._called.get(key)) is not None:
            self._ledger.keep(key, outcome)

    def ask(self, calls: Iterable[Call]) -> None:
        """Write what these calls wait for, in the transaction that is open: requests, the
        runs of the agents that they are put to, or locks."""
        calls = list(calls)
        starting = [call for call in calls if call.key in self._to_start]
        for call in starting:
            row, tool = self._ledger[call.key], self._tools[call.name]
            effective = self._effective.get(row.pk)
            arguments = effective.arguments if effective else tool.fit(call).arguments
            self._sub_agents.start(row, tool, arguments, among=len(starting))
        requests = []
        for call in calls:
            if call in starting or self._lock_waits.begin(self._ledger[call.key]):
                continue
            row, tool = self._ledger[call.key], self._tools[call.name]
            arguments = self._opener.open(row, "arguments")
            if row.pk in self._in_doubt or (once(tool) and self._was_in_doubt(row)):
                why = self._in_doubt.get(row.pk, "")
                tried = asked_of(self._opener, row)
                requests.append(Request(row, tool, tried, in_doubt=why))
                continue
            own = tool.requires(tool.fit(call).arguments)
            demand = self._demands.get(row.pk)
            if demand is None:
                usual = demand_of(tool)
                demand = usual if own else replace(usual, rule=IN_FORK)
            if self._reuse.in_fork(tool) and self._reuse.is_in_doubt(row):
                demand = replace(demand, rule=f"{demand.rule}; {MAY_HAVE_HAPPENED}")
            look = self._guarded.take(row)
            requests.append(Request(row, tool, arguments, demand, look=look))
        if requests:
            ask(self._claim.run, requests)

    def _new(
        self, row: ToolCall, tool: Tool, call: Call, title: str
    ) -> RunIt | Ask | Refuse:
        """A call that nothing has happened to yet."""
        try:
            fitted = self._ledger.fitted(tool, call)
        except ArgumentsDoNotFit as wrong:
            return Refuse(str(wrong), title, wrong.code, tool.name)
        if tool.question:
            return Ask(title)
        if self._reuse.in_fork(tool):
            if not self._reuse.is_made(row, tool):
                return RunIt()  # run() has what it gets instead
            if tool.has_effects:
                asked = self._by_policy(row, tool, fitted.arguments, title)
                return asked or Ask(title)
        found = self._by_policy(row, tool, fitted.arguments, title, free=True)
        if found is None:
            self._fitted[row.pk] = fitted.arguments  # as the row has them
        return found or RunIt()

    def _by_policy(
        self,
        row: ToolCall,
        tool: Tool,
        arguments: dict[str, Any],
        title: str,
        *,
        free: bool = False,
    ) -> RunIt | Ask | Refuse | None:
        """What policies, or the tool's own rule, make of the call. None: let it go.

        `free`: it may go ahead unasked. Else it is asked about anyway.
        """
        outcome = self._judge.judge(row, tool, arguments, free=free)
        match outcome.kind:
            case "auto_approve":
                if free and (why := _why(outcome)):
                    self._ledger.let_go(row, why)
                return None
            case "auto_reject":
                text = outcome.message or NOT_ALLOWED
                return Refuse(text, title, REJECTED, tool.name)
            case "stop_run":
                self._stopped[row.pk] = outcome.message or STOPPED
                return RunIt()  # run() ends it
        if self._claim.agent.checkpoint == "exit":
            return Refuse(ASKS_NOBODY, title, REJECTED, tool.name)
        self._demands[row.pk] = outcome.demand
        return Ask(title)

    def _must_ask(self, row: ToolCall, tool: Tool, title: str) -> bool:
        """Whether nobody but a person can say what came of a call that was begun."""
        if row.pk not in self._found:
            if tool.reconcile is not None:
                # It may have broken a moment ago, and be on its way still: its tool is
                # asked after that, and the call made at once where it did not happen.
                rest(min(row.attempts, TRIES))
            within = timedelta(seconds=seconds_of(tool))
            # Asked before its tool is, which may take a while to answer.
            at_work = self._ledger.at_work(row, within=within)
            try:
                found = reconcile(
                    tool,
                    key=row.pk,
                    title=title,
                    state=self.state,
                    tries=0 if at_work else row.attempts,
                    heart=self._heart,
                )
            except CallInDoubt as doubt:
                known = at_work or row.error_class
                self._in_doubt.setdefault(row.pk, known or str(doubt))
                return True
            if found is None and at_work:
                self._in_doubt[row.pk] = at_work  # it did not happen yet
                return True
            self._found[row.pk] = found
            self._in_doubt.pop(row.pk, None)
        return False

    def _came(self, row: ToolCall, tool: Tool, title: str) -> bool:
        """Whether a call that people want made again, since it did not happen, has taken
        place by now: it may have been on its way when they looked."""
        if not once(tool) or tool.reconcile is None:
            return False
        if row.pk not in self._found:
            try:
                self._found[row.pk] = reconcile(
                    tool,
                    key=row.pk,
                    title=title,
                    state=self.state,
                    tries=0,
                    heart=self._heart,
                )
            except CallInDoubt:
                return False  # its tool cannot tell; people could
        return self._found[row.pk] is not None

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
        ids = {"ids": {"call": row.pk}}
        # Where its tool was asked, it says that this did not happen.
        begun = row.status == Status.EXECUTING and row.pk not in self._found
        try:
            approved = verify(row, tool=tool, opener=self._opener)
        except ApprovalInvalid:
            logger.warning("an approval does not hold any more", extra=ids)
        else:
            if self._guarded.holds(row, tool, approved.arguments):
                self._effective[row.pk] = approved
                self._ledger.let_go(row, {"approvers": _people(approved)})
                return RunIt()
            logger.warning("what was approved is not so any more", extra=ids)
            if begun:
                return self._doubted(row, title)
            now = self._guarded[row.pk].arguments
            return self._by_policy(row, tool, now, title) or Ask(title)
        if begun:
            return self._doubted(row, title)
        try:
            fitted = tool.fit(call)  # the tool may have changed since people were asked
        except ArgumentsDoNotFit as wrong:
            return Refuse(str(wrong), title, wrong.code, tool.name)
        return self._by_policy(row, tool, fitted.arguments, title) or Ask(title)

    def _doubted(self, row: ToolCall, title: str) -> Ask:
        """A call was begun as people approved it then, and may have happened: they say
        what came of it, not whether it may be made as the agent proposed it."""
        self._in_doubt.setdefault(row.pk, "")
        return Ask(title)


def _why(outcome: Outcome) -> Why | None:
    """What let a call go that nobody is asked about; None: the tool's own rule."""
    if outcome.rule and (origin := outcome.rule.origin):
        return {
            "policy": str(origin.policy),
            "policy_version": origin.version,
            "rule": outcome.rule.id,
        }
    return outcome.remembered


def _people(approved: EffectiveArguments) -> list[str]:
    """Whose approvals count, by user id: not who has lost the right since."""
    said = sorted(approved.approvals, key=lambda each: each.at)
    return [str(each.by_id) for each in said]
