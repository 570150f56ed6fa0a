"""Two lines of steps beside each other: which belong together, and which are the same."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from checkpoints.pure.align import align


@dataclass(frozen=True)
class Look:
    """A step, as far as it is compared.

    `kind` is what two steps must have in common to stand beside each other at all,
    `whole` what they must have in common to be the same.
    """

    kind: Hashable
    whole: Hashable


@dataclass(frozen=True)
class Row:
    """Indices into the two lines; None: there is nothing on that side."""

    a: int | None
    b: int | None
    same: bool = False


def abreast(a: Sequence[Look], b: Sequence[Look]) -> list[Row]:
    """Every step of both once, each line in its order.

    Steps that are the same stand beside each other first; between those, what is of
    one kind; what then has no counterpart stands alone, the first line's before the
    second's. Law: laid the other way round, the rows are the same with sides changed,
    but for the order of those that stand alone.
    """
    rows: list[Row] = []
    i = j = 0
    kept = align([look.whole for look in a], [look.whole for look in b])
    for next_i, next_j in [*kept, (len(a), len(b))]:
        rows += _between(a, b, range(i, next_i), range(j, next_j))
        if next_i < len(a):
            rows.append(Row(next_i, next_j, same=True))
        i, j = next_i + 1, next_j + 1
    return rows


def _between(
    a: Sequence[Look], b: Sequence[Look], of_a: range, of_b: range
) -> list[Row]:
    """The rows of a gap: nothing in it was taken for the same."""
    rows: list[Row] = []
    i, j = of_a.start, of_b.start
    kinds = align([a[n].kind for n in of_a], [b[n].kind for n in of_b])
    ends = (of_a.stop - of_a.start, of_b.stop - of_b.start)
    for next_i, next_j in [*kinds, ends]:
        at_a, at_b = of_a.start + next_i, of_b.start + next_j
        rows += [Row(n, None) for n in range(i, at_a)]
        rows += [Row(None, n) for n in range(j, at_b)]
        if at_a < of_a.stop and at_b < of_b.stop:
            rows.append(Row(at_a, at_b, same=a[at_a].whole == b[at_b].whole))
        i, j = at_a + 1, at_b + 1
    return rows
