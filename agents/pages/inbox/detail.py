"""One request, opened: what would happen, why, who may decide it, and what was said."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agents.approvals.decide import ineligible
from agents.errors import UnknownAgent, UnknownTool
from agents.models import Approval, Decision, Run, ToolCall
from agents.pages import live
from agents.pages.chips import Chip, Chips
from agents.pages.damage import DAMAGE
from agents.tools import registry
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.log import content
from checkpoints.pure import codec

BUSY = {ToolCall.Status.WAITING, ToolCall.Status.APPROVED, ToolCall.Status.EXECUTING}


@dataclass(frozen=True)
class Argument:
    """One row of the arguments' table. `was` is what the agent had proposed."""

    name: str
    value: Any
    was: Any = None
    edited: bool = False

    @property
    def plain(self) -> str | None:
        """The value as a line of text, or None where it has a structure."""
        return _plain(self.value)

    @property
    def plain_was(self) -> str | None:
        return _plain(self.was)


WORDS = {
    Decision.Verdict.APPROVE: ("Approved", "check"),
    Decision.Verdict.EDIT: ("Approved with edits", "write"),
    Decision.Verdict.REJECT: ("Rejected", "x"),
    Decision.Verdict.RESPOND: ("Answered", "send"),
}


# About a call of which nobody knew what came of it.
IN_DOUBT_WORDS = {
    **WORDS,
    Decision.Verdict.APPROVE: ("Told to run it again", "retry"),
    Decision.Verdict.REJECT: ("Left in doubt", "ask"),
    Decision.Verdict.RESPOND: ("Found to have happened", "check"),
}


@dataclass(frozen=True)
class Said:
    """A decision with its opened content: reason, response or edited arguments."""

    decision: Decision
    in_doubt: bool = False
    reason: str = ""
    response: Any = None

    @property
    def words(self) -> str:
        return self._look[0]

    @property
    def icon(self) -> str:
        return self._look[1]

    @property
    def _look(self) -> tuple[str, str]:
        words = IN_DOUBT_WORDS if self.in_doubt else WORDS
        return words[Decision.Verdict(self.decision.verdict)]

    @property
    def who(self) -> str:
        return self.decision.by.get_full_name() or self.decision.by.get_username()

    @property
    def answer(self) -> str:
        return (
            ""
            if self.response is None
            else _plain(self.response) or _text(self.response)
        )


@dataclass(frozen=True)
class Detail:
    """What the detail pane shows. `sealed`: the reader may not, or cannot, read state."""

    approval: Approval
    sealed: bool
    why_not: str = ""
    title: str = ""
    proposed: dict[str, Any] = field(default_factory=dict)
    arguments: list[Argument] = field(default_factory=list)
    reason: str = ""
    said: list[Said] = field(default_factory=list)
    result: Any = None
    kept_apart: Chip | None = None  # the result, where it is a blob

    @property
    def last(self) -> Said | None:
        return self.said[-1] if self.said else None

    @property
    def may_decide(self) -> bool:
        return self.approval.is_pending and not self.why_not

    @property
    def is_question(self) -> bool:
        return self.approval.kind == Approval.Kind.QUESTION

    @property
    def in_doubt(self) -> bool:
        """The call was begun, and the question is what came of it."""
        return self.approval.kind == Approval.Kind.UNKNOWN

    @property
    def digest(self) -> str:
        return bytes(self.approval.digest).hex()

    @property
    def edits(self) -> int:
        return sum(argument.edited for argument in self.arguments)

    @property
    def results(self) -> list[Argument]:
        """A result that is an object, as a table; empty for any other."""
        match self.result:
            case dict():
                return [Argument(name, value) for name, value in self.result.items()]
        return []

    @property
    def result_text(self) -> str:
        return _plain(self.result) or _text(self.result)

    @property
    def tag(self) -> str:
        return tag_of(self.approval)

    @property
    def settling(self) -> bool:
        """Decided, and the worker has not yet recorded what came of it."""
        approval = self.approval
        return not approval.is_pending and (
            approval.call.status in BUSY or approval.run.status in Run.LIVE
        )


def find(principal: UserPrincipal, pk: UUID) -> Approval | None:
    """The request, with the rows that its page names; None for a stranger's."""
    return (
        Approval.objects.for_user(principal)
        .filter(pk=pk)
        .select_related(
            "thread",
            "branch",
            "call",
            "run__agent_version__agent",
            "checkpoint",
            "decided_by",
        )
        .first()
    )


def open_request(principal: UserPrincipal, approval: Approval) -> Detail:
    """Open a request for its page; the opening is recorded."""
    if not principal.may_read:
        return Detail(
            approval, sealed=True, why_not="Your role reads the audit log, not state."
        )
    try:
        return _opened(principal, approval)
    except DAMAGE as damage:
        why_not = f"This request cannot be opened. {damage}"
        return Detail(approval, sealed=True, why_not=why_not)


def _opened(principal: UserPrincipal, approval: Approval) -> Detail:
    opened = gate.admit(principal, purpose="approval", threads=[approval.thread])
    call = approval.call
    if approval.thread.pruned_at is not None:
        content.explain(approval.thread_id)
    proposed = opened.open(call, "arguments")
    effective = opened.open(call, "effective")
    result = opened.open(call, "result")
    kept_apart = Chips(approval.thread).of(result)
    return Detail(
        approval=approval,
        sealed=False,
        why_not=ineligible(approval, principal) if approval.is_pending else "",
        title=opened.open(call, "title"),
        proposed=proposed,
        arguments=_table(_in_order(approval, proposed), effective),
        reason=opened.open(call, "reason") or "",
        said=[
            _said(decision, opened.open(decision, "content"))
            for decision in approval.decisions.select_related("by").order_by("at")
        ],
        result=None if kept_apart else _result(result),
        kept_apart=kept_apart,
    )


def tag_of(approval: Approval) -> str:
    """Changes when the pane must be drawn anew."""
    call, run = approval.call, approval.run
    return live.tag(
        [approval.pk, approval.status, approval.revision, call.status, run.status]
    )


def _in_order(approval: Approval, arguments: dict[str, Any]) -> dict[str, Any]:
    """As the tool declares them; storage sorts the names."""
    name = approval.run.agent_version.agent.name
    try:
        declared = registry.tool(name, approval.call.tool).schema["properties"]
    except (UnknownAgent, UnknownTool):
        return arguments
    first = {key: arguments[key] for key in declared if key in arguments}
    return first | arguments


def _table(
    proposed: dict[str, Any], effective: dict[str, Any] | None
) -> list[Argument]:
    if effective is None:
        return [Argument(name, value) for name, value in proposed.items()]
    names = list(dict.fromkeys([*proposed, *effective]))
    return [
        Argument(
            name,
            effective.get(name),
            was=proposed.get(name),
            edited=proposed.get(name) != effective.get(name),
        )
        for name in names
    ]


def _result(content: Any) -> Any:
    """What the tool gave: results are kept as the text that the model was sent."""
    if not isinstance(content, str):
        return content
    try:
        return json.loads(content)
    except ValueError:
        return content


def _plain(value: Any) -> str | None:
    match value:
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case None:
            return "none"
        case int() | float():
            return codec.canonical(value).decode()
    return None


def _text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _said(decision: Decision, content: dict[str, Any] | None) -> Said:
    content = content or {}
    return Said(
        decision,
        in_doubt=bool(content.get("in_doubt")),
        reason=content.get("reason", ""),
        response=content.get("response"),
    )
