"""Whom a step of an escalation can name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agents.pages.inbox.activity import name_of
from agents.pages.rules import person_key
from checkpoints.access import Role, UserPrincipal
from checkpoints.models import Membership


def names_people(rules: Iterable[Any]) -> bool:
    """Whether a step of one of these rules does, so that their names are needed."""
    for rule in rules:
        terms = rule.get("terms") if isinstance(rule, Mapping) else None
        steps = terms.get("escalation") if isinstance(terms, Mapping) else None
        for step in steps if isinstance(steps, list) else ():
            if isinstance(step, Mapping) and step.get("person") is not None:
                return True
    return False


def people_of(principal: UserPrincipal) -> dict[str, str]:
    """Names of the members who may approve, by what stands for them in the form."""
    members = Membership.objects.for_user(principal).filter(
        can_approve=True, user__is_active=True
    )
    found = {
        person_key(member.user_id): name_of(member.user)
        for member in members.exclude(role=Role.AUDITOR).select_related("user")
    }
    return dict(sorted(found.items(), key=lambda each: each[1]))
