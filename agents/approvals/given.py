"""What a person gives with a decision, beside the verdict, and what the terms ask for.

The page looks at the password (Django's `authenticate`, counted by `checkpoints.sign_in`
as any attempt is) and says here whether it was right: `password_ok`. What was confirmed
is kept with the decision and bound by its MAC, so `verify` can ask for it once more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agents.errors import InvalidDecision
from agents.models import Approval, Decision
from agents.pure.terms import Terms
from checkpoints.keys.hierarchy import thread_keys
from checkpoints.pure.chain import keyed_digest

Verdict = Decision.Verdict

PASSWORD, TYPED = "password", "typed"  # names of what is asked for
SHOWN_BYTES = 32

NO_LONGER_VALID = (
    "This cannot be approved: its guard says that it is no longer valid. Edit it, or "
    "reject it."
)


class Where(StrEnum):
    """Where a request was shown that somebody decides, as the audit log has it."""

    PAGE = "page"  # of its own, with its preview
    LIST = "list"  # its title and arguments, as one of several
    DIGEST = "digest"  # not known: only revision and digest were named, as programs do


@dataclass(frozen=True)
class Given:
    """Beside the verdict. `shown`: `hash_of_shown` of what was shown, there."""

    content: dict[str, Any] | None = field(default=None, repr=False)
    password_ok: bool = False
    typed: str = field(default="", repr=False)
    shown: bytes | None = None
    break_glass: bool = False
    place: Where = Where.PAGE

    @property
    def where(self) -> Where:
        return Where.DIGEST if self.shown is None else self.place


@dataclass(frozen=True)
class Demanded:
    """What the form has to ask for. `typed`: the words to type; "" for none."""

    password: bool
    typed: str

    def __bool__(self) -> bool:
        return self.password or bool(self.typed)


def demanded(approval: Approval) -> Demanded:
    """What an approval, edit or answer needs; a rejection needs none of it."""
    terms = Terms.of(approval.terms)
    return Demanded(terms.reauthenticate, approval.call.tool if terms.typed else "")


def hash_of_shown(approval: Approval, fragment: str) -> bytes:
    """32 bytes that stand for the fragment that was shown of this request.

    Keyed, as it is derived from state; the form carries it back (`shown`, as hex).
    """
    return keyed_digest(thread_keys(approval.thread_id).mac, "shown 1", fragment)


def confirmed(row: Approval, terms: Terms, verdict: str, given: Given) -> str:
    """What was asked for and given, as `Decision.confirmed` keeps it.

    Raises InvalidDecision with a text for each that is missing: "password", "typed".
    """
    if given.shown is not None and len(given.shown) != SHOWN_BYTES:
        raise InvalidDecision(
            {"shown": "The form does not say what was shown. Reload the page."}
        )
    if verdict == Verdict.REJECT:
        return ""
    needed = wanted(terms)
    problems = {}
    if PASSWORD in needed and not given.password_ok:
        problems[PASSWORD] = (
            "Give your password again: this request asks for it."  # a text
        )
    if TYPED in needed and given.typed.strip() != row.call.tool:
        problems[TYPED] = f"Type {row.call.tool} to say that you mean this call."
    if problems:
        raise InvalidDecision(problems)
    return " ".join(needed)


def wanted(terms: Terms) -> list[str]:
    """The names of what the terms ask for."""
    asked = {PASSWORD: terms.reauthenticate, TYPED: terms.typed}
    return [name for name, is_asked in asked.items() if is_asked]


def require_valid(row: Approval, verdict: str) -> None:
    """Raises InvalidDecision where its guard says that it cannot be done as asked."""
    if verdict == Verdict.APPROVE and row.guard == Approval.Guard.INVALID:
        raise InvalidDecision({"verdict": NO_LONGER_VALID})
