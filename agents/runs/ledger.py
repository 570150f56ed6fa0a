"""The rows of a run's calls: what is intended, and what came of it.

A call's row is written with the reply that proposed the call, goes to `executing` in a
transaction of its own before anything with effects is touched, and gets its result in
the transaction of the step that records it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction

from agents.errors import ArgumentsDoNotFit
from agents.models import Run, ToolCall
from agents.pure.calls import Call
from agents.pure.digest import arguments_digest
from agents.pure.policies import Why
from agents.pure.step import Step, ToolOutcome
from agents.runs import trace
from agents.runs.claim import Claim, Held
from agents.runs.doubt import see_through
from agents.runs.execute import HANGS, SILENT
from agents.tools import Fitted, Tool, titles
from agents.tools.secrets import capture
from checkpoints.access import ThreadScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import Fenced
from checkpoints.gate import Pass, seal_as_holder, seal_bytes
from checkpoints.keys.hierarchy import thread_keys
from checkpoints.models import Branch
from checkpoints.pure.codec import clean, text

Status = ToolCall.Status

TAKEN = "Another worker took the branch before the call."


class Ledger:
    """The calls of the claimed branch that have no result yet."""

    def __init__(self, claim: Claim, *, known: set[UUID]) -> None:
        """`known`: the checkpoints of the branch, through its forks."""
        self._claim = claim
        self._known = known
        assert claim.branch.head_id is not None  # create_thread() writes step 0
        self._head = claim.branch.head_id
        self._tools = {tool.name: tool for tool in claim.agent.tools}
        self._mac = thread_keys(claim.run.thread_id).mac
        self._read: dict[UUID, ToolCall] | None = None
        self._titles: dict[UUID, str] = {}
        self._fitted: dict[UUID, Fitted] = {}
        self._free: dict[UUID, Why] = {}
        self._begun: set[UUID] = set()  # calls that this claim has made

    def __getitem__(self, key: UUID) -> ToolCall:
        return self._rows[key]

    @property
    def _rows(self) -> dict[UUID, ToolCall]:
        """Read when one is asked for."""
        if self._read is None:
            over = [Status.SUCCEEDED, Status.FAILED, Status.REJECTED, Status.RESPONDED]
            rows = self._calls().filter(branch=self._claim.branch)
            self._read = {row.pk: row for row in rows.exclude(status__in=over)}
        return self._read

    def title_of(self, call: Call) -> str:
        """What people read of it."""
        if (known := self._titles.get(call.key)) is None:
            known = self._titles[call.key] = self.title(call.name, call.arguments)
        return known

    def title(self, name: str, arguments: dict[str, Any] | None) -> str:
        """What people read of a call with these arguments."""
        tool = self._tools.get(name)
        return tool.title(arguments) if tool else titles.plain(name, arguments)

    def fitted(self, tool: Tool, call: Call) -> Fitted:
        """As `tool.fit`, once for each call. Raises ArgumentsDoNotFit."""
        if (known := self._fitted.get(call.key)) is None:
            known = self._fitted[call.key] = tool.fit(call)
        return known

    def reload(self) -> None:
        """Read the rows anew: people's decisions change some."""
        self._read = None

    def propose(self, calls: Iterable[Call]) -> None:
        """Write the rows of calls that have none."""
        rows = self.rows(calls)
        if self._claim.agent.checkpoint == "exit":
            self.stored(rows)  # in memory, as their steps
        else:
            self.store(rows)

    def rows(
        self, calls: Iterable[Call], *, reply: UUID | None = None
    ) -> list[ToolCall]:
        """Rows of the calls that have none, not yet stored; `reply` is being committed."""
        if reply is not None:
            self._known.add(reply)
        return [self._row(call) for call in calls if call.key not in self._rows]

    def store(self, rows: Sequence[ToolCall]) -> None:
        if rows:
            # A holder that is being replaced may write the same rows.
            ToolCall.objects.bulk_create(rows, ignore_conflicts=True)
            self.stored(rows)

    def stored(self, rows: Iterable[ToolCall]) -> None:
        """These are in the database now."""
        for row in rows:  # where there are none, nothing is read for them
            self._rows[row.pk] = row

    def take_back(self, reply: UUID) -> None:
        """Forget the rows that were written with a reply that was not committed."""
        self._read = {
            pk: row for pk, row in self._rows.items() if row.reply_id != reply
        }

    def intend(self, row: ToolCall) -> None:
        """Commit that the call is about to happen. Raises Fenced, and Held.

        The lock keeps the branch ours until this is committed: whoever takes it next
        sees the intent. The call's status must be what we judged it by, for the same
        reason the other way round.
        """
        was, attempts = row.status, row.attempts + 1
        why = self._why_of(row)  # before the branch is locked: the log may be asked

        def act() -> None:
            with transaction.atomic():
                self._lock()
                self._require_free()
                begun = trace.BEGIN.row(
                    {
                        "call": row.pk,
                        "workspace": row.workspace_id,
                        "thread": row.thread_id,
                        "run": self._claim.run.pk,
                        "grant": self._claim.run.grant_id,
                        "was": was,
                        "attempts": attempts,
                        "worker": self._claim.run.worker,
                        **trace.values(why),
                    }
                )
                if begun is None:
                    raise Fenced(TAKEN)

        def happened() -> bool:
            with transaction.atomic():
                self._lock()
                intended = self._calls().filter(pk=row.pk, attempts=attempts)
                return intended.filter(status=Status.EXECUTING).exists()

        see_through(act, happened=happened, patience=self._claim.lease)
        row.status, row.attempts, row.error_class = Status.EXECUTING, attempts, ""
        row.worker = self._claim.run.worker
        self._begun.add(row.pk)

    def doubt(self, row: ToolCall, why: str) -> None:
        """Commit why nobody knows what came of a call that was begun, for who takes the
        run next: this claim may end before anybody is asked. One that broke is over; one
        that HANGS may be at work. Raises Fenced."""
        worker = row.worker if why == HANGS else ""

        def act() -> None:
            with transaction.atomic():
                self._lock()
                begun = self._calls().filter(pk=row.pk, status=Status.EXECUTING)
                begun.filter(attempts=row.attempts).update(
                    error_class=why[:60], worker=worker
                )

        # Done twice is done once.
        see_through(act, happened=lambda: False, patience=self._claim.lease)
        row.error_class, row.worker = why[:60], worker

    def at_work(self, row: ToolCall, *, within: timedelta) -> str:
        """Why a call that was begun may be at work yet, though nobody waits for it: HANGS,
        or SILENT; "" where it is not.

        `doubt` says whether it was given up. Where another claim did not come to that,
        its worker may be dead: its supervisor says so (`reaper.end_leases`). Else it may
        be frozen, or cut off from the database, and the call be on its way. And whoever
        is dead may have given it up before: so may any that was begun longer ago than a
        call is waited for, which is `within`.
        """
        if row.error_class in (HANGS, SILENT):
            return row.error_class
        if row.error_class or row.pk in self._begun:  # it broke
            return ""
        if row.worker:
            return SILENT
        now = ClockTimestamp()
        in_time = self._calls().filter(started_at__range=(now - within, now))
        return "" if in_time.filter(pk=row.pk).exists() else HANGS

    def let_go(self, row: ToolCall, why: Why) -> None:
        """What lets the call be made: people, or the policy or rule by which nobody is
        asked (for the log)."""
        self._free[row.pk] = why

    def why(self, row: ToolCall) -> Why | None:
        """Why a call was made, with effects, that is settled now; None: it was not."""
        made = row.status in (Status.SUCCEEDED, Status.FAILED, Status.UNKNOWN)
        if not made or not row.attempts or row.recorded_from_id:
            return None
        return self._why_of(row)

    def _why_of(self, row: ToolCall) -> Why:
        """What let it go: what this claim found, or the one that began it; else the tool's
        own rule, which is code, and asked nobody."""
        if (why := self._free.get(row.pk)) is None:
            tool = self._tools.get(row.tool)
            why = trace.begun(row) if row.attempts else None
            why = why or {"unasked": tool.rule.name if tool and tool.rule else "never"}
            self._free[row.pk] = why
        return why

    def _require_free(self) -> None:
        run = Run.objects.for_run(self._claim.principal).filter(pk=self._claim.run.pk)
        if not run.filter(paused_at=None, workspace__halted_at=None).exists():
            raise Held

    def _lock(self) -> None:
        """Keep the branch ours until the transaction ends. Raises Fenced."""
        branch = self._claim.branch
        ours = Branch.objects.for_run(self._claim.principal).filter(
            pk=branch.pk, fence=branch.fence
        )
        if ours.select_for_update(no_key=True).first() is None:
            raise Fenced(TAKEN)

    def keep(self, key: UUID, outcome: ToolOutcome) -> None:
        """Keep what came of a call whose step cannot be stored now, for the next claim.

        In the call's own row, sealed, whatever its size. Raises Fenced.
        """
        row = self._rows[key]
        values = {name: getattr(outcome, name) for name in _OUTCOME}
        if outcome.cost is not None:
            values["cost"] = format(outcome.cost, "f")
        kept, _ = clean(values)
        kept, _ = capture(kept)
        row.result = seal_bytes(row, "result", text(kept).encode())
        if (
            not self._calls()
            .filter(pk=key, status=Status.EXECUTING)
            .update(result=row.result)
        ):
            raise Fenced("The call is not ours any more.")

    def kept(self, row: ToolCall, opener: Pass, *, title: str) -> ToolOutcome | None:
        """What `keep` kept of this call."""
        if row.status != Status.EXECUTING or row.result is None:
            return None
        values = opener.open(row, "result")
        if values.get("cost") is not None:
            values["cost"] = Decimal(values["cost"])
        return ToolOutcome(title=title, **values | {"ops": tuple(values["ops"])})

    def settle(self, key: UUID, step: Step, result: Any) -> ToolCall:
        """The call's row as it is to be stored with the step that records `result`."""
        row = self._rows[key]
        self._fitted.pop(key, None)
        row.status = _settled(row, step)
        row.result = seal_as_holder(row, "result", result)
        row.error_class = step.error_class
        return row

    def _calls(self) -> ThreadScopedQuerySet[ToolCall]:
        return ToolCall.objects.for_run(self._claim.principal)

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
        row.title = seal_as_holder(row, "title", self.title_of(call))
        row.arguments = seal_as_holder(row, "arguments", arguments)
        if reason:
            row.reason = seal_as_holder(row, "reason", reason)
        row.arguments_digest = arguments_digest(
            self._mac, tool=call.name, version=row.tool_version, arguments=arguments
        )
        return row

    def _proposed(self, tool: Tool | None, call: Call) -> tuple[dict[str, Any], str]:
        """The arguments as they are kept, and the model's reason."""
        if tool is None:
            return call.arguments or {}, ""
        try:
            fitted = self.fitted(tool, call)
        except ArgumentsDoNotFit:
            return call.arguments or {}, ""  # kept as they are: the call is refused
        return fitted.arguments, fitted.reason


def _settled(row: ToolCall, step: Step) -> Status:
    if step.error_class == "outcome_unknown":
        return Status.UNKNOWN
    if row.status == Status.SUPERSEDED:
        return Status.SUPERSEDED
    if step.context and step.context.get("simulated"):
        return Status.SIMULATED
    return Status.FAILED if step.status == "failed" else Status.SUCCEEDED


# Of a call's outcome: its title is made anew.
_OUTCOME = tuple(each.name for each in fields(ToolOutcome) if each.name != "title")
