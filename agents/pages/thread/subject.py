"""What a thread's page is about: the thread, its branches, and one branch's steps.

Two ways to load it. A reader gets the opened history. Somebody who may not read, or a
thread that does not open, gets the structure: kinds, times and outcomes, which are
stored in clear, and no content. Of a long branch the rows around one step are read: who
looks at another step's gets them all, so ask `near` first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.http import Http404

from agents.models import Approval, Run, ToolCall
from agents.pages.chips import Chips
from agents.pages.damage import DAMAGE, open_each
from agents.pages.delegated import Relative, children_of
from agents.pages.retention.thread import Gone, gone
from agents.pages.thread.map import Line, Mark
from agents.pages.thread.names import Names
from agents.pages.thread.people import people
from agents.pages.thread.settled import settled
from agents.pages.thread.steps import WINDOW, Step, has_failed, start_of
from agents.pages.thread.structure import (
    lasts,
    lines_of,
    of_line,
    place_of,
    structure,
    tree_of,
)
from agents.pages.thread.trouble import means
from agents.pure.said import text_of
from agents.tools import Agent, registry
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.compiled import Compiled, Value
from checkpoints.errors import CheckpointsError, FutureSchema
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.log.hydrate import History, around, read
from checkpoints.models import Branch, Checkpoint, Thread

LONG = 400  # steps; of a longer branch only the rows that are shown are read


@dataclass
class Subject:
    principal: UserPrincipal
    thread: Thread
    title: str
    branches: list[Branch]
    names: Names
    runs: list[Run]  # oldest first
    branch: Branch
    steps: Sequence[Step]
    history: History | None  # None: sealed
    opened: Pass | None
    damage: CheckpointsError | None = None
    gone: Gone | None = None
    people: dict[int, str] = field(default_factory=dict)
    # Steps of the checkpoints that `calls_of` met: of replies and of results.
    placed: dict[UUID, int] = field(default_factory=dict)
    # By the call: the runs that did those calls which are put to agents.
    children: dict[UUID, Relative] = field(default_factory=dict)

    @property
    def near(self) -> range:
        """The steps whose rows are there."""
        return self.history.near if self.history else range(len(self.steps))

    def where(self, step: int) -> tuple[UUID, UUID]:
        """The checkpoint of a step of the branch, and the branch that took it."""
        if self.history is not None:
            return self.history.place(step)
        return self.steps[step].id, self.steps[step].branch_id

    def last(self, wanted: Q, *, before: int) -> int | None:
        """The last step before this one that is so, by its row as it stands."""
        line = of_line(self.branches, self.branch)
        rows = self.thread.checkpoints.filter(line, wanted, step__lt=before)
        found: int | None = (
            rows.order_by("-step").values_list("step", flat=True).first()
        )
        return found

    @property
    def tip(self) -> Step | Checkpoint:
        """The last step; at least what its row says of it."""
        if len(self.steps) - 1 in self.near or self.branch.head is None:
            return self.steps[-1]
        return self.branch.head

    @cached_property
    def chips(self) -> Chips:
        """For values that are kept as blobs."""
        return Chips(self.thread)

    @property
    def sealed(self) -> bool:
        return self.history is None

    @property
    def run(self) -> Run | None:
        """The newest run of the branch that is shown."""
        return newest_run(self.runs, self.branch.pk)

    @property
    def agent(self) -> Agent | None:
        """The agent that last worked here; None: nobody did, or its code is gone."""
        run = self.run or newest_run(self.runs)
        name = run.agent_version.agent.name if run else ""
        return registry.agent(name) if name in registry else None

    def future(self, step: int) -> FutureSchema | None:
        """Why nobody goes on from a step: newer code than this has written its state."""
        agent, history = self.agent, self.history
        if agent is None or history is None or step < 0:
            return None
        is_far = step == self.branch.head_step and step not in self.near
        row = self.branch.head if is_far else None
        found = (row or history.record(step)).schema_version
        if found <= agent.schema_version:
            return None
        return FutureSchema(found, agent.schema_version)

    @property
    def newer(self) -> FutureSchema | None:
        """As `future`, for the branch's head."""
        return self.future(self.branch.head_step)

    @cached_property
    def lines(self) -> list[Line]:
        return lines_of(self.branches, self.runs)

    @property
    def parent_name(self) -> str:
        parent = self.branch.parent_id
        return "" if parent is None else self.names[parent]

    def at(self, checkpoint: UUID | None, step: int | None) -> Step | None:
        """The step that was asked for; without a wish, the tip. None: no steps yet."""
        if checkpoint is not None:
            for near in self.near:
                if self.steps[near].id == checkpoint:
                    return self.steps[near]
            raise Http404
        if not self.steps:
            return None
        if step is None:
            return self.steps[-1]
        return self.steps[max(0, min(step, len(self.steps) - 1))]


