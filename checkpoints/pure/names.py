"""Names of entries: a namespace, which is a list of parts, and a key within it.

Parts are compared as they are, never joined: `acme` is no beginning of `acme-corp`, and
`a/b` is one part that no `a` has anything to do with. What differs in case, in accents or
in how Unicode spells it is another name. For people a name is written as a path, in which
"/" within a part is "~1" and "~" is "~0", as in a JSON Pointer.
"""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints.errors import BadOperation, InvalidEntry, NotStorable
from checkpoints.pure.chain import keyed_digest
from checkpoints.pure.codec import canonical
from checkpoints.pure.pointer import pointer, split

DEEPEST = 16  # parts of a namespace
LONGEST = 200  # characters of a part, and of a key

Namespace = tuple[str, ...]


@dataclass(frozen=True)
class Name:
    namespace: Namespace
    key: str

    @property
    def path(self) -> str:
        """As people read it."""
        return path(*self.namespace, self.key)


def path(*parts: str) -> str:
    """Parts as people read and type them: `parts` is the other way."""
    return pointer(*parts)[1:]


def parts(typed: str) -> Namespace:
    """The parts of a typed path; a "/" at its end is none. Raises InvalidEntry."""
    if not typed:
        return ()
    try:
        return namespace(split("/" + typed.removesuffix("/")))
    except BadOperation:
        raise InvalidEntry(
            f"{typed!r} is no path: within a part, “/” is written ~1 and “~” is written ~0."
        ) from None


def name(of: list[str] | Namespace, key: str) -> Name:
    """Raises InvalidEntry where a part or the key is none that can be stored."""
    _require("A key", key)
    return Name(namespace(of), key)


def namespace(of: list[str] | Namespace) -> Namespace:
    """Raises InvalidEntry."""
    if len(of) > DEEPEST:
        raise InvalidEntry(
            f"A namespace has at most {DEEPEST} parts; this one has {len(of)}."
        )
    for part in of:
        _require("A part of a namespace", part)
    return tuple(of)


def beginnings(key: bytes, owner: list[str], of: Namespace) -> list[bytes]:
    """A keyed hash for each beginning of a namespace: of one part, of two, and so on.

    Each stands for the owner and all parts so far, so that equal parts of two owners, or
    below two other parts, have nothing in common.
    """
    return [
        keyed_digest(key, "entry namespace 1", [owner, list(of[:n])])
        for n in range(1, len(of) + 1)
    ]


def whole(key: bytes, owner: list[str], of: Name) -> bytes:
    """A keyed hash of the owner, the namespace and the key."""
    return keyed_digest(key, "entry name 1", [owner, list(of.namespace), of.key])


def _require(what: str, text: str) -> None:
    if not 0 < len(text) <= LONGEST:
        raise InvalidEntry(
            f"{what} has 1 to {LONGEST} characters; this one has {len(text)}."
        )
    try:
        canonical(text)
    except NotStorable as wrong:
        raise InvalidEntry(f"{what} cannot be stored: {wrong}") from None
