"""What rules would have made of the calls of the last weeks, before they are saved."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from agents import models
from agents.errors import UnknownAgent, UnknownTool
from agents.models import Approval, ToolCall
from agents.policies.judge import REJECTED, STOPS, proposal
from agents.policies.opened import arguments_of
from agents.policies.stored import drafted
from agents.pure.policies import Rule, Window, added, amount_of, decide
from agents.tools import Tool, registry
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.errors import CheckpointsError
from checkpoints.models import Thread

MOST_CALLS = 2_000  # the newest
SAMPLES = 5  # of each row

Status = ToolCall.Status


@dataclass(frozen=True)
class Row:
    """So many calls of a tool that were treated so, and would be so."""

    tool: str
    was: str  # a kind of `Outcome`
    would_be: str
    count: int
    samples: tuple[UUID, ...]  # calls, the newest first
    rejected: int = 0  # of them, by people

    @property
    def changes(self) -> bool:
        return self.was != self.would_be


@dataclass(frozen=True)
class DryRun:
    """What the rules would have done."""

    rows: tuple[Row, ...]  # what would change first, then by count
    opened: int  # calls
    more: bool = False  # there were more calls than were looked at
    unreadable: int = 0  # their content is gone, or nobody here knows their tool


@dataclass
class _Spent:
    """What the rules would have let go, for their counts and sums."""

    parts: dict[str, list[tuple[datetime, Decimal]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def before(self, at: datetime) -> Callable[[Window], Decimal]:
        def total(window: Window) -> Decimal:
            since = at - timedelta(hours=window.hours)
            return added(
                [amount for when, amount in self.parts[_name(window)] if when > since]
            )

        return total

    def add(self, at: datetime, rules: list[Rule], arguments: dict[str, Any]) -> None:
        windows = {_name(each): each for rule in rules for each in rule.windows}
        for name, window in windows.items():
            if (amount := amount_of(window, arguments)) is not None:
                self.parts[name].append((at, amount))


def dry_run(
    by: UserPrincipal,
    agent: models.Agent | None,
    rules: list[dict[str, Any]],
    *,
    days: int = 30,
) -> DryRun:
    """What these rules, in the place of the agent's or of everyone's, would have made of
    the calls that `by` may see. Opens their arguments through the gate, writes nothing.

    Counts and sums begin at nothing with the oldest call. Raises InvalidPolicy and
    NotPermitted.
    """
    found = _calls(by, agent, days)
    rows, more = found[:MOST_CALLS], len(found) > MOST_CALLS
    threads = [Thread(pk=pk) for pk in {row.thread_id for row in rows}]
    opener = gate.admit(by, purpose="dry run of a policy", threads=threads)
    rows.reverse()
    opened = arguments_of([row.pk for row in rows], opener, by)
    counted: Counter[tuple[str, str, str]] = Counter()
    rejected: Counter[tuple[str, str, str]] = Counter()
    samples: dict[tuple[str, str, str], list[UUID]] = defaultdict(list)
    spent, known, unreadable = _Spent(), _Known(by, agent, rules), 0
    for row, arguments in zip(rows, opened, strict=True):
        tool = known.tool(row)
        if tool is None or arguments is None or isinstance(arguments, CheckpointsError):
            unreadable += 1
            continue
        if tool.question:
            continue
        concerned = known.rules(row, tool)
        before = spent.before(row.created_at)
        outcome = decide(concerned, proposal(tool, arguments), before)
        if outcome.kind == "auto_approve":
            spent.add(row.created_at, concerned, arguments)
        key = (row.tool, _was(row), outcome.kind)
        counted[key] += 1
        rejected[key] += key[1] == "require" and row.status == Status.REJECTED
        samples[key].insert(0, row.pk)
    return DryRun(
        tuple(
            sorted(
                _rows(counted, samples, rejected),
                key=lambda r: (not r.changes, -r.count),
            )
        ),
        opened=len(rows) - unreadable,
        more=more,
        unreadable=unreadable,
    )


def _calls(by: UserPrincipal, agent: models.Agent | None, days: int) -> list[ToolCall]:
    """The newest first, one more than are looked at."""
    calls = (
        ToolCall.objects.for_user(by)
        .filter(created_at__gt=Now() - timedelta(days=days))
        .filter(
            recorded_from=None, branch__parent=None
        )  # forks have rules of their own
        .exclude(status__in=[Status.PROPOSED, Status.SUPERSEDED, Status.SIMULATED])
        .exclude(error_class__in=["arguments_do_not_fit", "unknown_tool"])
        .exclude(tool="")
        .annotate(
            was_asked=Exists(Approval.objects.for_user(by).filter(call=OuterRef("pk")))
        )
        .select_related("run__agent_version__agent")
        # What is sealed is left where it is until it is opened.
        .only(
            *("workspace", "thread", "tool", "status", "error_class", "created_at"),
            "run__agent_version__agent__name",
        )
    )
    if agent is not None:
        calls = calls.filter(run__agent_version__agent=agent)
    return list(calls.order_by("-created_at", "-pk")[: MOST_CALLS + 1])


class _Known:
    """The rules and tools of each agent, looked up once."""

    def __init__(
        self, by: UserPrincipal, agent: models.Agent | None, draft: list[dict[str, Any]]
    ) -> None:
        self._of = by, agent, draft
        self._rules: dict[UUID, tuple[Rule, ...]] = {}
        drafted(by, agent, draft, of=agent)  # so that what is wrong is said in any case

    def rules(self, row: ToolCall, tool: Tool) -> list[Rule]:
        pk = row.run.agent_version.agent_id
        if pk not in self._rules:
            by, agent, draft = self._of
            self._rules[pk] = drafted(by, agent, draft, of=pk)
        return [
            rule
            for rule in self._rules[pk]
            if rule.concerns(tool=tool.name, risk=tool.risk)
        ]

    def tool(self, row: ToolCall) -> Tool | None:
        try:
            return registry.tool(row.run.agent_version.agent.name, row.tool)
        except (UnknownAgent, UnknownTool):
            return None


def _was(row: ToolCall) -> str:
    if row.error_class == REJECTED:
        return "auto_reject"
    if row.error_class == STOPS:
        return "stop_run"
    return "require" if row.was_asked else "auto_approve"  # type: ignore[attr-defined]  # annotated


def _rows(
    counted: Counter[tuple[str, str, str]],
    samples: dict[tuple[str, str, str], list[UUID]],
    rejected: Counter[tuple[str, str, str]],
) -> Iterator[Row]:
    for key, count in counted.items():
        yield Row(*key, count, tuple(samples[key][:SAMPLES]), rejected[key])


def _name(window: Window) -> str:
    return repr(window.of)
