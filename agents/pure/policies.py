"""Policies: ordered rules, of which the first that matches says what becomes of a call.

    [{"id": "r1", "name": "Large refunds", "tools": "refund_*", "risks": ["high"],
      "when": {"path": "/amount", "op": "gt", "value": 1000},
      "outcome": "require", "message": "", "risk": "critical",
      "terms": {"approvers": 2, "deadline": 3600}}]

Only `id`, `name` and `outcome` have to be there. `tools` is a glob over the names of
tools, `risks` names what a tool declares, `when` is a predicate as `policy.py` has it,
with counts and sums. docs/policies.md says how to write one.

It fails closed: a predicate that cannot be answered lets nothing go, and a stored rule
that cannot be read asks a person about whatever comes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from fnmatch import fnmatchcase
from typing import Any, Literal
from uuid import UUID

from agents.errors import Problem
from agents.pure import policy, policy_text
from agents.pure.terms import Demand, Terms

__all__ = ["Outcome", "Problem", "Proposal", "Rule", "Window", "decide", "problems"]

Kind = Literal["auto_approve", "require", "auto_reject", "escalate", "stop_run"]

ASKS: frozenset[Kind] = frozenset({"require", "escalate"})
FOUR_EYES = ("starter", "author", "editor")  # excluded, where two or more must approve
_PLAIN = Terms()
_EXACT = Context(prec=2000)  # digits: no sum is rounded


@dataclass(frozen=True)
class Origin:
    """The version of a policy that a rule is in force by."""

    policy: UUID
    version: int
    agent: UUID | None  # None: of every agent


@dataclass(frozen=True)
class Window:
    """What a rule counts, or sums at `path`, over the last hours."""

    agent: UUID | None  # whose policy it is; None: of every agent, all together
    rule: str
    tools: str
    risks: tuple[str, ...]
    path: str | None  # None: it counts
    hours: int

    @property
    def of(self) -> dict[str, Any]:
        """What tells it from others. Neither its length nor the policy's version does."""
        return {
            "agent": str(self.agent or ""),
            "rule": self.rule,
            "tools": self.tools,
            "risks": sorted(self.risks),
            "path": self.path,
        }


@dataclass(frozen=True)
class Proposal:
    """A call as a policy sees it, and what becomes of it where no rule matches."""

    tool: str
    risk: str
    arguments: Mapping[str, Any] = field(repr=False)
    asks: bool  # the tool's own rule, in code
    rule: str = ""  # the name of that
    usual: Terms = _PLAIN


@dataclass(frozen=True)
class Rule:
    """One rule of a policy."""

    id: str
    name: str
    outcome: Kind
    tools: str = "*"
    risks: tuple[str, ...] = ()  # empty: any
    when: Mapping[str, Any] | None = field(default=None, repr=False)
    message: str = ""  # for the agent, or for whoever looks at the stopped run
    risk: str = ""  # of its requests; empty: the tool's
    terms: Terms = _PLAIN
    usual_grace: bool = True  # as the setting says
    readable: bool = True  # False: what is stored is no rule
    origin: Origin | None = field(default=None, compare=False)

    @property
    def windows(self) -> tuple[Window, ...]:
        """What it counts and sums."""
        return tuple(map(self.window, policy.windows(self.when)))

    def window(self, counted: Mapping[str, Any]) -> Window:
        """Of a count or a sum in its predicate."""
        return Window(
            agent=self.origin.agent if self.origin else None,
            rule=self.id,
            tools=self.tools,
            risks=self.risks,
            path=counted.get("sum"),
            hours=counted["over_hours"],
        )

    def concerns(self, *, tool: str, risk: str) -> bool:
        """Whether it speaks about calls of such a tool."""
        return fnmatchcase(tool, self.tools) and (not self.risks or risk in self.risks)

    def as_json(self) -> dict[str, Any]:
        """As a policy stores it."""
        terms = self.terms.as_json()
        if not self.usual_grace:
            terms["grace"] = self.terms.grace
        if self.terms.approvers > 1:
            terms["exclude"] = list(self.terms.exclude)
        return {
            "id": self.id,
            "name": self.name,
            "tools": self.tools,
            "risks": list(self.risks),
            "when": dict(self.when) if self.when is not None else None,
            "outcome": self.outcome,
            "message": self.message,
            "risk": self.risk or None,
            "terms": terms,
        }


# Why a call may run, for the log: of what nobody was asked about ids, versions and rules
# of code; else the people whose approvals count.
Why = Mapping[str, str | int | list[str]]


