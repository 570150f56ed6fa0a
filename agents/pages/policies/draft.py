"""A policy being changed: it travels with the form, so nothing is kept until it is saved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.http import QueryDict

from agents.pages.policies.rule_form import blank
from agents.pure.policies import Problem, problems
from checkpoints.errors import NotJson
from checkpoints.pure.codec import canonical, load_strict


@dataclass(frozen=True)
class Draft:
    """Rules as they would be saved, after version `after` (0: there is none yet)."""

    rules: tuple[Mapping[str, Any], ...]
    after: int
    at: int | None = None  # the rule that is open

    @property
    def text(self) -> str:
        """As the form carries it."""
        return json.dumps(list(self.rules), ensure_ascii=False)

    @property
    def fingerprint(self) -> str:
        """Changes with any of the rules: a dry run counts for these alone."""
        return hashlib.sha256(canonical(list(map(dict, self.rules)))).hexdigest()[:16]

    @property
    def open(self) -> Mapping[str, Any] | None:
        return self.rules[self.at] if self.at is not None else None

    @property
    def problems(self) -> list[Problem]:
        return problems(list(map(dict, self.rules)))

    def with_rule(self, rule: Mapping[str, Any]) -> Draft:
        """With the open rule changed."""
        if self.at is None:
            return self
        rules = list(self.rules)
        rules[self.at] = rule
        return replace(self, rules=tuple(rules))

    def moved(self, place: int, by: int) -> Draft:
        """One rule changes places with its neighbour; what is open stays open."""
        other = place + by
        if not (0 <= place < len(self.rules) and 0 <= other < len(self.rules)):
            return self
        rules = list(self.rules)
        rules[place], rules[other] = rules[other], rules[place]
        at = other if self.at == place else place if self.at == other else self.at
        return replace(self, rules=tuple(rules), at=at)

    def without(self, place: int) -> Draft:
        if not 0 <= place < len(self.rules):
            return self
        rules = self.rules[:place] + self.rules[place + 1 :]
        at = min(place, len(rules) - 1) if rules else None
        return replace(self, rules=rules, at=at)

    def with_new(self) -> Draft:
        """A blank rule, below the others: it changes nothing that they decide."""
        return replace(self, rules=(*self.rules, blank()), at=len(self.rules))

    def opened(self, place: int | None) -> Draft:
        if place is not None and not 0 <= place < len(self.rules):
            place = None
        return replace(self, at=place)


def draft_of(stored: object, after: int) -> Draft:
    """Of rules as they are stored; what is no rule is left out, and is gone once saved."""
    rules = stored if isinstance(stored, list) else []
    return Draft(tuple(rule for rule in rules if isinstance(rule, Mapping)), after)


def posted(post: QueryDict) -> Draft | None:
    """The draft that a form carries; None where it cannot be read."""
    try:
        rules = load_strict(post.get("draft", ""))
    except NotJson:
        return None
    if not isinstance(rules, list) or not all(isinstance(r, dict) for r in rules):
        return None
    after, at = _number(post.get("after", "")), _number(post.get("at", ""))
    if after is None or not storable(rules):
        return None
    return Draft(tuple(rules), after).opened(at)


def storable(value: Any) -> bool:
    """Whether a JSON column takes it: no U+0000, and no half of a character."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return "\\u0000" not in json.dumps(value)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else None
