"""The branch map: where each branch, dot and label of a thread's tree is drawn.

x is the step, in percent of the longest branch shown, so the map stretches with the
scrubber above it; y is a lane. At most LANES of MOST branches are drawn: the branch
that is shown, with all that it came from, then those that the reader starred, then
those at work, then the newest; names are asked for of those that are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from uuid import UUID

from checkpoints.pure import lineage

LANES = 8
MOST = 24  # branches; names of more would cover each other
LANE_HEIGHT = 22  # px
TOP = 12  # px from the edge to the first lane
MOST_DOTS = 150  # steps; on a longer axis dots would touch, the lines stay
COLOURS = 6
LABEL = 24  # characters of a branch name beside its line
GAP = 2  # steps that stay free behind a tip, for its label

Address = Callable[[UUID, int | None], tuple[str, str]]


@dataclass(frozen=True)
class Line:
    """A branch, as the map needs it."""

    id: UUID
    parent: UUID | None
    fork_step: int  # -1: the thread's first branch
    head_step: int  # equal to fork_step: forked, no step of its own yet
    status: str = ""  # of its newest run

    @property
    def start(self) -> int:
        """The first step of its own, taken or still to come."""
        return self.fork_step + 1

    @property
    def tip(self) -> int:
        return max(self.head_step, self.start)

    @property
    def about(self) -> str:
        steps = max(self.head_step - self.fork_step, 0)
        return f"{steps} step{'' if steps == 1 else 's'}"


@dataclass(frozen=True)
class Mark:
    """A step that is more than a dot: it failed, waits, or is being taken."""

    branch: UUID
    step: int
    colour: str
    glyph: str
    word: str


@dataclass(frozen=True)
class Dot:
    x: str
    y: int
    colour: str
    branch: UUID
    step: int
    page: str = ""
    fragment: str = ""
    glyph: str = ""
    word: str = ""

    @property
    def text_y(self) -> float:
        return self.y + 3.2


@dataclass(frozen=True)
class Lane:
    """One branch as it is drawn."""

    line: Line
    name: str
    colour: str
    y: int
    path: str
    label_x: str
    leads: bool  # the label stands before the line, not behind its tip
    page: str
    fragment: str

    @property
    def label(self) -> str:
        long = len(self.name) > LABEL
        return self.name[: LABEL - 1] + "…" if long else self.name

    @property
    def label_y(self) -> int:
        return self.y + 4


@dataclass(frozen=True)
class BranchMap:
    last_step: int
    height: int
    lanes: list[Lane]
    dots: list[Dot]
    marks: list[Dot]
    ticks: list[tuple[str, int]]
    cursor: Dot | None
    hidden: int

    @property
    def tick_y(self) -> int:
        return self.height - 6

    @property
    def line_y(self) -> int:
        return self.height - 18


def branch_map(
    lines: Sequence[Line],
    marks: Iterable[Mark],
    *,
    shown: UUID,
    at: tuple[UUID, int],
    address: Address,
    names: Callable[[list[UUID]], Iterable[str]],
    starred: Set[UUID] = frozenset(),
) -> BranchMap:
    """The map of these branches, in order of creation.

    `shown` is the branch whose steps are listed, `at` the branch and step of the
    checkpoint that is open; `address` gives page and fragment of a branch's step, or
    of its tip; `names` is asked once, what those that are drawn are called. Those
    `starred` are drawn before others where there is no room for all.
    """
    colours = colours_of(lines)
    drawn = _chosen(lines, shown, starred)
    named = names([line.id for line in drawn])
    rows = _packed(drawn)
    last = max([line.tip for line in drawn], default=0) or 1
    ys = {line.id: TOP + LANE_HEIGHT * rows[line.id] for line in drawn}
    height = max(ys.values(), default=TOP) + 32

    def x(step: int) -> str:
        return f"{step / last * 100:g}%"

    special = {(m.branch, m.step): m for m in marks if m.branch in ys}
    cursor = None
    if at[0] in ys:
        cursor = Dot(x(at[1]), ys[at[0]], colours[at[0]], at[0], at[1])
    return BranchMap(
        last_step=last,
        height=height,
        lanes=[
            _lane(line, name, ys, colours[line.id], x(line.tip), address)
            for line, name in zip(drawn, named, strict=True)
        ],
        dots=[
            Dot(
                x(step),
                ys[line.id],
                colours[line.id],
                line.id,
                step,
                *address(line.id, step),
            )
            for line in drawn
            for step in range(line.start, line.head_step + 1)
            if last <= MOST_DOTS and (line.id, step) not in special
        ],
        marks=[
            Dot(
                x(m.step),
                ys[m.branch],
                m.colour,
                m.branch,
                m.step,
                *address(m.branch, m.step),
                m.glyph,
                m.word,
            )
            for m in special.values()
        ],
        ticks=[(x(step), step) for step in _ticks(last)],
        cursor=cursor,
        hidden=len(lines) - len(drawn),
    )


def colours_of(lines: Sequence[Line]) -> dict[UUID, str]:
    """A branch has its colour for good: by the order in which they were made."""
    return {line.id: f"c{n % COLOURS}" for n, line in enumerate(lines)}


def _lane(
    line: Line,
    name: str,
    ys: Mapping[UUID, int],
    colour: str,
    tip: str,
    address: Address,
) -> Lane:
    y, s = ys[line.id], line.start
    if (above := ys.get(line.parent) if line.parent else None) is not None:
        path = (
            f"M{s - 1} {above}C{s - 0.4:g} {above} {s - 0.6:g} {y} {s} {y}H{line.tip}"
        )
    else:
        path = f"M{max(s - 1, 0)} {y}H{line.tip}"
    leads = line.fork_step < 0
    return Lane(
        line,
        name,
        colour,
        y,
        path,
        "0" if leads else tip,
        leads,
        *address(line.id, None),
    )


def _chosen(lines: Sequence[Line], shown: UUID, starred: Set[UUID]) -> list[Line]:
    """Those that fit into LANES, with their ancestors: shown, starred, live, newest."""
    by_id = {line.id: line for line in lines}
    order = {line.id: n for n, line in enumerate(lines)}

    def with_ancestors(line: Line) -> Iterator[Line]:
        while True:
            yield line
            if line.parent is None or line.parent not in by_id:
                return
            line = by_id[line.parent]

    newest = list(reversed(lines))
    live = {"running", "waiting", "ready"}
    wanted = [line for line in newest if line.id == shown]
    wanted += [line for line in newest if line.id in starred]
    wanted += [line for line in newest if line.status in live]
    wanted += newest
    chosen: set[UUID] = set()
    # Those behind would hardly find a place, and each look for one takes its time.
    for line in list(dict.fromkeys(wanted))[: 4 * MOST]:
        more = chosen | {each.id for each in with_ancestors(line)}
        if line.id in chosen or (chosen and len(more) > MOST):
            continue
        fits = [by_id[each] for each in sorted(more, key=order.__getitem__)]
        if not chosen or max(_packed(fits).values()) < LANES:
            chosen = more
    return [line for line in lines if line.id in chosen]


def _packed(lines: Sequence[Line]) -> dict[UUID, int]:
    """A lane for each branch, with room for its label behind the tip."""
    return lineage.lanes(
        [
            lineage.Line(line.id, line.parent, line.fork_step, line.tip + GAP)
            for line in lines
        ]
    )


def _ticks(last: int) -> Iterator[int]:
    """Round numbers, at most a dozen."""
    size, steps = 1, (2, 2.5, 2)  # 1 2 5 10 20 50 …
    n = 0
    while last / size > 8:
        size = int(size * steps[n % 3])
        n += 1
    yield from range(0, last + 1, size)