@dataclass(frozen=True)
class Outcome:
    """What becomes of a call, by which rule, and why."""

    kind: Kind
    rule: Rule | None  # None: none matched, the tool's own rule counts
    terms: Terms = _PLAIN  # where it asks
    message: str = ""  # where it does not go ahead
    why: str = ""
    name: str = ""  # of the rule that asks
    risk: str = ""  # where the rule says another than the tool
    # Where it goes ahead by what a person had remembered: by what, and whose (for the log).
    remembered: Why | None = None

    @property
    def asks(self) -> bool:
        return self.kind in ASKS

    @property
    def demand(self) -> Demand:
        """What is asked of people."""
        origin = self.rule.origin if self.rule else None
        return Demand(
            self.terms,
            self.name,
            policy=origin.policy if origin else None,
            version=origin.version if origin else None,
            rule_id=self.rule.id if self.rule else "",
            risk=self.risk,
            escalated=self.kind == "escalate",
        )


def problems(stored: object) -> list[Problem]:
    """What is wrong with rules as written, each with its place. It never raises."""
    return policy_text.problems(stored)


def rules_of(stored: object, origin: Origin | None = None) -> list[Rule]:
    """The rules of a policy. In the place of what is none, one that asks about all."""
    if not isinstance(stored, list):
        return [_unreadable(0, origin)]
    wrong = {problem.index for problem in problems(stored)}
    if -1 in wrong:
        return [_unreadable(0, origin)]
    return [
        _unreadable(index, origin) if index in wrong else _rule(written, origin)
        for index, written in enumerate(stored)
    ]


def decide(
    rules: Sequence[Rule], call: Proposal, window: Callable[[Window], Decimal | None]
) -> Outcome:
    """What becomes of the call: the first rule that matches says so. It never raises.

    `window` says what was counted or summed before this call; None: nobody knows. What
    cannot be answered is for people: by the terms of the next rule that asks, if no
    other matches before.
    """
    doubt: Rule | None = None
    for rule in rules:
        if not rule.concerns(tool=call.tool, risk=call.risk):
            continue
        holds = _holds(rule, call, window)
        if holds is False:
            continue
        if rule.outcome in ASKS:
            return _asked(rule, call, doubt or (rule if holds is None else None))
        if holds is None:
            doubt = doubt or rule
        elif doubt is not None:
            break
        else:
            return Outcome(
                rule.outcome, rule, message=rule.message, why=f"“{rule.name}” holds."
            )
    if doubt is not None:
        return Outcome(
            "require", doubt, call.usual, why=_in_doubt(doubt), name=doubt.name
        )
    if call.asks:
        why = f"No rule matches; the tool's own, “{call.rule}”, asks."
        return Outcome("require", None, call.usual, why=why, name=call.rule)
    why = "No rule matches, and the tool's own does not ask."
    return Outcome("auto_approve", None, why=why)


def _asked(rule: Rule, call: Proposal, doubt: Rule | None) -> Outcome:
    grace = call.usual.grace if rule.usual_grace else rule.terms.grace
    return Outcome(
        rule.outcome,
        rule,
        replace(rule.terms, grace=grace),
        why=_in_doubt(doubt) if doubt else f"“{rule.name}” holds.",
        name=rule.name,
        risk=rule.risk,
    )


def _in_doubt(rule: Rule) -> str:
    if not rule.readable:
        return f"“{rule.name}” cannot be read, so a person is asked."
    return (
        f"“{rule.name}” cannot be answered for these arguments, so a person is asked."
    )


def _holds(
    rule: Rule, call: Proposal, window: Callable[[Window], Decimal | None]
) -> bool | None:
    if rule.when is None:
        return True if rule.readable else None

    def total(counted: Mapping[str, Any]) -> Decimal | None:
        counts = rule.window(counted)
        amount = amount_of(counts, call.arguments)
        before = None if amount is None else window(counts)
        if amount is None or before is None:
            return None
        return _EXACT.add(before, amount)

    return policy.answer(rule.when, call.arguments, total)


def amount_of(window: Window, arguments: Mapping[str, Any]) -> Decimal | None:
    """What a call adds to a window. None: it cannot be told, or would make room."""
    if window.path is None:
        return Decimal(1)
    amount = policy.number_at(window.path, arguments)
    return amount if amount is not None and amount >= 0 else None


def added(amounts: Sequence[Decimal]) -> Decimal:
    """Their sum, to the last digit."""
    total = Decimal(0)
    for amount in amounts:
        total = _EXACT.add(total, amount)
    return total


def _unreadable(index: int, origin: Origin | None) -> Rule:
    return Rule(
        id=f"unreadable-{index + 1}",
        name=f"rule {index + 1}",
        outcome="require",
        readable=False,
        origin=origin,
    )


def _rule(written: Mapping[str, Any], origin: Origin | None) -> Rule:
    """Of what has no problems."""
    terms = dict(written.get("terms") or {})
    if terms.get("approvers", 1) > 1:
        terms.setdefault("exclude", FOUR_EYES)
    return Rule(
        id=written["id"],
        name=written["name"],
        outcome=written["outcome"],
        tools=written.get("tools") or "*",
        risks=tuple(written.get("risks") or ()),
        when=written.get("when"),
        message=written.get("message") or "",
        risk=written.get("risk") or "",
        terms=Terms.of(terms),
        usual_grace="grace" not in terms,
        origin=origin,
    )
