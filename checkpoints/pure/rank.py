"""Which of many short texts say what is asked for: BM25 over folded words, in process.

Words are runs of letters and digits, in small letters, without accents and ligatures:
"Café-Crème" and "cafe creme" are the same two. Scripts that put no blanks between words
are taken two letters at a time. A word of four letters or more also finds longer ones
that begin with it, and shorter ones that it begins with, for part of their weight:
"flights" finds "flight". No language is assumed, and meaning is not known.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log
from typing import Any

SATURATION = 1.2  # k1: how soon a word that comes again counts for less
LENGTH = 0.75  # b: how much a long text has to say more to count as much
PART = 0.6  # what a word counts that merely begins alike
STEM = 4  # letters that two words share at least, to begin alike

_WORD = re.compile(r"[^\W_]+")
# Han, kana, Thai, Lao, Khmer, Burmese: no blanks between words.
_RUNS_ON = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]+"
)


def words(text: str) -> Iterator[str]:
    """The words of a text, folded, in order."""
    if text.isascii():
        yield from _WORD.findall(text.casefold())
        return
    plain = unicodedata.normalize("NFKD", text)
    bare = "".join(char for char in plain if not unicodedata.combining(char))
    for match in _WORD.finditer(bare.casefold()):
        yield from _pieces(match.group())


def said(value: Any) -> str:
    """All that a JSON value says as one text: keys, texts, numbers."""
    found: list[str] = []
    todo = [value]
    while todo:
        match todo.pop():
            case dict() as one:
                found += one
                todo += reversed(one.values())
            case list() as one:
                todo += reversed(one)
            case None | bool():
                pass  # nobody looks for them
            case one:
                found.append(str(one))
    return " ".join(found)


def rank(query: str, texts: Sequence[str], *, most: int) -> list[int]:
    """Which of these texts fit the query, best first: their places, `most` at most.

    Of those that fit alike, the earlier one is first. Those without any of its words
    are left out; without words nothing fits.
    """
    scores = scored(query, texts)
    return sorted(scores, key=lambda place: (-scores[place], place))[:most]


def scored(query: str, texts: Sequence[str]) -> dict[int, float]:
    """How well each text fits, by its place: those that share a word."""
    wanted = Counter(words(query))
    lengths, found, alike = _index(texts)
    if not wanted or not any(lengths):
        return {}
    usual = sum(lengths) / len(lengths)
    scores: dict[int, float] = defaultdict(float)
    for word, times in wanted.items():
        counts: dict[int, float] = defaultdict(float)
        for other in alike[word[:STEM]]:  # in their order: sums are the same each time
            if weight := _weight(word, other):
                for place, often in found[other]:
                    counts[place] += weight * often
        rarity = log(1 + (len(lengths) - len(counts) + 0.5) / (len(counts) + 0.5))
        for place, count in counts.items():
            share = 1 - LENGTH + LENGTH * lengths[place] / usual
            gain = count * (SATURATION + 1) / (count + SATURATION * share)
            scores[place] += times * rarity * gain
    return dict(scores)


def _index(
    texts: Sequence[str],
) -> tuple[list[int], dict[str, list[tuple[int, int]]], dict[str, list[str]]]:
    """How many words each text has; where each word is, and how often; and the words that
    begin with the same letters."""
    lengths: list[int] = []
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, text in enumerate(texts):
        bag = Counter(words(text))
        lengths.append(bag.total())
        for word, count in bag.items():
            found[word].append((place, count))
    alike: dict[str, list[str]] = defaultdict(list)
    for word in found:
        alike[word[:STEM]].append(word)
    return lengths, found, alike


def _pieces(word: str) -> Iterator[str]:
    """A word; of what runs on, each two letters that follow each other."""
    end = 0
    for run in _RUNS_ON.finditer(word):
        if before := word[end : run.start()]:
            yield before
        letters = run.group()
        yield from map("".join, pairwise(letters)) if len(letters) > 1 else [letters]
        end = run.end()
    if rest := word[end:]:
        yield rest


def _weight(word: str, other: str) -> float:
    if word == other:
        return 1.0
    short, long = sorted((word, other), key=len)
    return PART if len(short) >= STEM and long.startswith(short) else 0.0
