"""Letters of one alphabet that stand in a word of another, and pass for its letters.

A megabyte is looked through in a moment: expressions find where two alphabets meet within
a word, and only these words are taken apart.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping

# Alphabets whose letters pass for one another's. Latin beside Chinese is ordinary;
# Latin beside Cyrillic inside one word is not.
_ALPHABETS = {
    *("ARMENIAN", "CHEROKEE", "COPTIC", "CYRILLIC", "GREEK", "LATIN", "LISU"),
    *("FULLWIDTH", "MATHEMATICAL"),
}
_NAME = re.compile(r"[.@_]")  # inside a word: a host, an address or an identifier
_WORD = re.compile(r"[\w.@-]+")
_IN_WORD = frozenset("_.@-")  # beside letters and digits


def strays(text: str) -> Iterator[tuple[int, str]]:
    """Position and letter, in order: of another alphabet than the rest of its word."""
    alphabets = {char: name for char in set(text) if (name := _alphabet(char))}
    if len(set(alphabets.values())) < 2:
        return
    meeting, at = _meeting(alphabets), 0
    while met := meeting.search(text, at):
        start = met.start()
        while start > at and (text[start - 1].isalnum() or text[start - 1] in _IN_WORD):
            start -= 1
        word = _WORD.match(text, start)
        assert word is not None  # it begins with a letter, or leads to one
        at = word.end()
        for offset, part in _parts(word[0]):
            for place, char in _of_part(part, alphabets):
                yield start + offset + place, char


def _alphabet(char: str) -> str:
    """The alphabet of a letter, as its Unicode name begins with it."""
    name = unicodedata.name(char, "").partition(" ")[0] if char.isalpha() else ""
    return name if name in _ALPHABETS else ""


def _meeting(alphabets: Mapping[str, str]) -> re.Pattern[str]:
    """Where a letter of one follows one of another, with no other letter between."""
    letters: dict[str, str] = {}
    for char, name in alphabets.items():
        letters[name] = letters.get(name, "") + re.escape(char)
    every = "".join(letters.values())
    between = rf"(?:[^\W{every}]|[.@-])*+"
    return re.compile(
        "|".join(
            f"[{these}]{between}[{''.join(set_ for other, set_ in letters.items() if other != name)}]"
            for name, these in letters.items()
        )
    )


def _parts(word: str) -> Iterator[tuple[int, str]]:
    """Hyphens part a compound, but not a host or a name."""
    if "-" not in word or _NAME.search(word.strip(".")):
        yield 0, word
        return
    for part in re.finditer(r"[^-]+", word):
        yield part.start(), part[0]


def _of_part(part: str, alphabets: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    met = Counter(filter(None, map(alphabets.get, part)))
    if len(met) < 2:
        return
    # Hosts and identifiers are read as Latin; of other words, most decides.
    is_name = _NAME.search(part.strip("."))
    usual = "LATIN" if is_name else met.most_common(1)[0][0]
    for place, char in enumerate(part):
        if alphabets.get(char, usual) != usual:
            yield place, char
