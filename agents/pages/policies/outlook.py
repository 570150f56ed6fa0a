"""What a dry run says: what the rules of a draft would have done to the last 30 days."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

from agents.models import Approval, ToolCall
from agents.pages.policies.draft import Draft
from agents.pages.policies.scope import Scope
from agents.policies.dry_run import DryRun, dry_run
from checkpoints import gate
from checkpoints.access import UserPrincipal

DAYS = 30
MOST_SAMPLES = 20  # calls that are listed

# What was, or would be, of a call, as the bars have it.
RUN, ASK, REFUSE = "run", "ask", "refused"
KINDS = {
    "auto_approve": RUN,
    "require": ASK,
    "escalate": ASK,
    "auto_reject": REFUSE,
    "stop_run": REFUSE,
}
REJECTED = "rejected"
THAT = {
    RUN: "that ran unasked",
    ASK: "that people were asked about",
    REJECTED: "that people rejected",
    REFUSE: "that a policy refused",
}
WAS = {RUN: "ran unasked", ASK: "was asked about", REFUSE: "was refused"}
VERB = {RUN: "run unasked", ASK: "ask", REFUSE: "be refused"}
CSS = {RUN: "fc c1", ASK: "fc c2", REFUSE: "hot"}


@dataclass(frozen=True)
class Part:
    """Of a bar, in percent."""

    x: float
    width: float
    css: str


@dataclass(frozen=True)
class Bar:
    name: str
    words: str
    parts: list[Part]


@dataclass(frozen=True)
class Line:
    """One change in words, and the tools that it is about."""

    text: str
    tools: list[tuple[str, int]]
    alarm: bool


@dataclass(frozen=True)
class Sample:
    """One call that would go another way, in a thread that the reader sees."""

    call: ToolCall
    approval: Approval | None
    title: str = field(repr=False)  # "" where it is gone or does not open
    was: str
    would_be: str

    @property
    def words(self) -> str:
        return f"{WAS[self.was]} → would {VERB[self.would_be]}"


@dataclass(frozen=True)
class Outlook:
    found: DryRun
    samples: list[Sample]
    days: int = DAYS

    @property
    def opened(self) -> int:
        return self.found.opened

    @cached_property
    def calls(self) -> int:
        return sum(row.count for row in self.found.rows)

    @cached_property
    def bars(self) -> list[Bar]:
        now, then = Counter[str](), Counter[str]()
        for row in self.found.rows:
            now[KINDS[row.was]] += row.count
            then[KINDS[row.would_be]] += row.count
        return [_bar("Was", now), _bar("With these rules", then)]

    @cached_property
    def lines(self) -> list[Line]:
        """Every way in which calls would go elsewhere than they did; alarms first."""
        tools: dict[tuple[str, str], Counter[str]] = {}
        for row in self.found.rows:
            was, would = KINDS[row.was], KINDS[row.would_be]
            if was == would:
                continue
            rejected = row.rejected if would == RUN else 0
            tools.setdefault((was, would), Counter())[row.tool] += row.count - rejected
            tools.setdefault((REJECTED, would), Counter())[row.tool] += rejected
        found = [
            Line(
                _sentence(count.total(), was, group),
                (+count).most_common(),
                alarm=was == REJECTED and group == RUN,
            )
            for (was, group), count in tools.items()
            if count.total()
        ]
        return sorted(found, key=lambda line: not line.alarm)

    @property
    def changed(self) -> int:
        return sum(count for line in self.lines for _, count in line.tools)

    @property
    def alarms(self) -> bool:
        return any(line.alarm for line in self.lines)


def outlook(principal: UserPrincipal, scope: Scope, draft: Draft) -> Outlook:
    """Raises InvalidPolicy. Opens arguments, which is recorded."""
    rules = [dict(rule) for rule in draft.rules]
    found = dry_run(principal, scope.known(principal), rules, days=DAYS)
    return Outlook(found, _samples(principal, found))


def _samples(principal: UserPrincipal, found: DryRun) -> list[Sample]:
    """Some of the calls that would go another way, the newest first."""
    kinds = {
        pk: (KINDS[row.was], KINDS[row.would_be])
        for row in found.rows
        for pk in row.samples
        if KINDS[row.was] != KINDS[row.would_be]
    }
    if not kinds:
        return []
    mine = ToolCall.objects.for_user(principal).filter(pk__in=kinds)
    calls = list(mine.select_related("thread").order_by("-created_at")[:MOST_SAMPLES])
    asked = Approval.objects.for_user(principal).filter(call__in=calls)
    approvals = {approval.call_id: approval for approval in asked}
    threads = {call.thread_id: call.thread for call in calls}.values()
    opener = gate.admit(principal, purpose="dry run of a policy", threads=list(threads))
    return [
        Sample(
            call,
            approvals.get(call.pk),
            title if isinstance(title, str) else "",
            *kinds[call.pk],
        )
        for call, title in zip(calls, opener.open_each(calls, "title"), strict=True)
    ]


def _sentence(count: int, was: str, would: str) -> str:
    calls = "1 call" if count == 1 else f"{count} calls"
    return f"{calls} {THAT[was]} would {VERB[would]}."


def _bar(name: str, counts: Counter[str]) -> Bar:
    total, x, parts = counts.total() or 1, 0.0, []
    for group in (RUN, ASK, REFUSE):
        width = 100 * counts[group] / total
        if width:
            shown = max(0.4, width - 0.4)  # a gap between two parts
            parts.append(Part(round(x, 2), round(shown, 2), CSS[group]))
        x += width
    words = " · ".join(f"{counts[group]} {group}" for group in (RUN, ASK, REFUSE))
    return Bar(name, words, parts)
