"""The aligned steps: which step of one branch answers to which of the other.

What two branches share is the same history and is not listed. From there on PART steps
of each are laid beside each other at a time; a page shows WINDOW rows of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from agents.pages.compare.sides import Side, Two, along
from agents.pages.damage import DAMAGE
from agents.pages.thread.diff import DiffView, diff_view
from agents.pages.thread.steps import Step, has_failed
from agents.pages.thread.structure import Bare
from agents.pure.noise import quiet_message, told
from checkpoints.access import UserPrincipal
from checkpoints.errors import CheckpointsError
from checkpoints.log.hydrate import StepRecord, records
from checkpoints.models import Checkpoint
from checkpoints.pure import codec
from checkpoints.pure.abreast import Look, Row, abreast
from checkpoints.pure.compare import Comparison, compare
from checkpoints.pure.lineage import cut
from checkpoints.pure.pointer import pointer, split

PART = 1_000  # steps of each side that are aligned at once
WINDOW = 50  # rows on a page


@dataclass(frozen=True)
class RowView:
    """A row of the table. `n` counts rows from the first step that is not shared."""

    n: int
    a: Step | None
    b: Step | None
    same: bool
    sealed: bool
    current: bool
    page_a: str
    page_b: str

    @property
    def sign(self) -> str:
        if self.a is None:
            return "+"
        if self.b is None:
            return "\N{MINUS SIGN}"
        if self.sealed:
            return "?"
        return "=" if self.same else "\N{NOT EQUAL TO}"

    @property
    def said(self) -> str:
        """How the two differ, in words; empty where they do not."""
        if self.a is None or self.b is None:
            return f"only in {'B' if self.a is None else 'A'}"
        if self.sealed:
            return "sealed"
        if self.same:
            return ""
        old, new = _model(self.a), _model(self.b)
        return f"model {old} → {new}" if old != new else "differs"

    @property
    def where(self) -> str:
        """ "step 6 of both", "step 6 of A and 7 of B"."""
        if self.a is None or self.b is None:
            at, side = (self.b, "B") if self.a is None else (self.a, "A")
            assert at is not None  # a row has a step on one side at least
            return f"step {at.step} of {side}"
        if self.a.step == self.b.step:
            return f"step {self.a.step}"
        return f"step {self.a.step} of A, {self.b.step} of B"

    @property
    def failed_a(self) -> bool:
        return self.a is not None and has_failed(self.a)

    @property
    def failed_b(self) -> bool:
        return self.b is not None and has_failed(self.b)


@dataclass(frozen=True)
class Aligned:
    """One page of the aligned steps, with the row that is open."""

    rows: list[RowView]
    first: RowView | None  # divergence, among the steps that were aligned
    current: RowView | None
    diff: DiffView | None  # what the steps of the open row did differently
    path: str  # where the first divergence's steps differ first
    earlier: int | None  # rows that open other windows and differences
    later: int | None
    previous: int | None
    following: int | None
    part: int
    steps: int  # that were aligned, of the longer side
    more: bool  # steps come after those
    differences: int
    sealed: bool
    damage: CheckpointsError | None = None


def aligned(
    principal: UserPrincipal, two: Two, *, part: int, at: int | None
) -> Aligned:
    """The rows of a part, with row `at` open; without a wish the first that differs.

    Where something does not open, as for those who may not read, kinds and times only.
    """
    damage: CheckpointsError | None = None
    spans = [_span(side, two.shared + part * PART) for side in (two.a, two.b)]
    sides: list[Sequence[Step]] | None = None
    if two.opened is not None:
        try:
            sides = [
                records(two.opened, side.branch, first=first, last=last)
                if first <= last
                else []
                for side, (first, last) in zip((two.a, two.b), spans, strict=True)
            ]
        except DAMAGE as error:
            damage = error
    sealed = sides is None
    if sides is None:
        sides = [
            _bare(principal, side, *span)
            for side, span in zip((two.a, two.b), spans, strict=True)
        ]
    a, b = sides
    rows = abreast([_look(step) for step in a], [_look(step) for step in b])
    differing = [n for n, row in enumerate(rows) if _differs(row, sealed=sealed)]
    open_at = differing[0] if at is None and differing else at
    if open_at is not None and not 0 <= open_at < len(rows):
        open_at = None
    start = (open_at or 0) // WINDOW * WINDOW

    def view(n: int) -> RowView:
        row = rows[n]
        left = None if row.a is None else a[row.a]
        right = None if row.b is None else b[row.b]
        return RowView(
            n=n,
            a=left,
            b=right,
            same=row.same,
            sealed=sealed,
            current=n == open_at,
            page_a=two.a.place(left.id, left.branch_id) if left else "",
            page_b=two.b.place(right.id, right.branch_id) if right else "",
        )

    first = view(differing[0]) if differing else None
    current = view(open_at) if open_at is not None else None
    diff = _diff(two, current) if current and not sealed else None
    first_diff = diff
    if first and current and first.n != current.n and not sealed:
        first_diff = _diff(two, first)
    here = -1 if open_at is None else open_at
    return Aligned(
        rows=[view(n) for n in range(start, min(start + WINDOW, len(rows)))],
        first=first,
        current=current,
        diff=diff,
        path=first_diff.entries[0].path
        if first and first_diff and first_diff.entries
        else "",
        earlier=start - WINDOW if start else None,
        later=start + WINDOW if start + WINDOW < len(rows) else None,
        previous=max((n for n in differing if n < here), default=None),
        following=min((n for n in differing if n > here), default=None),
        part=part,
        steps=max(len(a), len(b)),
        more=any(
            last < side.to
            for side, (_, last) in zip((two.a, two.b), spans, strict=True)
        ),
        differences=len(differing),
        sealed=sealed,
        damage=damage,
    )


def _span(side: Side, first: int) -> tuple[int, int]:
    """First and last step of a side's part; none where the last comes before the first."""
    return first, min(side.to, first + PART - 1)


