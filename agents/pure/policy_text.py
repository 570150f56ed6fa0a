"""What is wrong with a policy as it is written: every field, in words for its author."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args
from uuid import UUID

from agents.errors import Problem
from agents.pure import policy
from agents.pure.terms import MOST_GRACE, Excluded, Then
from checkpoints.errors import NotStorable
from checkpoints.pure.codec import canonical

OUTCOMES = ("auto_approve", "require", "auto_reject", "escalate", "stop_run")
RISKS = ("low", "medium", "high", "critical")
MOST_RULES = 200
MOST_CONDITIONS = 200  # of a rule
MOST_VALUES = 1_000  # of a list that an argument is looked for in
MOST_COUNTED = 50  # counts and sums of a policy: each is a lock while a call is judged
NAME_CHARACTERS = 100
MESSAGE_CHARACTERS = 500
MOST_APPROVERS = 20
MOST_STEPS = 10  # of an escalation
LONGEST = 90 * 24 * 3600  # seconds until a deadline, or a step of an escalation
MOST_PRIORITY = 9
MOST_USER = 2**31 - 1  # the highest id of a user

_ID = re.compile(r"[A-Za-z0-9_-]{1,40}\Z")
_GLOB = re.compile(r"[A-Za-z0-9_*?-]{1,100}\Z")
_FIELDS = frozenset(
    {"id", "name", "tools", "risks", "when", "outcome", "message", "risk", "terms"}
)


def problems(stored: object) -> list[Problem]:
    """Whatever it is given, it does not raise."""
    if not isinstance(stored, list):
        return [Problem(-1, "", "A policy is a list of rules.")]
    if len(stored) > MOST_RULES:
        return [Problem(-1, "", f"A policy has at most {MOST_RULES} rules.")]
    seen: set[str] = set()
    found: list[Problem] = []
    counted = 0
    for index, rule in enumerate(stored):
        when = rule.get("when") if isinstance(rule, dict) else None
        counted += len(policy.windows(when))
        if counted > MOST_COUNTED:
            text = f"A policy has at most {MOST_COUNTED} counts and sums."
            found.append(Problem(index, "when", text))
        found += (Problem(index, name, text) for name, text in _of_rule(rule))
        id_ = rule.get("id") if isinstance(rule, dict) else None
        if isinstance(id_, str):
            if id_ in seen:
                found.append(Problem(index, "id", "Another rule has this id."))
            seen.add(id_)
    return found


def _of_rule(rule: object) -> Iterator[tuple[str, str]]:
    if not isinstance(rule, dict):
        yield "", "A rule is an object."
        return
    for other in sorted(str(field) for field in rule if field not in _FIELDS):
        yield "", f"A rule has no “{other[:40]}”."
    if not _is_like(_ID, rule.get("id")):
        yield "id", "1 to 40 letters, digits, - and _."
    name = rule.get("name")
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= NAME_CHARACTERS:
        yield "name", f"Name it, in at most {NAME_CHARACTERS} characters."
    if rule.get("outcome") not in OUTCOMES:
        yield "outcome", f"One of {', '.join(OUTCOMES)}."
    if not _is_like(_GLOB, rule.get("tools") or "*"):
        yield "tools", "A tool's name; * stands for any letters, ? for one."
    if not _all_in(rule.get("risks") or [], RISKS):
        yield "risks", f"A list of {', '.join(RISKS)}."
    if rule.get("risk") and not _all_in([rule["risk"]], RISKS):
        yield "risk", f"One of {', '.join(RISKS)}."
    when = rule.get("when")
    if when is not None and (wrong := policy.problem(when, counts=True)):
        yield "when", f"{wrong[:1].upper()}{wrong[1:]}."
    elif not _is_json(when):
        yield "when", "Plain JSON: no number that is none, no half characters."
    elif too_many := _too_many(when):
        yield "when", too_many
    message = rule.get("message") or ""
    if not isinstance(message, str) or len(message) > MESSAGE_CHARACTERS:
        yield "message", f"A text of at most {MESSAGE_CHARACTERS} characters."
    terms = rule.get("terms")
    if terms is None:
        terms = {}
    if not isinstance(terms, dict):
        yield "terms", "Terms are an object."
        return
    yield from _of_terms(terms)
    escalates = rule.get("outcome") == "escalate" or terms.get("then") == "escalate"
    if escalates and not terms.get("escalation"):
        yield "terms.escalation", "Say to whom: it needs a step."


def _too_many(when: object) -> str:
    """What would take too long to answer for each call; empty where nothing would."""
    asked = policy.conditions(when)
    if len(asked) > MOST_CONDITIONS:
        return f"At most {MOST_CONDITIONS} conditions."
    for one in asked:
        values = one.get("value")
        if isinstance(values, list) and len(values) > MOST_VALUES:
            return f"A list of at most {MOST_VALUES:,} values."
    return ""


def _of_terms(terms: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    for name, value in terms.items():
        check, text = _TERMS.get(name, (None, ""))
        if check is None:
            yield "terms", f"Terms have no “{str(name)[:40]}”."
        elif not check(value):
            yield f"terms.{name}", text


def _is_json(value: object) -> bool:
    try:
        canonical(value)
    except NotStorable:
        return False
    return True


def _is_like(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and bool(pattern.match(value))


def _all_in(value: object, known: tuple[str, ...]) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, str) and item in known for item in value
    )


def _whole(least: int, most: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_id(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return str(UUID(value)) == value
    except ValueError:
        return False


def _are_ids(value: object) -> bool:
    return isinstance(value, list) and len(value) <= 50 and all(map(_is_id, value))


def _are_steps(value: object) -> bool:
    if not isinstance(value, list) or len(value) > MOST_STEPS:
        return False
    last = -1
    for step in value:
        if not isinstance(step, dict) or not {"after"} <= set(step) <= _STEP:
            return False
        if not _whole(last + 1, LONGEST)(step["after"]):
            return False
        group = step.get("group")
        if group is not None and not _is_id(group):
            return False
        person = step.get("person")
        if person is not None and (group or not _whole(1, MOST_USER)(person)):
            return False
        if not _whole(0, MOST_PRIORITY)(step.get("priority", 0)):
            return False
        last = step["after"]
    return True


_STEP = frozenset({"after", "group", "person", "priority"})
_TERMS: dict[object, tuple[Callable[[object], bool], str]] = {
    "approvers": (_whole(1, MOST_APPROVERS), f"A number from 1 to {MOST_APPROVERS}."),
    "groups": (_are_ids, "A list of ids of groups."),
    "exclude": (
        lambda value: _all_in(value, get_args(Excluded)),
        f"A list of {', '.join(get_args(Excluded))}.",
    ),
    "deadline": (
        lambda value: value is None or _whole(1, LONGEST)(value),
        f"Seconds, from 1 to {LONGEST}.",
    ),
    "then": (
        lambda value: isinstance(value, str) and value in get_args(Then),
        f"One of {', '.join(get_args(Then))}.",
    ),
    "escalation": (
        _are_steps,
        "A list of steps, each later than the one before: after (seconds), group (an id)"
        f" or person (a user's number), and priority (0 to {MOST_PRIORITY}).",
    ),
    "grace": (_whole(0, MOST_GRACE), f"Seconds, from 0 to {MOST_GRACE}."),
    "reauthenticate": (_is_flag, "True or false."),
    "typed": (_is_flag, "True or false."),
}
