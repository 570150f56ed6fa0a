"""The policies of a workspace: which rules are in force, and new versions of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from agents import models
from agents.errors import InvalidPolicy, NotEligible, Outdated
from agents.models import Policy
from agents.pure.policies import Origin, Problem, Rule, problems, rules_of
from checkpoints import audit
from checkpoints.access import Role, UserPrincipal
from checkpoints.db.prepared import Prepared
from checkpoints.models import Group, Membership

NOTE_CHARACTERS = 200
DRAFT = UUID(int=0)  # in the place of a policy that is not saved


@dataclass(frozen=True)
class InForce:
    """The rules that count for an agent's calls, in order: its own, then everyone's."""

    workspace: UUID
    agent: UUID | None
    versions: tuple[UUID, ...]  # the policies that they are of
    rules: tuple[Rule, ...]

    @classmethod
    def of(cls, workspace: UUID, agent: UUID | None, found: str) -> InForce:
        """Of what the statement `IN_FORCE` gives."""
        policies = json.loads(found)
        rules: list[Rule] = []
        for policy in policies:
            origin = Origin(
                UUID(policy["id"]),
                policy["version"],
                UUID(policy["agent"]) if policy["agent"] else None,
            )
            rules += rules_of(policy["rules"], origin)
        versions = tuple(UUID(policy["id"]) for policy in policies)
        return cls(workspace, agent, versions, tuple(rules))


_NEWEST = f"""SELECT DISTINCT ON (agent_id) id, agent_id, version, rules
    FROM {Policy._meta.db_table}
    WHERE workspace_id = {{workspace}} AND (agent_id IS NULL OR agent_id = {{agent}})
    ORDER BY agent_id, version DESC"""  # noqa: S608  # our own names; values are parameters

# An expression: the policies of an agent as JSON, for a statement that knows both ids.
IN_FORCE = f"""(SELECT coalesce(jsonb_agg(jsonb_build_object(
        'id', p.id, 'agent', p.agent_id, 'version', p.version, 'rules', p.rules
    ) ORDER BY p.agent_id IS NULL), '[]')::text FROM ({_NEWEST}) p)"""  # noqa: S608  # as above

_OF = {"workspace": "%(workspace)s", "agent": "%(agent)s"}
_IN_FORCE = Prepared(f"SELECT {IN_FORCE.format(**_OF)}")  # as above
_VERSIONS = Prepared(f"""
SELECT coalesce(string_agg(p.id::text, ' ' ORDER BY p.agent_id IS NULL), '')
FROM ({_NEWEST.format(**_OF)}) p
""")  # noqa: S608  # as above


def in_force(workspace_id: UUID, agent: models.Agent | UUID | None) -> InForce:
    """The rules that count now; without an agent, everyone's."""
    agent_id = agent.pk if isinstance(agent, models.Agent) else agent
    found = _IN_FORCE.row({"workspace": workspace_id, "agent": agent_id})
    assert found is not None  # an aggregate has a row
    return InForce.of(workspace_id, agent_id, found[0] or "[]")


def refreshed(known: InForce) -> InForce:
    """As `known`, if no version was saved since; else what is in force now."""
    found = _VERSIONS.row({"workspace": known.workspace, "agent": known.agent})
    assert found is not None  # as above
    if tuple(map(UUID, (found[0] or "").split())) == known.versions:
        return known
    return in_force(known.workspace, known.agent)


def history(by: UserPrincipal, agent: models.Agent | None) -> list[Policy]:
    """All versions, the newest first; the first is in force."""
    of = Policy.objects.for_user(by).filter(agent=agent).select_related("made_by")
    return list(of.order_by("-version"))


def drafted(
    by: UserPrincipal,
    agent: models.Agent | None,
    rules: object,
    *,
    of: models.Agent | UUID | None,
) -> tuple[Rule, ...]:
    """The rules that would count for calls of the agent `of`, if these were saved.

    Raises InvalidPolicy, which has a problem for each field that is wrong.
    """
    if found := _problems(by, rules):
        raise InvalidPolicy(found)
    own = agent.pk if agent else None
    drawn = rules_of(rules, Origin(DRAFT, 0, own))
    others = in_force(by.workspace_id, of).rules
    rest = [rule for rule in others if rule.origin and rule.origin.agent != own]
    return (*drawn, *rest) if agent else (*rest, *drawn)


def save(
    by: UserPrincipal,
    agent: models.Agent | None,
    rules: list[dict[str, Any]],
    note: str,
    *,
    after_version: int,
) -> Policy:
    """A new version, in force at once; of every agent where `agent` is None.

    `after_version` is the one that the editor began from; 0: there was none. Raises
    NotEligible for all but admins, InvalidPolicy with its problems, and Outdated when
    somebody saved meanwhile.
    """
    _require_admin(by)
    found = _problems(by, rules)
    if len(note) > NOTE_CHARACTERS:
        found.append(Problem(-1, "note", f"At most {NOTE_CHARACTERS} characters."))
    if found:
        raise InvalidPolicy(found)
    with transaction.atomic():
        newest = Policy.objects.for_user(by).filter(agent=agent).order_by("-version")
        last = newest.values_list("version", flat=True).first() or 0
        if last != after_version:
            raise Outdated(after_version, last)
        policy = Policy(
            workspace_id=by.workspace_id,
            agent=agent,
            version=after_version + 1,
            rules=[rule.as_json() for rule in rules_of(rules)],
            note=note.strip(),
            made_by_id=by.user_id,
        )
        try:
            with transaction.atomic():
                policy.save(force_insert=True)
        except IntegrityError:  # somebody else did, this moment
            raise Outdated(after_version, after_version + 1) from None
        audit.record(
            by,
            "policy_save",
            obj=policy,
            agent=agent.pk if agent else None,
            policy_version=policy.version,
            rules=len(rules),
        )
    return policy


def _require_admin(by: UserPrincipal) -> None:
    member = Membership.objects.for_user(by).filter(
        user_id=by.user_id, user__is_active=True, role=Role.ADMIN
    )
    if not member.exists():
        raise NotEligible("Policies are for admins of the workspace to change.")


def _problems(by: UserPrincipal, rules: object) -> list[Problem]:
    found = problems(rules)
    if found or not isinstance(rules, list):
        return found
    known = {str(pk) for pk in Group.objects.for_user(by).values_list("pk", flat=True)}
    for index, rule in enumerate(rules_of(rules)):
        terms = rule.terms
        if not known.issuperset(terms.groups):
            found.append(Problem(index, "terms.groups", _NO_GROUP))
        if not known.issuperset(_groups(step.group for step in terms.escalation)):
            found.append(Problem(index, "terms.escalation", _NO_GROUP))
        named = {step.person for step in terms.escalation if step.person is not None}
        if named and len(named) > _members(by).filter(user__in=named).count():
            found.append(Problem(index, "terms.escalation", _NO_MEMBER))
    return found


_NO_GROUP = "There is no such group in this workspace."
_NO_MEMBER = "There is no such member of this workspace who could decide anything."


def _members(by: UserPrincipal) -> QuerySet[Membership]:
    found = Membership.objects.for_user(by).filter(user__is_active=True)
    return found.exclude(role=Role.AUDITOR)


def _groups(given: Iterable[str | None]) -> Sequence[str]:
    return [group for group in given if group is not None]