def newest_run(runs: Sequence[Run], branch: UUID | None = None) -> Run | None:
    return next(
        (run for run in reversed(runs) if branch is None or run.branch_id == branch),
        None,
    )


def load(
    principal: UserPrincipal,
    thread_id: UUID,
    *,
    branch: UUID | None = None,
    checkpoint: UUID | None = None,
    step: int | None = None,
    purpose: str = "thread page",
    whole: bool = False,
) -> Subject:
    """The thread as this person may see it, with the branch that was asked for.

    Without a wish it is the branch at work, else the one that worked last. `checkpoint`
    or `step` is what a page is about: rows around it are read, of all steps where it is to
    be `whole`. Opening is recorded. Raises Http404 for what is not there or not theirs.
    """
    thread, branches, runs = tree_of(principal, thread_id)
    found = None
    if branch is None and checkpoint is not None:
        branch, found = place_of(principal, thread, checkpoint)
    chosen = _chosen(branches, runs, branch)
    if chosen.head_step < LONG:
        whole = True
    elif checkpoint is not None and not whole:
        step = found
        if step is None:
            step = place_of(principal, thread, checkpoint)[1]
    subject = Subject(
        principal=principal,
        thread=thread,
        title=f"Thread {short(thread.pk)}",
        branches=branches,
        names=Names(branches),
        runs=runs,
        branch=chosen,
        steps=(),
        history=None,
        opened=None,
    )
    if not principal.may_read:
        subject.gone = gone(thread, None)
    else:
        try:
            _open(subject, principal, purpose, near=None if whole else (step,))
        except DAMAGE as damage:
            subject.damage = damage
            subject.history = subject.opened = None
    if subject.history is None:
        subject.steps = structure(branches, chosen)
    subject.people = people(subject.steps[step] for step in subject.near)
    return subject


def _chosen(
    branches: Sequence[Branch], runs: Sequence[Run], wish: UUID | None
) -> Branch:
    by_id = {branch.pk: branch for branch in branches}
    if wish is not None:
        if wish not in by_id:
            raise Http404
        return by_id[wish]
    live = [run for run in runs if run.is_live]
    run = newest_run(live) or newest_run(runs)
    if run is not None:
        return by_id[run.branch_id]
    if not branches:
        raise Http404
    return branches[0]


def _open(
    subject: Subject,
    principal: UserPrincipal,
    purpose: str,
    *,
    near: tuple[int | None] | None,
) -> None:
    """`near`: the step around which rows are read, None being the tip; or all rows."""
    thread = subject.thread
    opened = gate.admit(
        principal,
        purpose=purpose,
        threads=[thread],
        steps=f"0-{subject.branch.head_step}",
    )
    subject.opened = opened
    subject.gone = gone(thread, opened)
    shown = subject.branch
    title = subject.names.open_with(opened, thread, [shown.pk, shown.parent_id])
    subject.title = title or f"{subject.title}: its title cannot be opened"
    if subject.gone is not None:
        subject.opened = None
        return
    # Not what was stored since the branch was read: all that the page says is of one
    # moment, and each message on it once.
    head = shown.head_step
    if near is None:
        subject.history = read(opened, shown, to_step=head)
    else:
        total = head + 1
        start = start_of(total if near[0] is None else near[0], total)
        last = start + WINDOW
        subject.history = around(
            opened,
            shown,
            first=start - 1,  # whether it waited before the first that is listed
            last=last if last < total else None,
            to_step=head,
        )
    subject.steps = subject.history.records


