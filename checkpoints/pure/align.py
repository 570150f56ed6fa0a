"""Which items of two sequences belong together: the base of every display diff."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

Pair = tuple[int, int]

# difflib is quadratic. Old items times new items; ten thousand take some 5 ms.
SMALL = 10_000


def align(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Pair]:
    """Pairs (index in `old`, index in `new`) of equal items, rising in both.

    Like a patience diff: common ends, then items that are unique on both sides, then
    what lies between those, each time anew. Near the longest common subsequence, and
    fast where that is slow: O(n log n) but for small gaps without unique items.
    Law: align(new, old) has the same pairs the other way round.
    """
    if _comes_after(old, new):
        return [(i, j) for j, i in _align(new, old)]
    return _align(old, new)


def _comes_after(one: Sequence[Hashable], other: Sequence[Hashable]) -> bool:
    """An order of sequences that differ, so that two are always taken the same way."""
    if len(one) != len(other):
        return len(one) > len(other)
    for item, counterpart in zip(one, other, strict=True):
        if item != counterpart:
            return repr(item) > repr(counterpart)
    return False


def _align(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Pair]:
    pairs: list[Pair] = []
    todo = [(0, len(old), 0, len(new))]
    while todo:
        low, high, new_low, new_high = todo.pop()
        while low < high and new_low < new_high and old[low] == new[new_low]:
            pairs.append((low, new_low))
            low, new_low = low + 1, new_low + 1
        while low < high and new_low < new_high and old[high - 1] == new[new_high - 1]:
            high, new_high = high - 1, new_high - 1
            pairs.append((high, new_high))
        if low == high or new_low == new_high:
            continue
        anchors = _anchors(old, low, high, new, new_low, new_high)
        if anchors:
            pairs.extend(anchors)
            ends = [(low - 1, new_low - 1), *anchors, (high, new_high)]
            todo.extend(
                (i + 1, next_i, j + 1, next_j)
                for (i, j), (next_i, next_j) in pairwise(ends)
            )
        elif (high - low) * (new_high - new_low) <= SMALL:
            matcher = SequenceMatcher(
                None, old[low:high], new[new_low:new_high], autojunk=False
            )
            pairs.extend(
                (low + block.a + n, new_low + block.b + n)
                for block in matcher.get_matching_blocks()
                for n in range(block.size)
            )
    return sorted(pairs)


def moved(
    old: Sequence[Hashable], new: Sequence[Hashable], kept: Sequence[Pair]
) -> list[Pair]:
    """Pairs of equal items that `align` had to leave out: they changed their order."""
    still_old = {i for i, _ in kept}
    still_new = {j for _, j in kept}
    places: defaultdict[Hashable, list[int]] = defaultdict(list)
    for i in range(len(old) - 1, -1, -1):
        if i not in still_old:
            places[old[i]].append(i)
    return [
        (places[item].pop(), j)
        for j, item in enumerate(new)
        if j not in still_new and places.get(item)
    ]


def _anchors(
    old: Sequence[Hashable],
    low: int,
    high: int,
    new: Sequence[Hashable],
    new_low: int,
    new_high: int,
) -> list[Pair]:
    """The longest rising run of items that occur once on each side of this gap."""
    count = Counter(old[low:high])
    new_count = Counter(new[new_low:new_high])
    where = {item: j for j, item in enumerate(new[new_low:new_high], new_low)}
    unique = [
        (i, where[item])
        for i, item in enumerate(old[low:high], low)
        if count[item] == 1 and new_count[item] == 1
    ]
    return _rising(unique)


def _rising(pairs: list[Pair]) -> list[Pair]:
    """The longest subsequence that rises in its second numbers, too."""
    tails: list[int] = []  # the smallest last number of a run of each length
    ends: list[int] = []  # where in `pairs` that is
    before: list[int] = []  # per pair, the one that it follows
    for position, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [j]
        ends[length : length + 1] = [position]
    run: list[Pair] = []
    position = ends[-1] if ends else -1
    while position >= 0:
        run.append(pairs[position])
        position = before[position]
    return run[::-1]