def _bare(principal: UserPrincipal, side: Side, first: int, last: int) -> list[Step]:
    rows = (
        Checkpoint.objects.for_user(principal)
        .filter(along(cut(side.way, first, last)), thread=side.thread)
        .order_by("step")
        .values_list(*(column.name for column in fields(Bare)))
    )
    return [Bare(*row) for row in rows]


def _look(step: Step) -> Look:
    kind = (step.kind, step.name, has_failed(step))
    if not isinstance(step, StepRecord):
        return Look(kind, step.id)
    asked = (step.model_requested, step.temperature, step.top_p, step.seed)
    return Look(kind, (kind, asked, codec.text(_quiet_ops(step))))


def _quiet_ops(step: StepRecord) -> list[object]:
    """The operations without ids; most append one message."""
    if len(step.ops) == 1 and step.ops[0][:2] == ["append", "/messages"]:
        return [quiet_message(step.ops[0][2])]
    return [[path, value] for path, value in told(step.ops).items()]


def _differs(row: Row, *, sealed: bool) -> bool:
    """Whether it is seen to differ; of what is sealed only kinds can be seen."""
    if row.a is None or row.b is None:
        return True
    return not row.same and not sealed


def _diff(two: Two, row: RowView) -> DiffView:
    """What the step of one side did that the other's did not."""
    old = told(row.a.ops) if isinstance(row.a, StepRecord) else {}
    new = told(row.b.ops) if isinstance(row.b, StepRecord) else {}
    return diff_view(by_path(compare(old, new)), two.chips)


def by_path(found: Comparison) -> Comparison:
    """Of a comparison of objects whose keys are paths, as one of what is at those paths."""
    real = Comparison()
    real.unchanged = found.unchanged
    real.extend(
        replace(
            change,
            path=_real(change.path),
            old_path=None if change.old_path is None else _real(change.old_path),
            list_path=None if change.list_path is None else _real(change.list_path),
        )
        for change in found
    )
    return real


def _real(path: str) -> str:
    first, *rest = split(path)
    return first + pointer(*rest)


def _model(step: Step) -> str:
    return getattr(step, "model_requested", "") or "none"
