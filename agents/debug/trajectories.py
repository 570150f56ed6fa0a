"""Golden paths: conversations that went well, as examples for fine-tuning (docs/trajectories.md).

Which runs those are is asked in SQL, of what is stored in clear. Each is opened through the
gate, shown to be what was written, and exported with secrets masked: that it was is in the audit
log before it is opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TextIO

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

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

_Kind = Remark.Kind
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
    """The runs that are wanted and that `by` may see, the newest first."""
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
    return found.select_related(
        "thread", "branch__thread", "agent_version__agent"
    ).order_by("-created_at", "-pk")[: wanted.most]


def write(
    wanted: Wanted, by: UserPrincipal, out: TextIO, *, via: str = "web"
) -> Report:
    """Write an example a line. What cannot be one is left out, and counted by why.

    Raises NotPermitted for who may not read threads.
    """
    report, masks = Report(), Masks(capture)
    found: Iterable[Run] = runs(wanted, by)
    if wanted.cheapest:
        found = sorted(
            found, key=lambda run: (run.cost is None, run.cost or 0, run.steps)
        )
    tasks: set[bytes] = set()  # that there is an example of
    for run in found:
        opened = _open(run, by, report, via=via)
        if opened is None:
            continue
        state, contents = opened
        task = trajectory.task(state)
        if wanted.cheapest and task in tasks:
            report.leave("another run did the same for less")
            continue
        made = _example(state, run, contents, masks, report)
        if made is None:
            continue
        tasks.add(task)
        line = codec.canonical(made).decode()
        out.write(f"{line}\n")
        report.examples += 1
        report.characters += len(line)
    report.secrets = list(masks.secrets)
    return report


def _open(
    run: Run, by: UserPrincipal, report: Report, *, via: str
) -> tuple[State, Contents] | None:
    """The state that the run ended with."""
    steps = Checkpoint.objects.for_user(by).filter(branch=run.branch_id, run=run.pk)
    last = steps.order_by("-step").values_list("step", flat=True).first()
    if last is None:
        report.leave("it took no step, or its content is gone")
        return None
    seen = gate.admit(by, purpose="export", threads=[run.thread], steps=f"0-{last}")
    audit.record(
        by,
        "export",
        obj=run.thread,
        purpose="trajectory",
        via=via,
        run=run.pk,
        step=last,
    )
    try:
        state = hydrate.state(seen, run.branch, step=last)
    except CheckpointsError:
        report.leave("it cannot be opened: it is damaged, or its content is gone")
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
