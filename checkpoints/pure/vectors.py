"""Vectors of texts, as an embedding model gives them: kept at unit length, and compared.

Texts of like meaning have vectors that point alike. All are compared, one by one, in this
process: exactly, so that nothing is missed, and without an index that would tell who reads
the database which texts are alike.
"""

from __future__ import annotations

import sys
from array import array
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Mapping, Sequence
from math import fsum, inf, isfinite, sqrt
from operator import mul
from typing import TypeAlias

MOST_NUMBERS = 4_096  # of one vector: larger models give 3,072
NEAREST = 10  # texts that are found by their meaning alone
MEANING = 0.7  # what meaning counts where words count, too

LARGEST = 1e100  # a number of one

Vector: TypeAlias = "array[float]"  # of "f": 4 bytes a number


class NotAVector(ValueError):
    """What came is no list of numbers that has a direction."""


def unit(numbers: Sequence[object]) -> Vector:
    """The vector in this direction, of length 1. Raises NotAVector."""
    if not 0 < len(numbers) <= MOST_NUMBERS:
        raise NotAVector(f"{len(numbers)} numbers; 1 to {MOST_NUMBERS:,} make a vector")
    given: list[float] = []
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise NotAVector(f"a {type(number).__name__} stands among its numbers")
        # Not even a square of one overflows below; what is that large is no direction.
        given.append(float(number) if abs(number) < LARGEST else inf)
    length = sqrt(fsum(number * number for number in given))
    if not isfinite(length) or not length:
        raise NotAVector("it has no direction")
    return array("f", [number / length for number in given])


def packed(vector: Vector) -> str:
    """As text, for a sealed record: base64 of 4 bytes a number, little-endian."""
    return b64encode(_little(vector).tobytes()).decode()


def unpacked(text: str) -> Vector:
    """The vector that `packed` wrote. Raises NotAVector."""
    vector: Vector = array("f")
    try:
        vector.frombytes(b64decode(text, validate=True))
    except (Error, ValueError):
        raise NotAVector("it is not as it was kept") from None
    return _little(vector)


def nearness(one: Vector, other: Vector) -> float:
    """How alike two directions are: 1 the same, 0 nothing in common. Both as long."""
    total: float = sum(map(mul, one, other))
    return total


def blend(
    by_words: Mapping[int, float], by_meaning: Mapping[int, float], *, most: int
) -> list[int]:
    """The places that fit best, by both. Those without a vector count by their words.

    Of those that share no word, the NEAREST are there, however near that is: models
    differ in what is far.
    """
    near = sorted(by_meaning, key=lambda place: (-by_meaning[place], place))
    wanted = [place for place in near if by_meaning[place] > 0][:NEAREST]
    words, meaning = _shares(by_words, 0.0), _shares(by_meaning, None)

    def score(place: int) -> float:
        if place not in meaning:
            return words.get(place, 0.0)
        return MEANING * meaning[place] + (1 - MEANING) * words.get(place, 0.0)

    places = {*by_words, *wanted}
    return sorted(places, key=lambda place: (-score(place), place))[:most]


def _shares(scores: Mapping[int, float], least: float | None) -> dict[int, float]:
    """From 0, the least, to 1, the best."""
    if not scores:
        return {}
    low = min(scores.values()) if least is None else least
    span = max(scores.values()) - low
    return {k: (score - low) / span if span else 1.0 for k, score in scores.items()}


def _little(vector: Vector) -> Vector:
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return vector
