"""What becomes of a call that nothing has happened to yet: the workspace's policies say.

A worker asks for each such call, in its claim of the run. Whatever goes ahead, or does
not, by a rule of a policy is audited with the rule and the policy's version.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db import transaction

from agents.approvals.ask import demand_of
from agents.models import Run, ToolCall
from agents.policies import recalled, windows
from agents.policies.stored import InForce, refreshed
from agents.pure.policies import Outcome, Proposal, Rule, Window, decide
from agents.tools import Tool
from checkpoints import audit
from checkpoints.access import RunPrincipal
from checkpoints.gate import Pass

NOT_ALLOWED = "A policy of the workspace does not allow this call."
STOPPED = "A policy of the workspace stops runs that want to make this call."
REJECTED = "rejected_by_policy"  # what is said of the call,
STOPS = "stopped_by_policy"  # and of the run


def proposal(tool: Tool, arguments: dict[str, Any]) -> Proposal:
    """A call of the tool, as policies see it."""
    usual = demand_of(tool)
    return Proposal(
        tool=tool.name,
        risk=tool.risk,
        arguments=arguments,
        asks=tool.requires(arguments),
        rule=usual.rule,
        usual=usual.terms,
    )


class Judge:
    """Knows the policies that count for one run."""

    def __init__(
        self, run: Run, in_force: InForce, opener: Pass, *, counts: bool = True
    ) -> None:
        """`in_force`: as it was when the run was taken. `counts`: calls have rows, so
        that it can be written down what they add to a count or a sum.
        """
        self._run = run
        self._in_force = in_force
        self._opener = opener
        self._counts = counts
        self._principal = RunPrincipal(
            run_id=run.pk,
            workspace_id=run.workspace_id,
            thread_id=run.thread_id,
            grant_id=run.grant_id,
        )

    def concerns(self, tool: Tool) -> bool:
        """Whether any rule speaks about the tool."""
        return bool(self._rules(tool))

    def judge(
        self, row: ToolCall, tool: Tool, arguments: dict[str, Any], *, free: bool = True
    ) -> Outcome:
        """What becomes of this call now. Not in a transaction.

        `free`: it may go ahead unasked, and if that is the outcome, it is taken to have
        done so; else that outcome says only that no policy objects.
        """
        if tool.has_effects:  # what matters is looked at again
            self._in_force = refreshed(self._in_force)
        call, rules = proposal(tool, arguments), self._rules(tool)
        counted = windows.of_rules(rules)
        if not (counted and self._counts):
            outcome = decide(rules, call, _unknown)
            if free and outcome.asks and not counted:
                outcome = self._remembered(row, tool, arguments, outcome)
            self._record(row, outcome, free=free)
            return outcome
        with transaction.atomic():
            if free:
                windows.lock(row.workspace_id, counted)
            totals = windows.Totals(row.workspace_id, self._opener, row.pk)
            outcome = decide(rules, call, totals)
            if free and outcome.kind == "auto_approve":
                windows.let_go(row, arguments, counted, self._opener)
            self._record(row, outcome, free=free)
        return outcome

    def _remembered(
        self, row: ToolCall, tool: Tool, arguments: dict[str, Any], outcome: Outcome
    ) -> Outcome:
        """It goes ahead where somebody approved such a call before, and said so.

        Not where calls are counted: then each is looked at.
        """
        agent = self._in_force.agent
        if agent is None or not self._counts:
            return outcome
        rule = recalled.lets_go(
            row,
            tool,
            arguments,
            outcome.demand,
            run=self._run,
            agent=agent,
            opener=self._opener,
        )
        if rule is None:
            return outcome
        return Outcome(
            "auto_approve",
            None,
            why="Such a call was approved before.",
            remembered=recalled.why(rule, outcome.demand),
        )

    def _rules(self, tool: Tool) -> list[Rule]:
        return [
            rule
            for rule in self._in_force.rules
            if rule.concerns(tool=tool.name, risk=tool.risk)
        ]

    def _record(self, row: ToolCall, outcome: Outcome, *, free: bool) -> None:
        rule = outcome.rule
        if (
            rule is None
            or outcome.asks
            or (outcome.kind == "auto_approve" and not free)
        ):
            return
        audit.record(
            self._principal,
            outcome.kind,
            obj=row,
            via="worker",
            policy=rule.origin.policy if rule.origin else None,
            policy_version=rule.origin.version if rule.origin else None,
            rule=rule.id,
        )


def _unknown(window: Window) -> Decimal | None:
    return None
