"""Text that someone else wrote, taken apart so that nothing in it can hide.

What a model, a tool or a web page wrote may hold characters that show nothing, turn
the reading direction or look like other letters. `parts` gives the text back in
pieces: plain strings, and a `Mark` for everything that a reader could not see or would
take for something else. Newline and tab stay; CR LF counts as a newline.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from agents.pure.lookalikes import strays

COMBINING_LIMIT = 4  # marks on one letter; more reach into the lines around it
HOST_CHARACTERS = 253  # of a name, at most
MOST_NAMED = 20  # hosts of one text that a warning names
MOST_LETTERS = 5  # of another alphabet that it names
FEW = 50  # kinds of characters that are counted one by one
ENOUGH = 1_000  # letters of another alphabet, after which no others are looked for

# Whole categories: format, control, private use, surrogates, unassigned, line and
# paragraph separators, and (but for the plain one) spaces.
_HIDDEN = {"Cf", "Cc", "Co", "Cs", "Cn", "Zl", "Zp", "Zs"}
_SEEN = {"\n", "\t", " "}
# Invisible, yet letters, marks or symbols to Unicode: grapheme joiner, Hangul fillers,
# Khmer inherent vowels, Mongolian and other variation selectors, the empty Braille cell.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\uffa0"
    "\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_TELLING = re.compile(r"[^\n\t -~]")
# An address begins after :// and what stands there before an @, or after an @.
_HOST = re.compile(r"(?:://([^\s/@]*@)?|@)([^\s/:?#<>()\[\]\"',;@]+)")


@dataclass(frozen=True)
class Mark:
    """What to show in the place of, or after, something that misleads."""

    shown: str
    why: str
    alarm: bool = False  # made to deceive, more likely than not


def parts(text: str) -> Iterator[str | Mark]:
    """The text in pieces, in order; the plain ones are safe to read as they stand."""
    text = text.replace("\r\n", "\n")
    marks = {} if text.isascii() else _lookalikes(text)
    hosts = dict(_hosts(text))
    hidden = {char for char in set(text) if is_hidden(char)}
    if text.isascii() and not hosts and not hidden:  # most; a megabyte takes no time
        if text:
            yield text
        return
    plain: list[str] = []
    combining = 0
    for at, char in enumerate(text):
        combining = combining + 1 if unicodedata.category(char)[0] == "M" else 0
        mark = marks.get(at)
        if char in hidden or combining > COMBINING_LIMIT:
            mark = Mark(_code(char), _name(char), bool(_BIDI.match(char)))
        if mark:
            yield from _flushed(plain)
            yield mark
        else:
            plain.append(char)
        if at in hosts:
            yield from _flushed(plain)
            yield hosts[at]
    yield from _flushed(plain)


def is_plain(text: str) -> bool:
    """Whether nothing is to be told of it: ASCII that shows as it is and names no host.

    Quick, and never wrong about a text that hides something; it may call one telling
    that is not.
    """
    return not _TELLING.search(text) and "@" not in text and "://" not in text


def hides(text: str) -> bool:
    """Whether something in it cannot be seen, or looks like something else."""
    return not is_plain(text) and any(isinstance(part, Mark) for part in parts(text))


def flat(text: str) -> str:
    """The same as one string, for places that hold no markup: ``pay⟦U+202E⟧``."""
    return "".join(
        part if isinstance(part, str) else f"⟦{part.shown}⟧" for part in parts(text)
    )


def _flushed(plain: list[str]) -> Iterator[str]:
    if plain:
        yield "".join(plain)
        plain.clear()


def is_hidden(char: str) -> bool:
    """Whether a character shows nothing, or not what it does. A plain space, a tab and the
    end of a line do not count."""
    if char in _SEEN:
        return False
    return unicodedata.category(char) in _HIDDEN or bool(_BLANK.match(char))


def _code(char: str) -> str:
    return f"U+{ord(char):04X}"


def _name(char: str) -> str:
    return unicodedata.name(char, "") or "a character that shows nothing"


def _lookalikes(text: str) -> dict[int, Mark]:
    """By position: letters of another alphabet than the rest of their word."""
    found = list(strays(text))
    marks = {
        char: Mark(_as_letter(char), _name(char), alarm=True)
        for char in {char for _, char in found}
    }
    return {at: marks[char] for at, char in found}


def _as_letter(char: str) -> str:
    return f"{char} {_code(char)}"


def _hosts(text: str) -> Iterator[tuple[int, Mark]]:
    """Position of its last letter, and what a host is to the network, or stands for.

    Pointed out: a host outside ASCII, one written in the network's own way (`xn--`), and
    one that comes after what only looks like the host (`https://bank.example@evil.example`).
    """
    for match in _HOST.finditer(text) if "@" in text or "://" in text else ():
        before, host = match[1], match[2].rstrip(".…")
        if mark := _host_mark(host) or (_after(before, host) if before else None):
            yield match.start(2) + len(host) - 1, mark


def _host_mark(host: str) -> Mark | None:
    if not host or (host.isascii() and "xn--" not in host.lower()):
        return None
    name = why = ""
    try:
        if len(host) > HOST_CHARACTERS:
            pass  # reading it takes the longer the longer it is: minutes, for a megabyte
        elif host.isascii():
            name, why = host.encode().decode("idna"), "as people would read it"
        else:
            name, why = host.encode("idna").decode(), "the host's real name"
    except UnicodeError:
        name = ""
    if not name or not name.isprintable():  # idna lets control characters by
        name, why = "no such host", "this is not a valid host name"
    return Mark(name, why, alarm=True)


def _after(before: str, host: str) -> Mark | None:
    return Mark(
        f"goes to {host}", "what stands before the @ is no host", alarm="." in before
    )


def misleading(text: str) -> list[str]:
    """What in a text looks different from what it is, in words for a person; often none.

    All of the text is looked through. What there is much of is not named to the last.
    """
    text = text.replace("\r\n", "\n")
    found = []
    deceits = {char: kind for char in set(text) if (kind := _deceit(char))}
    # To count one is a hundred times as quick as to count them all.
    counts = Counter(text) if len(deceits) > FEW else {}
    kinds: Counter[str] = Counter()
    for char, kind in deceits.items():
        kinds[kind] += counts.get(char) or text.count(char)
    for kind, (one, many) in _DECEITS.items():
        if times := kinds[kind]:
            found.append(f"1 {one}" if times == 1 else f"{times:,} {many}")
    if kinds["tag"]:
        spelled = "".join(chr(ord(char) - 0xE0000) for char in _TAGS.findall(text))
        found.append(f"the tag characters spell “{spelled[:200]}”")
    hosts = (mark.shown for _, mark in _hosts(text) if mark.alarm)
    named = list(islice(hosts, MOST_NAMED + 1))
    found += [
        f"a host is not what it looks like: {shown}"
        for shown in dict.fromkeys(named[:MOST_NAMED])
    ]
    if len(named) > MOST_NAMED:
        found.append("more hosts are not what they look like")
    if not text.isascii():
        letters = {char for _, char in islice(strays(text), ENOUGH)}
        if shown := sorted(map(_as_letter, letters))[:MOST_LETTERS]:
            said = "letters of another alphabet inside a word"
            found.append(f"{said}: {', '.join(shown)}")
    return found


_TAGS = re.compile("[\U000e0020-\U000e007e]")
_DECEITS = {
    "bidi": (
        "character that turns the reading direction",
        "characters that turn the reading direction",
    ),
    "tag": ("tag character", "tag characters, which only programs read"),
    "control": ("control character", "control characters, as in codes for a terminal"),
    "invisible": ("invisible character", "invisible characters"),
}


def _deceit(char: str) -> str:
    """The kind of a character that hides; none for odd spaces and emoji's selectors."""
    if " " <= char <= "~" or not is_hidden(char) or char in "\ufe0e\ufe0f":
        return ""
    if _BIDI.match(char):
        return "bidi"
    if "\U000e0000" <= char <= "\U000e007f":
        return "tag"
    return {"Cc": "control", "Zs": ""}.get(unicodedata.category(char), "invisible")
