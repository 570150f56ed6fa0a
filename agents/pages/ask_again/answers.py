"""The answers that were asked for again of one step, and which of them decide the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from agents.models import Run
from agents.pages import live
from agents.pages.chips import Chips
from agents.pages.damage import DAMAGE, open_each
from agents.pages.thread.cards import Card, card
from agents.pages.thread.place import Place
from agents.pages.thread.trouble import means
from agents.pure.agreement import Decision, decision, groups
from agents.tools import registry
from agents.tools.declared import REASON
from checkpoints.access import UserPrincipal
from checkpoints.gate import Pass
from checkpoints.log import hydrate
from checkpoints.models import Checkpoint, CheckpointDelta

SHOWN = 40  # answers, the newest
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Answer:
    """One run that asked, and the step that it got; or why there is none."""

    run: Run
    row: Checkpoint | None
    why: str = field(default="", repr=False)
    letter: str = ""  # of the decision; empty: there is none, or it does not open

    @property
    def page(self) -> str:
        """The answer on the thread's page; without one, its branch."""
        at = self.row.pk if self.row else None
        return Place(self.run.thread_id, self.run.branch_id, at).page


@dataclass(frozen=True)
class Choice:
    """One decision: what it is, and how many of the answers made it."""

    letter: str
    card: Card = field(repr=False)  # the first answer that made it
    count: int
    percent: int
    first: bool  # the step itself decided so


@dataclass(frozen=True)
class Agreement:
    """What the page shows of the answers. Counted are those that opened."""

    answers: Sequence[Answer]
    choices: Sequence[Choice]
    asked: int  # in all; more than are shown, perhaps
    alike: int  # of `counted`: that decide as the step did
    counted: int
    tokens: int
    cost: Decimal | None

    @property
    def is_live(self) -> bool:
        return any(answer.run.is_live for answer in self.answers)

    @property
    def percent(self) -> int:
        return _percent(self.alike, self.counted)


def asked_again(principal: UserPrincipal, step: UUID) -> list[Run]:
    """The runs that asked it again, the newest first; one more than are shown."""
    return list(
        Run.objects.for_user(principal)
        .filter(asks=step)
        .select_related("branch", "grant", "agent_version__agent")
        .order_by("-created_at", "-pk")[: SHOWN + 1]
    )


def tag(runs: Iterable[Run]) -> str:
    """Changes with what the answers show."""
    return live.tag(f"{run.pk} {run.shown_status} {run.needs_owner}" for run in runs)


def agreement(
    principal: UserPrincipal,
    opened: Pass,
    step: Checkpoint,
    said: dict[str, Any] | None,
    runs: Sequence[Run],
) -> Agreement:
    """Opens the answers that are shown, and no more. `said`: the step's own message."""
    shown = runs[:SHOWN]
    rows = _rows(principal, shown)
    messages = _messages(principal, opened, rows)
    reasoned = _reasoned(shown)
    decided = {
        run: decision(message, reason=REASON, reasoned=reasoned)
        for run, message in messages.items()
    }
    first = None
    if said is not None:
        first = decision(said, reason=REASON, reasoned=reasoned)
    choices, letters = _choices(decided, messages, first, said, Chips(step.thread))
    errors = open_each(opened, shown, "error")
    answers = [
        Answer(
            run,
            rows.get(run.pk),
            why=error or (means(run.error_class) if run.error_class else ""),
            letter=letters.get(decided[run.pk], "") if run.pk in decided else "",
        )
        for run, error in zip(shown, errors, strict=True)
    ]
    costs = [run.cost for run in shown if run.cost is not None]
    total = len(runs)
    if total > SHOWN:
        total = Run.objects.for_user(principal).filter(asks=step.pk).count()
    return Agreement(
        answers,
        choices,
        asked=total,
        alike=sum(each == first for each in decided.values()),
        counted=len(decided),
        tokens=sum(run.tokens for run in shown),
        cost=sum(costs, Decimal(0)) if costs else None,
    )


def message_of(record: dict[str, Any] | None) -> dict[str, Any] | None:
    """The message that a model's step added, of its record or of that as a mapping."""
    for op in reversed(record["ops"] if record else ()):
        match op:
            case ["append", "/messages", {"role": "assistant"} as message]:
                found: dict[str, Any] = message
                return found
    return None


def records(
    principal: UserPrincipal, opened: Pass, rows: Sequence[Checkpoint]
) -> list[dict[str, Any] | None]:
    """What these steps did, in the order given; None for one that does not open.

    Their own records are opened and no others: only of a step that is packed, its
    branch is read. `rows` come with their branches.
    """
    kept = {
        delta.pk: delta
        for delta in CheckpointDelta.objects.for_user(principal).filter(
            pk__in=[row.pk for row in rows]
        )
    }
    found = dict(
        zip(kept, open_each(opened, list(kept.values()), "record"), strict=True)
    )
    return [found[row.pk] if row.pk in found else _packed(opened, row) for row in rows]


def _packed(opened: Pass, row: Checkpoint) -> dict[str, Any] | None:
    try:
        [record] = hydrate.records(opened, row.branch, first=row.step, last=row.step)
    except DAMAGE:
        return None
    return {"ops": record.ops, "context": record.context}


def _rows(principal: UserPrincipal, runs: Sequence[Run]) -> dict[UUID, Checkpoint]:
    """The answer of each run that got one, by the run."""
    found = (
        Checkpoint.objects.for_user(principal)
        .filter(
            branch__in=[run.branch_id for run in runs],
            run__in=[run.pk for run in runs],
            kind=Checkpoint.Kind.MODEL,
        )
        .select_related("branch")
    )
    return {row.run: row for row in found if row.run}


def _messages(
    principal: UserPrincipal, opened: Pass, rows: dict[UUID, Checkpoint]
) -> dict[UUID, dict[str, Any]]:
    """What the answers say, by the run; without those that do not open."""
    read = records(principal, opened, list(rows.values()))
    said = zip(rows, map(message_of, read), strict=True)
    return {run: message for run, message in said if message is not None}


def _reasoned(runs: Sequence[Run]) -> set[str]:
    """Tools whose calls say why they are made, in an argument that is not theirs."""
    names = {run.agent_version.agent.name for run in runs}
    agents = [registry.agent(name) for name in names if name in registry]
    return {tool.name for agent in agents for tool in agent.tools if tool.takes_reason}


def _choices(
    decided: dict[UUID, Decision],
    messages: dict[UUID, dict[str, Any]],
    first: Decision | None,
    said: dict[str, Any] | None,
    chips: Chips,
) -> tuple[list[Choice], dict[Decision, str]]:
    """The distinct decisions, the step's own among them, and a letter for each."""
    runs = list(decided)
    shown = {
        group.decision: (messages[runs[group.places[0]]], group.count)
        for group in groups(list(decided.values()))
    }
    if first is not None and said is not None:
        shown.setdefault(first, (said, 0))
    letters = {each: _letter(place) for place, each in enumerate(shown)}
    choices = [
        Choice(
            letters[each],
            card(message, chips),
            count,
            _percent(count, len(runs)),
            first=each == first,
        )
        for each, (message, count) in shown.items()
    ]
    return choices, letters


def _letter(place: int) -> str:
    """A to Z, then A2 and so on."""
    turn, at = divmod(place, len(LETTERS))
    return LETTERS[at] + (str(turn + 1) if turn else "")


def _percent(part: int, of: int) -> int:
    return round(100 * part / of) if of else 0
