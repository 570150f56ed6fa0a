"""Golden paths: conversations that went well, as examples for fine-tuning (docs/trajectories.md).

Which runs those are is asked in SQL, of what is stored in clear. Each is opened through the
gate, shown to be what was written, and exported with secrets masked: that it was is in the audit
log before it is opened.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TextIO

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery

from agents.models import Approval, Decision, Run
from agents.pure import trajectory
from agents.pure.bundles.mask import Masks
from agents.tools import registry
from agents.tools.secrets import capture
from checkpoints import audit, gate
from checkpoints.access import UserPrincipal
from checkpoints.blobs import Contents
from checkpoints.errors import CheckpointsError
from checkpoints.log import hydrate
from checkpoints.models import Checkpoint, Remark
from checkpoints.pure import codec
from checkpoints.pure.codec import State

MOST = 10_000  # runs of one export
LOOKED = 50  # runs of a preview, opened to say what an export would leave out,
SECONDS = 2.0  # for so long
SHOWN = 3  # examples of a preview

_Kind = Remark.Kind
_WITH = ("thread", "branch__thread", "agent_version__agent")
_CHANGED = (Decision.Verdict.EDIT, Decision.Verdict.REJECT)


@dataclass(frozen=True)
class Wanted:
    """Which runs. What is left as it is does not narrow them."""

    agent: str = ""
    version: int | None = None
    outcome: str = Run.Status.SUCCEEDED
    verdict: str = ""  # "good" or "bad": the newest of the branch, else of the thread
    most_cost: Decimal | None = None  # US dollars; of a run whose cost is known
    unedited: bool = False  # people neither edited nor rejected anything in its thread
    cheapest: bool = False  # of those with the same first message, the cheapest one
    most: int = MOST


@dataclass
class Report:
    """What came of an export."""

    examples: int = 0
    characters: int = 0
    left_out: dict[str, int] = field(default_factory=dict)  # why → how many
    secrets: list[str] = field(default_factory=list)

    def leave(self, why: str) -> None:
        self.left_out[why] = self.left_out.get(why, 0) + 1


def runs(wanted: Wanted, by: UserPrincipal) -> QuerySet[Run]:
    """The runs that are wanted and that `by` may see: the newest first, or the cheapest."""
    found = Run.objects.for_user(by).filter(status=wanted.outcome, asks=None)
    if wanted.agent:
        found = found.filter(agent_version__agent__name=wanted.agent)
    if wanted.version is not None:
        found = found.filter(agent_version__number=wanted.version)
    if wanted.most_cost is not None:
        found = found.filter(cost__lte=wanted.most_cost)
    if wanted.unedited:
        # Of the thread: the conversation has what earlier runs did, and branches share.
        asked = Approval.objects.for_user(by).filter(thread=OuterRef("thread"))
        changed = asked.filter(decisions__verdict__in=_CHANGED)
        found = found.exclude(Exists(changed))
    if wanted.verdict:
        said = Remark.objects.for_user(by).verdicts().filter(thread=OuterRef("thread"))
        # The branch's own counts before the thread's.
        own = said.filter(branch=OuterRef("branch"), checkpoint=None)
        whole = said.filter(branch=None)
        found = found.alias(
            own=Subquery(own.reverse().values("kind")[:1]),
            whole=Subquery(whole.reverse().values("kind")[:1]),
        ).filter(Q(own=wanted.verdict) | Q(own=None, whole=wanted.verdict))
    newest = found.order_by("-created_at", "-pk")[: wanted.most]
    if not wanted.cheapest:
        return newest.select_related(*_WITH)
    return (
        Run.objects.for_user(by)
        .filter(pk__in=newest.values("pk"))
        .select_related(*_WITH)
        .order_by(F("cost").asc(nulls_last=True), "steps", "-created_at", "-pk")
    )


def write(
    wanted: Wanted, by: UserPrincipal, out: TextIO, *, via: str = "web"
) -> Report:
    """Write an example a line. What cannot be one is left out, and counted by why.

    Raises NotPermitted for who may not read threads.
    """
    report = Report()
    for line in lines(wanted, by, report, via=via):
        out.write(line)
    return report


def lines(
    wanted: Wanted, by: UserPrincipal, report: Report, *, via: str = "web"
) -> Iterator[str]:
    """The examples, each a line, made one after the other; `report` is filled meanwhile.

    Raises NotPermitted for who may not read threads.
    """
    making = _Making(wanted, by, report, exported=via)
    for run in runs(wanted, by):
        made = making.example(run)
        if made is None:
            continue
        line = codec.canonical(made).decode()
        report.examples += 1
        report.characters += len(line)
        yield f"{line}\n"


@dataclass(frozen=True)
class Preview:
    """What an export would hold, as far as it was looked at."""

    matching: int  # runs that are wanted
    looked: int  # the first of them, which were opened
    report: Report  # of those
    examples: list[trajectory.Example] = field(repr=False)  # the first few


def preview(wanted: Wanted, by: UserPrincipal) -> Preview:
    """The beginning of an export, and of its report, within a second or two.

    No more than `LOOKED` runs are opened, for `SECONDS` at most, and that they were is in
    the audit log. Raises NotPermitted for who may not read threads.
    """
    found = runs(wanted, by)
    report, looked = Report(), 0
    shown: list[trajectory.Example] = []
    making = _Making(wanted, by, report)
    end = time.monotonic() + SECONDS
    for run in found[:LOOKED]:
        looked += 1
        made = making.example(run)
        if made is not None:
            report.examples += 1
            report.characters += len(codec.canonical(made).decode())
            if len(shown) < SHOWN:
                shown.append(made)
        if time.monotonic() > end:
            break
    return Preview(found.count(), looked, report, shown)


class _Making:
    """Examples of runs, one after the other; what the later ones need of the earlier."""

    def __init__(
        self, wanted: Wanted, by: UserPrincipal, report: Report, *, exported: str = ""
    ) -> None:
        """`exported`: the way in which they are handed out; empty: they are not."""
        self._cheapest = wanted.cheapest
        self._by = by
        self._report = report
        self._exported = exported
        self._masks = Masks(capture)
        self._tasks: set[bytes] = set()  # that there is an example of

    def example(self, run: Run) -> trajectory.Example | None:
        """None: it is left out, and the report says why."""
        opened = self._open(run)
        if opened is None:
            return None
        state, contents = opened
        task = trajectory.task(state)
        if self._cheapest and task in self._tasks:
            self._report.leave("another run did the same for less")
            return None
        made = _example(state, run, contents, self._masks, self._report)
        if made is not None:
            self._tasks.add(task)
            self._report.secrets = list(self._masks.secrets)
        return made

    def _open(self, run: Run) -> tuple[State, Contents] | None:
        """The state that the run ended with."""
        steps = Checkpoint.objects.for_user(self._by).filter(
            branch=run.branch_id, run=run.pk
        )
        last = steps.order_by("-step").values_list("step", flat=True).first()
        if last is None:
            self._report.leave("it took no step, or its content is gone")
            return None
        purpose = "export" if self._exported else "trajectories page"
        seen = gate.admit(
            self._by, purpose=purpose, threads=[run.thread], steps=f"0-{last}"
        )
        if self._exported:
            audit.record(
                self._by,
                "export",
                obj=run.thread,
                purpose="trajectory",
                via=self._exported,
                run=run.pk,
                step=last,
            )
        try:
            state = hydrate.state(seen, run.branch, step=last)
        except CheckpointsError:
            self._report.leave(
                "it cannot be opened: it is damaged, or its content is gone"
            )
            return None
        return state, Contents(seen, run.thread_id)


def _example(
    state: State, run: Run, contents: Contents, masks: Masks, report: Report
) -> trajectory.Example | None:
    name = run.agent_version.agent.name
    tools = registry.agent(name).schemas if name in registry else []
    made: Any = trajectory.example(state, tools)
    if made is None:
        report.leave("the agent gave no answer")
        return None
    try:
        made = masks.value(contents.restore(made))
    except CheckpointsError:
        report.leave("a long text of it is not in the blob store now")
        return None
    if why := next(trajectory.problems(made), ""):
        report.leave(f"a provider would refuse it: {why}")
        return None
    example: trajectory.Example = made
    return example
