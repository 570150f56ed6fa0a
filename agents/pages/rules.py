"""A rule of a policy in words: which calls, when, and what then.

From the JSON of `agents/pure/policies.py`. Total: what it does not know is shown as JSON,
so that no rule that is in force is ever left out of a page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.tools.declared import Rule as Declared

OPS = {
    "eq": "is",
    "ne": "is not",
    "gt": "is over",
    "gte": "is at least",
    "lt": "is under",
    "lte": "is at most",
    "in": "is one of",
    "not_in": "is none of",
    "starts_with": "starts with",
    "contains": "contains",
    "exists": "is there",
    "matches": "matches",
}
# What a rule does with a call: colour, icon, word.
OUTCOMES = {
    "auto_approve": ("jade", "check", "runs"),
    "require": ("amber", "clock", "asks"),
    "escalate": ("amber", "up", "escalates"),
    "auto_reject": ("red", "x", "refused"),
    "stop_run": ("red", "stop", "stops the run"),
}
EXCLUDED = {
    "starter": "who started the run",
    "author": "who wrote its last message",
    "editor": "who edited the arguments",
}
# What the deadline does: in a form, and in a sentence.
THEN = {
    "reject": ("reject it", "then it is rejected"),
    "escalate": ("escalate it", "then it escalates"),
    "hold": ("hold it", "then it is held"),
}

Names = Mapping[str, str]  # of groups, by their id, and of people, by `person_key`


@dataclass(frozen=True)
class Said:
    """A rule as a page shows it."""

    id: str
    name: str
    tools: str
    when: str  # "" for always
    outcome: str
    colour: str
    icon: str
    word: str  # "2 of Finance", "refused"
    terms: tuple[str, ...] = ()
    message: str = ""
    risks: tuple[str, ...] = ()
    risk: str = ""

    @property
    def about(self) -> str:
        """One line: which calls, and on which terms."""
        risks = f"{' or '.join(self.risks)} risk" if self.risks else ""
        parts = (self.tools, risks, self.when, *self.terms)
        return ", ".join(part for part in parts if part and part != "*") or "any call"


def said(rule: Any, groups: Names | None = None) -> Said:
    """Of a rule's JSON."""
    if not isinstance(rule, Mapping):
        return Said("", "?", "", _json(rule), "", "red", "alert", "not a rule")
    groups = groups or {}
    outcome = str(rule.get("outcome") or "")
    colour, icon, word = OUTCOMES.get(outcome, ("red", "alert", outcome or "?"))
    kept = rule.get("terms")
    kept = kept if isinstance(kept, Mapping) else {}
    if outcome == "require":
        word = _asks(kept, groups)
    risks = rule.get("risks")
    return Said(
        id=str(rule.get("id") or ""),
        name=str(rule.get("name") or rule.get("id") or "unnamed"),
        tools=str(rule.get("tools") or "*"),
        when=predicate(rule["when"]) if rule.get("when") is not None else "",
        outcome=outcome,
        colour=colour,
        icon=icon,
        word=word,
        terms=terms(kept, groups) if outcome in ("require", "escalate") else (),
        message=str(rule.get("message") or ""),
        risks=tuple(map(str, risks)) if isinstance(risks, list) else (),
        risk=str(rule.get("risk") or ""),
    )


def declared(name: str, rule: Declared | None, question: bool) -> Said:
    """Of the rule that a tool declares in code; None where it never asks."""
    if rule is None:
        colour, icon, word = OUTCOMES["auto_approve"]
        return Said("", "asks nobody", name, "", "auto_approve", colour, icon, word)
    colour, icon, word = OUTCOMES["require"]
    when = predicate(rule.when) if rule.when is not None else ""
    word = "asks for an answer" if question else f"{word} 1"
    return Said("", rule.name, name, when, "require", colour, icon, word)


def predicate(when: Any, *, inside: bool = False) -> str:
    """ "/price is over 1000 and sum of /price over 24 h is over 5000"."""
    match when:
        case {"all": list(rules)}:
            return _joined(rules, " and ", "always", inside)
        case {"any": list(rules)}:
            return _joined(rules, " or ", "never", inside)
        case {"not": rule}:
            return f"not ({predicate(rule)})"
        case {"sum": str(path), "over_hours": hours, "op": str(op), "value": value}:
            return f"sum of {path} over {hours} h {OPS.get(op, op)} {_value(value)}"
        case {"count": True, "over_hours": hours, "op": str(op), "value": value}:
            return f"calls over {hours} h: {OPS.get(op, op)} {_value(value)}"
        case {"path": str(path), "op": "exists", **rest}:
            absent = rest.get("value") is False
            return f"{path} {'is absent' if absent else 'is there'}"
        case {"path": str(path), "op": str(op), "value": value}:
            return f"{path} {OPS.get(op, op)} {_value(value)}"
    return _json(when)


def terms(kept: Mapping[str, Any], groups: Names) -> tuple[str, ...]:
    """What they demand beyond one approval by anyone with the right to give it."""
    found = []
    if barred := kept.get("exclude"):
        found.append("not " + ", ".join(EXCLUDED.get(one, str(one)) for one in barred))
    if (deadline := kept.get("deadline")) is not None:
        chosen = str(kept.get("then", "reject"))
        then = THEN.get(chosen, (chosen, chosen))[1]
        found.append(f"within {span(deadline)}, {then}")
    for step in kept.get("escalation") or ():
        group, person = step.get("group"), step.get("person")
        told = f"tell {groups.get(str(group), 'a group')}"
        if person is not None:
            told = f"assign to {groups.get(person_key(person), 'somebody')}"
        elif not group:
            told = "tell everyone who may decide"
        found.append(f"after {span(step.get('after', 0))} {told}")
    if grace := kept.get("grace"):
        found.append(f"can be undone for {span(grace)}")
    if kept.get("reauthenticate"):
        found.append("with the password again")
    if kept.get("typed"):
        found.append("the tool's name typed")
    return tuple(found)


def person_key(user_id: object) -> str:
    """What stands for a person where an id of a group could stand."""
    return f"person-{user_id}"


def span(seconds: Any) -> str:
    """`45 s`, `30 min`, `6 h`, `2 d`: as one types it in the editor, too."""
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        return str(seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _asks(kept: Mapping[str, Any], groups: Names) -> str:
    people = kept.get("approvers", 1)
    named = [groups.get(str(pk), "a group") for pk in kept.get("groups") or ()]
    return f"{people} of {' or '.join(named)}" if named else f"asks {people}"


def _joined(rules: list[Any], word: str, empty: str, inside: bool) -> str:
    if not rules:
        return empty
    said_ = word.join(predicate(rule, inside=len(rules) > 1) for rule in rules)
    return f"({said_})" if inside and len(rules) > 1 else said_


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
