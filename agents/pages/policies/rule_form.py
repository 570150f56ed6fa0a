"""One rule as a form: its JSON as fields, and what was typed as JSON again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any

from django.http import QueryDict

from agents.pages.policies.conditions import MOST_ROWS, WHAT, Row, read, rows_of
from agents.pages.rules import person_key, span
from agents.pure.policies import FOUR_EYES, Problem
from agents.pure.policy_text import MOST_STEPS
from checkpoints.errors import NotJson
from checkpoints.pure.codec import load_strict

_UNITS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_SPAN = re.compile(r"([0-9]{1,8}) *(s|sec|m|min|h|d)\Z")
_PERSON = re.compile(person_key(r"([0-9]{1,10})\Z"))
NO_SPAN = "A number and a unit: 45 s, 30 min, 6 h or 2 d."


@dataclass(frozen=True)
class Step:
    """One step of an escalation, as typed."""

    after: str = ""
    group: str = ""  # its id, or a person's key (`person_key`)
    priority: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.after.strip() or self.group or self.priority.strip())


@dataclass(frozen=True)
class RuleForm:
    """What the fields show. `errors` are by field: "name", "terms.deadline"."""

    id: str
    name: str = ""
    tools: str = ""
    risks: tuple[str, ...] = ()
    mode: str = "all"
    rows: tuple[Row, ...] = ()
    as_json: bool = False  # the predicate is typed as JSON
    when_json: str = ""
    outcome: str = "require"
    message: str = ""
    risk: str = ""
    approvers: str = "1"
    groups: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    deadline: str = ""
    then: str = "reject"
    steps: tuple[Step, ...] = ()
    grace: str = ""
    reauthenticate: bool = False
    typed: bool = False
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def wrong(self) -> dict[str, str]:
        """The errors as templates can name them: "terms_deadline"."""
        return {name.replace(".", "_"): text for name, text in self.errors.items()}

    @property
    def wrong_fields(self) -> list[tuple[str, str]]:
        """Where what is wrong stands, as (id, label), in the order of the form."""
        return [
            ("r-json" if name == "when" and self.as_json else at, label)
            for name, at, label in _PLACES
            if name in self.errors
        ]

    @property
    def wrong_elsewhere(self) -> list[str]:
        """What is wrong that no field shows."""
        known = {name for name, *_ in _PLACES} | {"rule", "id"}
        return [text for name, text in self.errors.items() if name not in known]

    @property
    def shown_rows(self) -> Sequence[Row]:
        """With an empty one at the end, so that a condition can be added without script."""
        full = len(self.rows) >= MOST_ROWS
        return self.rows if full else (*self.rows, Row())

    @property
    def shown_steps(self) -> Sequence[Step]:
        full = len(self.steps) >= MOST_STEPS
        return self.steps if full else (*self.steps, Step())


def blank() -> dict[str, Any]:
    """A rule to begin with. Its id is new: what older rules counted is not its own."""
    return {
        "id": f"r-{token_hex(4)}",
        "name": "",
        "tools": "*",
        "risks": [],
        "when": None,
        "outcome": "require",
        "message": "",
        "risk": None,
        "terms": {},
    }


def form_of(rule: Mapping[str, Any]) -> RuleForm:
    """The fields of a rule, whatever is in it."""
    kept = rule.get("terms")
    terms: Mapping[str, Any] = kept if isinstance(kept, Mapping) else {}
    when = rule.get("when")
    rows = rows_of(when)
    many = isinstance(terms.get("approvers"), int) and terms["approvers"] > 1
    return RuleForm(
        id=_text(rule.get("id")),
        name=_text(rule.get("name")),
        tools=_text(rule.get("tools")) or "*",
        risks=_words(rule.get("risks")),
        mode=rows[0] if rows else "all",
        rows=tuple(rows[1]) if rows else (),
        as_json=rows is None,
        when_json=_pretty(when),
        outcome=_text(rule.get("outcome")),
        message=_text(rule.get("message")),
        risk=_text(rule.get("risk")),
        approvers=_text(terms.get("approvers", 1)),
        groups=_words(terms.get("groups")),
        exclude=_words(terms.get("exclude", FOUR_EYES if many else ())),
        deadline="" if terms.get("deadline") is None else span(terms["deadline"]),
        then=_text(terms.get("then", "reject")),
        steps=tuple(_steps(terms.get("escalation"))),
        grace=_text(terms.get("grace")),
        reauthenticate=terms.get("reauthenticate") is True,
        typed=terms.get("typed") is True,
    )


def posted(post: QueryDict, was: Mapping[str, Any]) -> RuleForm:
    """The fields as they were typed, for a rule that was `was`."""
    rows = []
    for n in range(MOST_ROWS):
        if f"c{n}-op" not in post:
            break
        what = post.get(f"c{n}-what", "path")
        rows.append(
            Row(
                what=what if what in WHAT else "path",  # type: ignore[arg-type]  # one of them
                path=post.get(f"c{n}-path", ""),
                hours=post.get(f"c{n}-hours", ""),
                op=post.get(f"c{n}-op", ""),
                value=post.get(f"c{n}-value", ""),
            )
        )
    steps = [
        Step(
            post.get(f"e{n}-after", ""),
            post.get(f"e{n}-group", ""),
            post.get(f"e{n}-priority", ""),
        )
        for n in range(MOST_STEPS)
        if f"e{n}-after" in post
    ]
    return RuleForm(
        id=_text(was.get("id")),
        name=post.get("name", ""),
        tools=post.get("tools", ""),
        risks=tuple(post.getlist("risks")),
        mode="any" if post.get("mode") == "any" else "all",
        rows=tuple(row for row in rows if not row.is_empty),
        as_json=post.get("as") == "json",
        when_json=post.get("when_json", ""),
        outcome=post.get("outcome", ""),
        message=post.get("message", ""),
        risk=post.get("risk", ""),
        approvers=post.get("approvers", ""),
        groups=tuple(post.getlist("groups")),
        exclude=tuple(post.getlist("exclude")),
        deadline=post.get("deadline", ""),
        then=post.get("then", "reject"),
        steps=tuple(step for step in steps if not step.is_empty),
        grace=post.get("grace", ""),
        reauthenticate="reauthenticate" in post,
        typed="typed" in post,
    )


def rule_of(form: RuleForm, was: Mapping[str, Any]) -> tuple[dict[str, Any], RuleForm]:
    """The rule that the fields say, and the fields with what cannot be read in them.

    What the form has no field for stays as it was. Whether it is a rule that may be saved
    is for `problems` to say.
    """
    errors: dict[str, str] = {}
    if form.as_json:
        when, checked = _parsed(form.when_json, errors), list(form.rows)
    else:
        when, checked = read(form.mode, list(form.rows))
        if any(row.errors for row in checked):
            errors["when"] = "A condition is not complete."
    terms = (
        deepcopy(dict(kept)) if isinstance(kept := was.get("terms"), Mapping) else {}
    )
    before = terms.get("approvers", 1)
    approvers = _number("approvers", form.approvers or "1", errors)
    exclude = list(form.exclude)
    newly_many = isinstance(before, int) and before < 2 and (approvers or 0) > 1
    if newly_many and not exclude:
        exclude = list(FOUR_EYES)  # unless somebody unticks them
    given: dict[str, Any] = {
        "approvers": approvers,
        "groups": list(form.groups),
        "exclude": exclude,
        "deadline": _seconds("deadline", form.deadline, errors),
        "then": form.then,
        "escalation": _escalation(form.steps, errors),
        "grace": _number("grace", form.grace, errors) if form.grace.strip() else None,
        "reauthenticate": form.reauthenticate,
        "typed": form.typed,
    }
    usual = {
        "approvers": 1,
        "groups": [],
        "deadline": None,
        "then": "reject",
        "escalation": [],
        "grace": None,
        "reauthenticate": False,
        "typed": False,
        "exclude": None if (approvers or 0) > 1 else [],
    }
    for name, value in given.items():
        if value == usual[name]:
            terms.pop(name, None)
        else:
            terms[name] = value
    rule = {
        **was,
        "name": form.name.strip(),
        "tools": form.tools.strip() or "*",
        "risks": list(form.risks),
        "when": when,
        "outcome": form.outcome,
        "message": form.message.strip(),
        "risk": form.risk or None,
        "terms": terms,
    }
    return rule, replace(form, rows=tuple(checked), errors=errors)


def with_problems(form: RuleForm, found: Iterable[Problem]) -> RuleForm:
    """The fields with what is wrong with them, as it would be saved."""
    errors = dict(form.errors)
    for problem in found:
        errors.setdefault(problem.field or "rule", problem.text)
    return replace(form, errors=errors)


def seconds(text: str) -> int | None:
    """Of `6 h`; None for what is no span."""
    found = _SPAN.match(text.strip())
    return int(found[1]) * _UNITS[found[2]] if found else None


def _parsed(text: str, errors: dict[str, str]) -> Any:
    if not text.strip():
        return None
    try:
        return load_strict(text)
    except NotJson as error:
        errors["when"] = f"This is not JSON. {error}"
        return None


def _number(name: str, text: str, errors: dict[str, str]) -> int | None:
    if re.fullmatch(r"[0-9]{1,6}", text.strip()):
        return int(text)
    errors[f"terms.{name}"] = "A whole number."
    return None


def _seconds(name: str, text: str, errors: dict[str, str]) -> int | None:
    if not text.strip():
        return None
    found = seconds(text)
    if found is None:
        errors[f"terms.{name}"] = NO_SPAN
    return found


def _escalation(steps: Iterable[Step], errors: dict[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for step in steps:
        after = seconds(step.after)
        priority = step.priority.strip() or "0"
        if after is None:
            errors["terms.escalation"] = f"After how long? {NO_SPAN}"
        elif not re.fullmatch(r"[0-9]{1,3}", priority):
            errors["terms.escalation"] = "A priority is a whole number."
        else:
            made: dict[str, Any] = {"after": after}
            if person := _PERSON.match(step.group):
                made["person"] = int(person[1])
            elif step.group:
                made["group"] = step.group
            if int(priority):
                made["priority"] = int(priority)
            found.append(made)
    return found


def _steps(kept: Any) -> Iterable[Step]:
    for step in kept if isinstance(kept, list) else ():
        if isinstance(step, Mapping):
            yield Step(
                after=span(step.get("after", "")),
                group=person_key(step["person"])
                if step.get("person") is not None
                else _text(step.get("group")),
                priority=_text(step.get("priority") or ""),
            )


def _words(kept: Any) -> tuple[str, ...]:
    return tuple(map(str, kept)) if isinstance(kept, list | tuple) else ()


def _text(kept: Any) -> str:
    return "" if kept is None else str(kept)


def _pretty(value: Any) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)


# Of each field that can be wrong: the element that says so, or has it, and its label.
_PLACES = (
    ("name", "r-name", "Name"),
    ("tools", "r-tools", "Tools"),
    ("risks", "r-risks-e", "Of risk"),
    ("when", "r-when-e", "Conditions"),
    ("outcome", "r-outcome", "Outcome"),
    ("message", "r-message", "Message"),
    ("risk", "r-risk", "Show as"),
    ("terms.approvers", "r-approvers", "Approvers"),
    ("terms.groups", "r-groups-e", "Of groups"),
    ("terms.exclude", "r-exclude-e", "Not allowed"),
    ("terms.deadline", "r-deadline", "Deadline"),
    ("terms.then", "r-then-e", "After the deadline"),
    ("terms.escalation", "r-escalation-e", "Escalation"),
    ("terms.grace", "r-grace", "Undo for"),
)
