"""A step of a branch, and what came after it, saved as a test case (docs/bundles.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from agents.debug.bundles.restoring import Restoring
from agents.errors import ArgumentsDoNotFit, NoTestCase
from agents.models import Approval, Run, ToolCall
from agents.pure.bundles import file
from agents.pure.bundles.mask import Masks
from agents.pure.bundles.testcase import MADE, REPLIES, final_of, said_calls
from agents.pure.calls import Call
from agents.tools import Agent, registry
from agents.tools.secrets import capture
from checkpoints import audit, clock, gate
from checkpoints.access import Reason, UserPrincipal
from checkpoints.blobs import Contents
from checkpoints.errors import NotStorable
from checkpoints.gate import Pass
from checkpoints.log import hydrate
from checkpoints.log.hydrate import StepRecord
from checkpoints.models import Branch
from checkpoints.pure.ops import Op, fold


def save(branch: Branch, *, step: int, by: UserPrincipal, via: str = "web") -> str:
    """The test case's text: from the state after `step` to the branch's head.

    That it is exported is recorded before anything is opened. Raises NoTestCase,
    NotPermitted, TooLarge, and what `hydrate.read` and reading a blob raise.
    """
    thread = branch.thread
    agent = agent_of(branch)
    if step >= branch.head_step:
        raise NoTestCase(
            f"Nothing follows step {step} on this branch yet. A test case expects again"
            " what the agent did after it: choose an earlier step."
        )
    last = branch.head_step
    seen = gate.admit(by, purpose="export", threads=[thread], steps=f"0-{last}")
    audit.record(
        by,
        "export",
        obj=thread,
        purpose="test case",
        via=via,
        branch=branch.pk,
        step=step,
    )
    history = hydrate.read(seen, branch)
    records = history.records
    restoring = Restoring(Contents(seen, thread.pk))
    start = restoring.state(history.state_at(step), step=step)
    after = list(restoring.steps(records[step + 1 :]))
    end = fold(start, (op for ops in after for op in ops))
    calls = _Calls(branch, seen, agent)
    # Of steps up to the start, which calls they are about is all that is asked.
    ops = [*(record.ops for record in records[: step + 1]), *after]
    made = _all_recorded(records, ops, calls)
    asked, decided = _open_at(made[: step + 1])
    steps = made[step + 1 :]
    if not any(each["kind"] in MADE for each in steps):
        raise NoTestCase(f"The agent did nothing after step {step} on this branch.")
    masks = Masks(capture)
    content = masks.value(
        {
            "agent": agent.name,
            "start": file.folded(start),
            "asked": asked,
            "decided": decided,
            "steps": steps,
            "final": final_of(end),
        }
    )
    manifest = {
        "made_at": clock.now().isoformat(),
        "made_by": by.name,
        "thread": str(thread.pk),
        "step": step,
        "masked": masks.said(),
    }
    try:
        return file.write(file.TEST_CASE, manifest, content, lines=True)
    except NotStorable:
        raise file.too_large("What follows this step") from None


def agent_of(branch: Branch) -> Agent:
    """The agent that last worked on the thread. Raises NoTestCase."""
    runs = Run.objects.unscoped(Reason.GATE).filter(thread=branch.thread_id)
    last = (
        runs.filter(branch=branch).order_by("-created_at").first()
        or runs.order_by("-created_at").first()
    )
    if last is None:
        raise NoTestCase(
            "No agent has worked on this thread here, so there is no code to test."
        )
    name = last.agent_version.agent.name
    if name not in registry:
        raise NoTestCase(f"The agent {name} is in no app that is installed here.")
    agent = registry.agent(name)
    if agent.checkpoint == "exit":
        raise NoTestCase(
            f"The agent {name} stores one checkpoint at its end: there are no steps to"
            " expect again."
        )
    return agent


class _Calls:
    """The branch's calls: which a step is about, and who ruled whether people are asked."""

    def __init__(self, branch: Branch, seen: Pass, agent: Agent) -> None:
        self._seen = seen
        self._tools = {tool.name: tool for tool in agent.tools}
        rows = (
            ToolCall.objects.unscoped(Reason.GATE)
            .filter(thread=branch.thread_id)
            .select_related("approval")
        )
        self._by_key = {str(row.pk): row for row in rows}
        self._by_result = {row.result_checkpoint_id: row for row in rows}

    def of(self, record: StepRecord) -> ToolCall | None:
        row = self._by_result.get(record.id)
        if row is None and record.context:
            row = self._by_key.get(str(record.context.get("call")))
        return row

    def asked_at(self, record: StepRecord, reply: UUID | None) -> list[ToolCall]:
        """Of an interrupt: the calls of the reply before it that it asked about."""
        return [
            row
            for row in self._by_key.values()
            if (row.reply_id, row.branch_id) == (reply, record.branch_id)
            and (asked := _approval(row)) is not None
            and asked.asked_at >= record.created_at
        ]

    def is_ruled(self, row: ToolCall) -> bool:
        """Whether something else than the tool's own rule, as it is still, decided."""
        tool = self._tools.get(row.tool)
        if tool is None or tool.version != row.tool_version:
            return False
        arguments = self._seen.open(row, "arguments")
        call = Call(row.pk, row.reply_id, row.ordinal, "", row.tool, arguments)
        try:
            own = tool.question or tool.requires(tool.fit(call).arguments)
        except ArgumentsDoNotFit:
            return False
        return own != (_approval(row) is not None)


def _approval(row: ToolCall) -> Approval | None:
    found: Approval | None = getattr(row, "approval", None)
    return found


def _all_recorded(
    records: Sequence[StepRecord], every: list[list[Op]], calls: _Calls
) -> list[dict[str, Any]]:
    found = []
    reply: UUID | None = None
    for record, ops in zip(records, every, strict=True):
        reply = record.id if record.kind in REPLIES else reply
        found.append(_recorded(record, ops, calls, reply))
    return found


def _open_at(steps: list[dict[str, Any]]) -> tuple[list[int], list[int]]:
    """Calls of the last reply that people were asked about, and have decided."""
    asked: set[int] = set()
    decided: set[int] = set()
    for step in steps:
        if step["kind"] in REPLIES:
            asked, decided = set(), set()
        asked.update(step["asked"])
        if step["kind"] == "decision" and step["ordinal"] is not None:
            decided.add(step["ordinal"])
    return sorted(asked), sorted(decided)


def _recorded(
    record: StepRecord, ops: list[Op], calls: _Calls, reply: UUID | None
) -> dict[str, Any]:
    row = calls.of(record)
    asked = calls.asked_at(record, reply) if record.kind == "interrupt" else []
    about = [row] if row is not None and record.kind != "decision" else asked
    return {
        "step": record.step,
        "kind": record.kind,
        "status": record.status,
        "name": record.name,
        "error_class": record.error_class,
        "ordinal": None if row is None else row.ordinal,
        "asked": sorted(each.ordinal for each in asked),
        "ruled": sorted(each.ordinal for each in about if calls.is_ruled(each)),
        "calls": said_calls(_reply(ops)) if record.kind in REPLIES else [],
        "ops": file.folded(ops),
    }


def _reply(ops: list[Op]) -> Mapping[str, Any] | None:
    return next((op[2] for op in ops if op[:2] == ["append", "/messages"]), None)
