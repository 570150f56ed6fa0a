"""Calls with consequences: what may run, and how it is known whether it did.

A call's row is its ledger. It is written with the reply that proposed the call, goes to
`executing` in a transaction of its own before anything with effects is touched, and gets
its result in the transaction of the step. So a worker that finds it `executing` knows
that it may have happened: it calls again, with the same key, only where the tool says
that this is harmless; else the run stops and a person looks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db.models import F

from agents.approvals.ask import Request, ask
from agents.approvals.verify import EffectiveArguments, verify
from agents.errors import ApprovalInvalid, ArgumentsDoNotFit, ToolError, UnknownTool
from agents.failpoints import failpoint
from agents.models import Approval, ToolCall
from agents.pure.digest import arguments_digest
from agents.pure.engine import Ask, Call, Refuse, RunIt, Step, ToolOutcome
from agents.runs.claim import Claim
from agents.tools import Fitted, Tool, ToolContext, titles
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import Fenced
from checkpoints.gate import Pass, seal
from checkpoints.keys.hierarchy import thread_keys
from checkpoints.pure.codec import State, canonical

logger = logging.getLogger(__name__)

TRIES = 3  # of one idempotent call that broke, in one claim
PAUSE = 0.5  # seconds before the second try; doubles

CANCELLED = "This call was not run: it was cancelled."
EDITED = "A person changed the arguments before this ran, to "
IN_FORK = "every call with effects on a fork"
IN_DOUBT = (
    "Whether this happened is not known: the worker stopped, or the connection broke, "
    "after the call had begun. It was not tried again."
)

Status = ToolCall.Status


class Effects:
    """The tools of one claimed run, as the engine's step sees them."""

    def __init__(self, claim: Claim, opener: Pass, *, known: set[UUID]) -> None:
        """`known`: the checkpoints of the branch, through its forks."""
        self.state: State = {}  # the runner sets it before each step
        self._claim = claim
        self._opener = opener
        assert claim.branch.head_id is not None  # create_thread() writes step 0
        self._head = claim.branch.head_id
        self._known = known
        self._tools = {tool.name: tool for tool in claim.agent.tools}
        self._mac = thread_keys(claim.run.thread_id).mac
        self._rows: dict[UUID, ToolCall] = {}
        self._effective: dict[UUID, EffectiveArguments] = {}
        self.reload()

    # What the engine asks

    @property
    def schemas(self) -> list[dict[str, Any]]:
        return self._claim.agent.schemas

    def title(self, name: str, arguments: dict[str, Any] | None) -> str:
        tool = self._tools.get(name)
        return tool.title(arguments) if tool else titles.plain(name, arguments)

    def consider(self, call: Call) -> RunIt | Ask | Refuse:
        row = self._rows[call.key]  # propose() made it
        tool = self._tools.get(call.name)
        title = self._title(call)
        if row.status == Status.SUPERSEDED:
            return Refuse(CANCELLED, title, "cancelled", row.tool)
        if tool is None:
            unknown = UnknownTool(call.name, sorted(self._tools))
            return Refuse(str(unknown), title, unknown.code)
        if row.status == Status.WAITING:
            return Ask(title, asked=True)
        if row.status == Status.EXECUTING and _once(tool):
            return RunIt()  # run() stops it
        if row.status in (Status.APPROVED, Status.EXECUTING) and self._was_asked(row):
            return self._verified(row, tool, call, title)
        if row.status == Status.EXECUTING:
            return RunIt()
        try:
            fitted = tool.fit(call)
        except ArgumentsDoNotFit as wrong:
            return Refuse(str(wrong), title, wrong.code, tool.name)
        if tool.question:
            return Ask(title)
        if self._in_fork(tool):
            return RunIt() if self._recorded(row) else Ask(title)
        return Ask(title) if tool.requires(fitted.arguments) else RunIt()

    def run(self, call: Call) -> ToolOutcome:
        row, tool = self._rows[call.key], self._tools[call.name]
        title = self._title(call)
        if row.status == Status.EXECUTING and _once(tool):
            return self._in_doubt(tool, title)
        if row.status == Status.PROPOSED and self._in_fork(tool):
            source = self._recorded(row)
            assert source is not None  # consider() found it
            row.recorded_from = source
            content: str = self._opener.open(source, "result")
            return ToolOutcome(content, title, tool.name)
        effective = self._effective.get(row.pk)
        arguments: dict[str, Any] = (
            effective.arguments if effective else self._opener.open(row, "arguments")
        )
        if tool.has_effects:
            self._intend(row)
            failpoint("after intent")
        outcome = self._execute(tool, row, arguments, title)
        failpoint("after effect")
        if effective and effective.edited:
            told = f"{EDITED}{canonical(arguments).decode()}\n{outcome.content}"
            return replace(outcome, content=told)
        return outcome

    # What the runner commits

    def propose(self, calls: Iterable[Call], *, reply: UUID | None = None) -> None:
        """Write the rows of calls that have none. `reply`: the step being committed."""
        if reply is not None:
            self._known.add(reply)
        new = [self._row(call) for call in calls if call.key not in self._rows]
        if new:
            ToolCall.objects.bulk_create(new)
            self._rows |= {row.pk: row for row in new}

    def settle(self, key: UUID, step: Step) -> None:
        """Record a call's result with its step, in the transaction that is open."""
        row = self._rows[key]
        row.result = seal(row, "result", step.ops[-1][2]["content"])
        row.result_checkpoint_id = step.id
        row.error_class = step.error_class
        row.status = _settled(row, step)
        row.save(
            update_fields=[
                "result",
                "result_checkpoint",
                "recorded_from",
                "error_class",
                "status",
            ]
        )
        ToolCall.objects.for_run(self._claim.principal).filter(pk=key).update(
            finished_at=ClockTimestamp()
        )

    def ask(self, calls: Iterable[Call]) -> None:
        """Write the requests for these calls, in the transaction that is open."""
        requests = []
        for call in calls:
            row, tool = self._rows[call.key], self._tools[call.name]
            own = tool.rule is not None and tool.requires(tool.fit(call).arguments)
            requests.append(
                Request(
                    row,
                    tool,
                    self._opener.open(row, "arguments"),
                    rule="" if own else IN_FORK,
                )
            )
        ask(self._claim.run, requests)

    def reload(self) -> None:
        """Read the rows anew: decisions have changed some."""
        rows = ToolCall.objects.for_run(self._claim.principal).filter(
            branch=self._claim.branch
        )
        over = [Status.SUCCEEDED, Status.FAILED]
        self._rows = {row.pk: row for row in rows.exclude(status__in=over)}

    # How

    def _row(self, call: Call) -> ToolCall:
        tool = self._tools.get(call.name)
        branch = self._claim.branch
        row = ToolCall(
            id=call.key,
            workspace_id=branch.workspace_id,
            thread_id=branch.thread_id,
            branch_id=branch.pk,
            run_id=self._claim.run.pk,
            # A reply from elsewhere (an import, an edit) has no checkpoint of its own.
            reply_id=call.reply if call.reply in self._known else self._head,
            ordinal=call.ordinal,
            tool=tool.name if tool else "",
            tool_version=tool.version if tool else "",
            effect=tool.effect if tool else ToolCall.Effect.NONE,
        )
        arguments, reason = self._proposed(tool, call)
        row.title = seal(row, "title", self._title(call))
        row.arguments = seal(row, "arguments", arguments)
        if reason:
            row.reason = seal(row, "reason", reason)
        row.arguments_digest = arguments_digest(
            self._mac,
            tool=call.name,
            version=row.tool_version,
            arguments=arguments,
        )
        return row

    def _proposed(self, tool: Tool | None, call: Call) -> tuple[dict[str, Any], str]:
        """The arguments as they are kept, and the model's reason."""
        if tool is None:
            return call.arguments or {}, ""
        try:
            fitted: Fitted = tool.fit(call)
        except ArgumentsDoNotFit:
            return call.arguments or {}, ""  # consider() refuses it
        return fitted.arguments, fitted.reason

    def _title(self, call: Call) -> str:
        return self.title(call.name, call.arguments)

    def _was_asked(self, row: ToolCall) -> bool:
        return Approval.objects.for_run(self._claim.principal).filter(call=row).exists()

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

    def _in_fork(self, tool: Tool) -> bool:
        return tool.has_effects and self._claim.branch.parent_id is not None

    def _recorded(self, row: ToolCall) -> ToolCall | None:
        """The same call, as the source branch made it after the fork; each is used once."""
        branch = self._claim.branch
        calls = ToolCall.objects.for_run(self._claim.principal)
        used = calls.filter(branch=branch).exclude(recorded_from=None)
        return (
            calls.filter(
                branch=branch.parent_id,
                arguments_digest=row.arguments_digest,
                status=Status.SUCCEEDED,
                result_checkpoint__step__gt=branch.fork_step,
            )
            .exclude(pk__in=used.values("recorded_from"))
            .order_by("result_checkpoint__step")
            .first()
        )

    def _intend(self, row: ToolCall) -> None:
        """Commit that the call is about to happen. Raises Fenced."""
        held = ToolCall.objects.for_run(self._claim.principal).filter(
            pk=row.pk, branch__fence=self._claim.branch.fence
        )
        if not held.update(
            status=Status.EXECUTING,
            attempts=F("attempts") + 1,
            started_at=ClockTimestamp(),
        ):
            raise Fenced("Another worker took the branch before the call.")
        row.status = Status.EXECUTING

    def _execute(
        self, tool: Tool, row: ToolCall, arguments: dict[str, Any], title: str
    ) -> ToolOutcome:
        started = time.monotonic()
        for tried in range(1, TRIES + 1):
            context = ToolContext(self.state)
            try:
                content = tool.execute(arguments, key=str(row.pk), context=context)
            except (ToolError, ArgumentsDoNotFit) as refused:
                stop = str(refused) if getattr(refused, "stop", False) else ""
                return ToolOutcome(
                    str(refused),
                    title,
                    tool.name,
                    failed=True,
                    error_class="tool_stopped" if stop else refused.code,
                    stop=stop,
                    latency_ms=_since(started),
                )
            except Exception as error:
                # The edge of foreign code. What it says may be state: into the step only.
                logger.warning(
                    "a tool raised %s",
                    type(error).__name__,
                    extra={"ids": {"call": row.pk, "tool": tool.name}},
                )
                if not tool.has_effects:
                    return _broke(tool, error, title, _since(started))
                if _once(tool) or tried == TRIES:
                    return self._in_doubt(tool, title)
                time.sleep(PAUSE * 2 ** (tried - 1))
            else:
                return ToolOutcome(
                    content,
                    title,
                    tool.name,
                    ops=context.ops,
                    latency_ms=_since(started),
                )
        raise AssertionError("the last try returns")

    def _in_doubt(self, tool: Tool, title: str) -> ToolOutcome:
        return ToolOutcome(
            IN_DOUBT,
            title,
            tool.name,
            failed=True,
            error_class="outcome_unknown",
            stop=f"{title}: {IN_DOUBT[0].lower()}{IN_DOUBT[1:]}",
        )


def _once(tool: Tool) -> bool:
    """Whether a second try could be a second effect."""
    return tool.has_effects and not tool.idempotent


def _broke(tool: Tool, error: Exception, title: str, latency_ms: int) -> ToolOutcome:
    return ToolOutcome(
        f"The tool failed: {type(error).__name__}: {error}",
        title,
        tool.name,
        failed=True,
        error_class="tool_raised",
        latency_ms=latency_ms,
    )


def _settled(row: ToolCall, step: Step) -> Status:
    if step.error_class == "outcome_unknown":
        return Status.UNKNOWN
    if row.status == Status.SUPERSEDED:
        return Status.SUPERSEDED
    return Status.FAILED if step.status == "failed" else Status.SUCCEEDED


def _since(started: float) -> int:
    return int((time.monotonic() - started) * 1000)
