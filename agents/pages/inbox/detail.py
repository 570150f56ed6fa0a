"""What the page of one request shows: what would happen, why, and who may decide it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agents.approvals.given import hash_of_shown
from agents.models import Approval, Run, ToolCall
from agents.pages import live
from agents.pages.chips import Chip
from agents.pages.damage import DAMAGE
from agents.pages.inbox.activity import Entry, Said
from agents.pages.inbox.arguments import Argument, as_json, plain
from agents.pages.inbox.guarded import Guarded
from agents.pages.inbox.similar import Similar
from agents.pages.inbox.standing import Standing, in_grace
from agents.pure.terms import Terms
from agents.pure.visible import misleading
from agents.tools import Tool, registry
from checkpoints.models import Checkpoint

BUSY = {ToolCall.Status.WAITING, ToolCall.Status.APPROVED, ToolCall.Status.EXECUTING}
# Approved, and then refused: by the class of that.
_NOT_MADE = {
    "unknown_tool": "the agent's code was without the tool by then",
    "arguments_do_not_fit": "the tool takes other arguments by now",
    "rejected_by_policy": "a policy of the workspace did not allow it by then",
}
STEPS = 3  # before the request, that its page names


@dataclass(frozen=True)
class Detail:
    """What the detail pane shows. `sealed`: the reader may not, or cannot, read state."""

    approval: Approval
    sealed: bool
    why_not: str = ""  # of a sealed one; else of who stands there
    standing: Standing = field(default_factory=Standing)
    title: str = ""
    tool: Tool | None = None  # None where this server does not know it
    proposed: dict[str, Any] = field(default_factory=dict, repr=False)
    effective: dict[str, Any] | None = field(default=None, repr=False)
    arguments: list[Argument] = field(default_factory=list)
    reason: str = ""
    said: list[Said] = field(default_factory=list)
    log: list[Entry] = field(default_factory=list)
    similar: Similar | None = None
    result: Any = None
    kept_apart: Chip | None = None  # the result, where it is a blob
    guarded: Guarded | None = None  # what its guard found
    preview: dict[str, Any] | None = field(default=None, repr=False)
    previewed: Argument | None = (
        None  # the same as text, with what is known of its reading
    )

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments that would run."""
        return self.proposed if self.effective is None else self.effective

    @property
    def lacks_preview(self) -> bool:
        """Whether the tool has one, and it was of the arguments before an edit. Another
        look brings a new one."""
        made = self.tool is not None and self.tool.preview is not None
        edited = self.effective is not None and not self.in_doubt
        return made and edited and self.preview is None

    @property
    def is_preview_due(self) -> bool:
        """Whether who opens the page has another one made. A guard's look brings one."""
        row = self.approval
        untried = row.guard_checked_at is None and not row.is_being_checked
        return self.lacks_preview and self.guarded is None and untried

    @property
    def last(self) -> Said | None:
        return self.said[-1] if self.said else None

    @property
    def gone(self) -> str:
        """What this server's code is without, while that matters: "agent" or "tool"."""
        if not self.approval.is_pending and not self.settling:
            return ""
        name = self.approval.run.agent_version.agent.name
        if name not in registry:
            return "agent"
        tools = [tool.name for tool in registry.agent(name).tools]
        return "" if self.approval.call.tool in tools else "tool"

    @property
    def why_not_made(self) -> str:
        """Of a call that failed: why it was not even begun; empty where it was."""
        return _NOT_MADE.get(self.approval.call.error_class, "")

    @property
    def is_asked_again(self) -> bool:
        """Whether the last decision did not hold when the call was about to be made."""
        again = any(entry.asked == self.approval.revision for entry in self.log)
        return self.approval.is_pending and bool(self.said) and again

    @property
    def may_decide(self) -> bool:
        """Whether the reader may approve, edit or answer."""
        standing = self.standing
        return self.may_reject and not standing.why_not and not standing.gave

    @property
    def may_reject(self) -> bool:
        return (
            self.approval.is_pending
            and not self.sealed
            and not self.standing.why_no_reject
        )

    @property
    def is_rechecked(self) -> bool:
        """Whether what it depends on was found to be something else."""
        guard = Approval.Guard
        return self.approval.guard in (guard.CHANGED, guard.FAILED, guard.INVALID)

    @property
    def options(self) -> list[str]:
        """Answers that the agent offers with its question."""
        offered = self.proposed.get("options") if self.is_question else None
        if not isinstance(offered, list):
            return []
        return [one for one in offered if isinstance(one, str) and one][:20]

    @property
    def shown(self) -> str:
        """A keyed hash of what the page says that will run: the form carries it.

        What no digest of the request binds, its preview, is in it as well.
        """
        what = [self.title, self.approval.risk, self.reason]
        rows = [[row.name, row.text, row.edited] for row in self.arguments]
        try:
            return hash_of_shown(
                self.approval, as_json([what, rows, self.preview])
            ).hex()
        except DAMAGE:
            return ""  # a thread whose key does not open: nothing of it is decided

    @property
    def is_question(self) -> bool:
        return self.approval.kind == Approval.Kind.QUESTION

    @property
    def asks_fields(self) -> bool:
        """Whether it is answered in a form of its tool's, and waits for that."""
        has_form = self.tool is not None and self.tool.response is not None
        return self.is_question and self.approval.is_pending and has_form

    @property
    def in_doubt(self) -> bool:
        """The call was begun, and the question is what came of it."""
        return self.approval.kind == Approval.Kind.UNKNOWN

    @property
    def digest(self) -> str:
        return bytes(self.approval.digest).hex()

    @property
    def terms(self) -> Terms:
        return Terms.of(self.approval.terms)

    @property
    def edits(self) -> int:
        return sum(argument.edited for argument in self.arguments)

    @property
    def long(self) -> list[Argument]:
        """What is longer than the page shows without being opened."""
        return [one for one in self.arguments if one.is_long]

    @property
    def foldable(self) -> list[Argument]:
        """What is folded where it is long, and opened before the call can go ahead."""
        return [*self.arguments, *([self.previewed] if self.previewed else [])]

    @property
    def unread_arguments(self) -> list[Argument]:
        """What an edit asks for: the preview is of the arguments before it."""
        return [one for one in self.long if not one.is_read]

    @property
    def unread(self) -> list[Argument]:
        return [one for one in self.foldable if one.is_long and not one.is_read]

    @property
    def read_query(self) -> str:
        """What was opened, for the address of the page: "read=…&read=…"."""
        return "&".join(f"read={one.token}" for one in self.foldable if one.is_read)

    @cached_property
    def warnings(self) -> list[tuple[str, list[str]]]:
        """Names of arguments, or where else it stands, with what misleads in them.

        A title is made of arguments: what one of them has said already is not repeated.
        """
        arguments = [(one.name, one.warnings) for one in self.arguments]
        said = {text for _, texts in arguments for text in texts}
        found = [
            ("title", [text for text in misleading(self.title) if text not in said]),
            *arguments,
            ("what the agent says", misleading(self.reason)),
        ]
        if self.previewed:
            texts = misleading(self.previewed.text)
            name = self.previewed.name
            found.append((name, [text for text in texts if text not in said]))
        return [(name, texts) for name, texts in found if texts]

    @property
    def what(self) -> str:
        """What the tool does, as its code says: the first paragraph."""
        return self.tool.description.split("\n\n")[0] if self.tool else ""

    @property
    def asks_twice(self) -> bool:
        """Whether a key has to be pressed twice, however much can be seen."""
        return self.approval.risk in (Approval.Risk.HIGH, Approval.Risk.CRITICAL)

    @property
    def steps(self) -> list[Checkpoint]:
        """The steps that led here, oldest first: without their content."""
        found: list[Checkpoint] = []
        step = self.approval.checkpoint.parent
        while step is not None and len(found) < STEPS:
            found.append(step)
            step = step.parent if len(found) < STEPS else None
        return found[::-1]

    @property
    def results(self) -> list[Argument]:
        """A result that is an object, as a table; empty for any other."""
        match self.result:
            case dict():
                return [Argument(name, value) for name, value in self.result.items()]
        return []

    @property
    def result_text(self) -> str:
        return plain(self.result) or as_json(self.result)

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


def tag_of(approval: Approval) -> str:
    """Changes when the pane must be drawn anew."""
    call, run = approval.call, approval.run
    return live.tag(
        [
            *(approval.pk, approval.status, approval.revision, call.status, run.status),
            *(approval.claimed_by_id, approval.assigned_to_id, approval.priority),
            *(approval.guard, approval.guard_asked_at, approval.guard_checked_at),
            in_grace(approval),
            # Who approves one of several changes nothing in its row.
            approval.decisions.count() if approval.approvers > 1 else 0,
        ]
    )