def marks(subject: Subject) -> list[Mark]:
    """Failed steps of every branch, and the tips that wait or are at work."""
    failed = settled(subject.thread, subject.branches).failed
    found = [Mark(branch, step, "red", "!", "failed") for branch, step in failed]
    for line in subject.lines:
        if line.status == Run.Status.WAITING and line.head_step > line.fork_step:
            found.append(Mark(line.id, line.head_step, "amber", "?", "waits"))
        elif line.status == Run.Status.RUNNING and line.head_step > line.fork_step:
            found.append(Mark(line.id, line.head_step, "indigo", "▸", "running"))
    return found


def calls_of(subject: Subject, *, every: bool = True) -> list[ToolCall]:
    """The calls that the shown branch made or inherited, in order; nothing opened.

    Not `every`: those of the steps whose rows are there, and those that wait.
    """
    last = lasts(subject.branches, subject.branch)
    near = subject.near
    asked: dict[str, Value] = {"thread": subject.thread.pk}
    asked |= {f"line_{n}": branch for n, branch in enumerate(last)}
    if every or len(near) == len(subject.steps):
        calls = _CALLS.rows(subject.principal, **asked)
    else:
        calls = _CALLS_NEAR.rows(
            subject.principal, first=near.start, final=near.stop - 1, **asked
        )

    def is_there(branch: UUID | None, step: int | None) -> bool:
        return branch in last and step is not None and step <= last[branch]

    found: list[ToolCall] = []
    for call in calls:
        if not is_there(call.asked_branch, call.asked_step):
            continue
        subject.placed[call.reply_id] = call.asked_step
        result = call.result_checkpoint_id
        if result and is_there(call.ended_branch, call.ended_step):
            subject.placed[result] = call.ended_step
        found.append(call)
    subject.children |= children_of(subject.principal, found)
    return sorted(found, key=lambda c: (subject.placed[c.reply_id], c.ordinal))


def _calls(by: UserPrincipal, thread: UUID, line: Iterable[UUID]) -> QuerySet[ToolCall]:
    return (
        ToolCall.objects.for_user(by)
        .filter(thread=thread, branch__in=list(line))
        .select_related("approval__decided_by", "recorded_from")
        .defer("arguments", "reason", "result")
        .annotate(
            asked_branch=F("reply__branch"),
            asked_step=F("reply__step"),
            ended_branch=F("result_checkpoint__branch"),
            ended_step=F("result_checkpoint__step"),
        )
    )


_CALLS = Compiled(lambda by, thread, **line: _calls(by, thread, line.values()))
_CALLS_NEAR = Compiled(
    lambda by, first, final, thread, **line: _calls(by, thread, line.values()).filter(
        Q(reply__step__range=(first, final))
        | Q(result_checkpoint__step__range=(first, final))
        | Q(approval__status=Approval.Status.PENDING)
    )
)


def queued(subject: Subject) -> list[str]:
    """Messages to the branch that are no step of what is shown, oldest first.

    One that became a step since the steps were read is among them: each message is on
    the page once, as one or the other.
    """
    if subject.opened is None:
        return []
    shown = subject.branch
    waiting = _QUEUED.rows(subject.principal, branch=shown.pk, step=shown.head_step)
    kept = open_each(subject.opened, waiting, "content")
    return [text_of(message) for message in kept if message]


_QUEUED = Compiled(
    lambda _, branch, step: (
        Branch(pk=branch)
        .inputs.filter(Q(checkpoint=None) | Q(checkpoint__step__gt=step))
        .order_by("position")
    )
)


def failed_step(steps: Sequence[Step]) -> Step | None:
    return next((step for step in reversed(steps) if has_failed(step)), None)


def agent_gone(subject: Subject) -> str:
    """The agent of the shown branch's live run, where no app here has it any more."""
    run = subject.run
    if run is None or not run.is_live:
        return ""
    name = run.agent_version.agent.name
    return "" if name in registry else name


def why_paused(subject: Subject) -> str:
    """Why the run of the shown branch is paused, where something is kept that says so."""
    run = subject.run
    if run is None or not run.error_class or not (run.is_paused or run.is_held):
        return ""
    why = subject.opened and open_each(subject.opened, [run], "error")[0]
    return why or means(run.error_class)
