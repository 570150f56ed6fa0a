"""What a rule demands of whoever decides: terms, as a request keeps them.

They are frozen with the request when it is asked, and its digest binds them: a policy
that changes later changes no request that people have before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal
from uuid import UUID

Then = Literal["reject", "escalate", "hold"]
Excluded = Literal["starter", "author", "editor"]

MOST_GRACE = 60  # seconds


@dataclass(frozen=True)
class Step:
    """One step of an escalation: `after` so many seconds, whom to tell, how urgent it is."""

    after: int
    group: str | None = None  # its id; None: whoever may decide
    priority: int = 0
    person: int | None = None  # whom it is assigned to, by user id: they alone are told

    def as_json(self) -> dict[str, Any]:
        kept = asdict(self)
        if self.person is None:  # as every version of the code reads it
            del kept["person"]
        return kept


@dataclass(frozen=True)
class Terms:
    """Who may decide, how many of them, by when, and how carefully."""

    approvers: int = 1  # different people
    groups: tuple[str, ...] = ()  # ids; empty: everyone with the right to approve
    # Not who started the run, wrote its last message, or edited the arguments.
    exclude: tuple[Excluded, ...] = ()
    deadline: int | None = None  # seconds after it was asked
    then: Then = "reject"  # what the deadline does
    escalation: tuple[Step, ...] = ()
    grace: int = 0  # seconds in which a decision can be undone, and nothing runs
    reauthenticate: bool = False  # the password again
    typed: bool = False  # the tool's name, typed

    def as_json(self) -> dict[str, Any]:
        """As `Approval.terms` keeps it: what is as usual is left out."""
        usual = asdict(Terms())
        kept = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
            if value != usual[name]
        }
        if self.escalation:
            kept["escalation"] = [step.as_json() for step in self.escalation]
        return kept

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Terms:
        """Of what `as_json` gave."""
        known = dict(kept)
        for name in ("groups", "exclude"):
            known[name] = tuple(known.get(name, ()))
        known["escalation"] = tuple(
            Step(**step) for step in known.get("escalation", ())
        )
        return cls(**known)


@dataclass(frozen=True)
class Demand:
    """What one request asks of people, and which rule says so."""

    terms: Terms
    rule: str  # its name, as people read it
    policy: UUID | None = None  # the version whose rule it is; None: the code's own
    version: int | None = None  # of that policy
    rule_id: str = ""
    risk: str = ""  # where the rule says another than the tool
    escalated: bool = False  # the first step of the escalation is taken at once
