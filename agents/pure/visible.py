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

COMBINING_LIMIT = 4  # marks on one letter; more reach into the lines around it

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
# Alphabets whose letters pass for one another's. Latin beside Chinese is ordinary;
# Latin beside Cyrillic inside one word is not.
_LOOKALIKE = {
    *("ARMENIAN", "CHEROKEE", "COPTIC", "CYRILLIC", "GREEK", "LATIN", "LISU"),
    *("FULLWIDTH", "MATHEMATICAL"),
}
_NAME = re.compile(r"[.@_]")  # inside a word: a host, an address or an identifier
_WORD = re.compile(r"[\w.@-]+")
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
    hosts = _hosts(text)
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


def _script(char: str) -> str:
    """The alphabet of a letter, as its Unicode name begins with it."""
    script = unicodedata.name(char, "").partition(" ")[0] if char.isalpha() else ""
    return script if script in _LOOKALIKE else ""


def _lookalikes(text: str) -> dict[int, Mark]:
    """By position: letters of another alphabet than the rest of their word."""
    found = {}
    for start, word in _words(text):
        scripts = Counter(filter(None, map(_script, word)))
        if len(scripts) < 2:
            continue
        # Hosts and identifiers are read as Latin; of other words, most decides.
        usual = (
            "LATIN" if _NAME.search(word.strip(".")) else scripts.most_common(1)[0][0]
        )
        for offset, char in enumerate(word):
            if _script(char) not in {"", usual}:
                shown = f"{char} {_code(char)}"
                found[start + offset] = Mark(shown, _name(char), alarm=True)
    return found


def _words(text: str) -> Iterator[tuple[int, str]]:
    """Words with their positions. Hyphens part a compound, but not a host or a name."""
    for match in _WORD.finditer(text):
        word = match[0]
        if word.isascii():
            continue
        if _NAME.search(word.strip(".")):
            yield match.start(), word
        else:
            for part in re.finditer(r"[^-]+", word):
                yield match.start() + part.start(), part[0]


def _hosts(text: str) -> dict[int, Mark]:
    """By position of its last letter: what a host is to the network, or stands for.

    Pointed out: a host outside ASCII, one written in the network's own way (`xn--`), and
    one that comes after what only looks like the host (`https://bank.example@evil.example`).
    """
    found = {}
    for match in _HOST.finditer(text) if "@" in text or "://" in text else ():
        before, host = match[1], match[2].rstrip(".…")
        if mark := _host_mark(host) or (_after(before, host) if before else None):
            found[match.start(2) + len(host) - 1] = mark
    return found


def _host_mark(host: str) -> Mark | None:
    if not host or (host.isascii() and "xn--" not in host.lower()):
        return None
    try:
        if host.isascii():
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
    """What in a text looks different from what it is, in words for a person; often none."""
    text = text.replace("\r\n", "\n")
    found = []
    hidden = Counter(char for char in text if not char.isascii() or char < " ")
    kinds: Counter[str] = Counter()
    for char, times in hidden.items():
        if kind := _deceit(char):
            kinds[kind] += times
    for kind, (one, many) in _DECEITS.items():
        if times := kinds[kind]:
            found.append(f"1 {one}" if times == 1 else f"{times:,} {many}")
    if spelled := "".join(
        chr(ord(char) - 0xE0000)
        for char in text
        if "\U000e0020" <= char <= "\U000e007e"
    ):
        found.append(f"the tag characters spell “{spelled[:200]}”")
    for mark in _hosts(text).values():
        if mark.alarm:
            found.append(f"a host is not what it looks like: {mark.shown}")
    if not text.isascii() and (letters := _lookalikes(text)):
        found.append(
            "letters of another alphabet inside a word: "
            + ", ".join(sorted({mark.shown for mark in letters.values()})[:5])
        )
    return found


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
    if not is_hidden(char) or char in "\ufe0e\ufe0f":
        return ""
    if _BIDI.match(char):
        return "bidi"
    if "\U000e0000" <= char <= "\U000e007f":
        return "tag"
    return {"Cc": "control", "Zs": ""}.get(unicodedata.category(char), "invisible")
