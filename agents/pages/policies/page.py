"""What the Policies page shows, whatever was asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render

from agents.models import Policy, StickyRule
from agents.pages.policies.conditions import WHAT
from agents.pages.policies.draft import Draft, draft_of
from agents.pages.policies.outlook import Outlook
from agents.pages.policies.people import names_people, people_of
from agents.pages.policies.rule_form import RuleForm, form_of, with_problems
from agents.pages.policies.scope import Hits, Scope, hits, remembered, tabs
from agents.pages.policies.trial import Trial, trial_of
from agents.pages.principal import MemberRequest
from agents.pages.rules import EXCLUDED, OPS, THEN, Names, Said, predicate, said
from agents.policies import sticky
from agents.pure.policies import Problem
from agents.tools import registry
from checkpoints import gate
from checkpoints.access import Role, UserPrincipal
from checkpoints.models import Group

RISKS = ("low", "medium", "high", "critical")
OUTCOMES = (
    ("require", "ask people"),
    ("auto_approve", "let it run"),
    ("auto_reject", "refuse it, with the message"),
    ("escalate", "ask people, and take the first step of the escalation at once"),
    ("stop_run", "stop the run"),
)


@dataclass(frozen=True)
class RuleRow:
    """One rule in the list."""

    index: int
    said: Said
    hits: Hits
    is_open: bool
    wrong: bool

    @property
    def place(self) -> int:
        return self.index + 1


@dataclass(frozen=True)
class Kept:
    """A remembered rule in the list; `when` is None where it is sealed."""

    row: StickyRule
    when: str | None
    may_revoke: bool


@dataclass(frozen=True)
class Shown:
    """What a request comes to, besides what the page always shows."""

    draft: Draft
    form: RuleForm | None = None  # as typed; else as the draft has the open rule
    dry: Outlook | None = None
    trial: Trial | None = None  # a call that was tried; else the empty box
    conflict: Policy | None = None
    failed: str = ""
    problems: list[Problem] = field(default_factory=list)
    note: str = ""
    restored: int | None = None
    lost_draft: bool = False
    chosen: bool = False  # a rule was asked for: on a phone it is shown, not the list
    status: int = 200


def page(
    request: MemberRequest, scope: Scope, newest: Policy | None, shown: Shown
) -> HttpResponse:
    """`newest` is the version in force, where there is one."""
    principal, draft = request.principal, shown.draft
    groups = {
        str(group.pk): group.name
        for group in Group.objects.for_user(principal).order_by("name")
    }
    editing = may_edit(principal)
    form = shown.form
    if form is None and draft.open is not None and editing:
        mine = [one for one in shown.problems if one.index == draft.at]
        form = with_problems(form_of(draft.open), mine)
    people = {}
    if form is not None or names_people(draft.rules):
        people = people_of(principal)
    names = groups | people
    tools = [tool for agent in registry for tool in agent.tools]
    if scope.name in registry:
        tools = list(registry.agent(scope.name).tools)
    agents = [agent.name for agent in registry]
    return render(
        request,
        "policies.html",
        {
            **shown.__dict__,
            "scope": scope,
            "tabs": tabs(principal, scope),
            "newest": newest,
            "rows": _rows(principal, scope, newest, shown, names),
            "remembered": _remembered(principal, scope),
            "form": form,
            "shown": said(draft.open, names) if draft.open is not None else None,
            "may_edit": editing,
            "changed": shown.form is not None or _differs(draft, newest),
            "elsewhere": [
                (problem.index + 1, problem.text)
                for problem in shown.problems
                if problem.index != draft.at
            ],
            "trial": shown.trial
            or (trial_of(scope, request.POST) if editing else None),
            "test_with": scope.name or (agents[0] if agents else ""),
            "groups": groups.items(),
            "people": people.items(),
            "tools": sorted({tool.name for tool in tools}),
            "risks": RISKS,
            "outcomes": OUTCOMES,
            "excluded": EXCLUDED.items(),
            "then": [(value, words) for value, (words, _) in THEN.items()],
            "what": WHAT.items(),
            "ops": OPS.items(),
        },
        status=shown.status,
    )


def _remembered(principal: UserPrincipal, scope: Scope) -> list[Kept]:
    """With what they say, for who may read: it is opened, and that is recorded."""
    rows = remembered(principal, scope)
    said_: list[Any] = [None] * len(rows)
    if rows and principal.may_read:
        threads = {row.thread_id: row.thread for row in rows}.values()
        opened = gate.admit(principal, purpose="remembered rules", threads=threads)
        said_ = list(sticky.shown(rows, opened))
    return [
        Kept(
            row,
            None if when is None else predicate(when),
            principal.may_read
            and (principal.can_approve or row.made_by_id == principal.user_id),
        )
        for row, when in zip(rows, said_, strict=True)
    ]


def _rows(
    principal: UserPrincipal,
    scope: Scope,
    newest: Policy | None,
    shown: Shown,
    groups: Names,
) -> list[RuleRow]:
    found = hits(principal, scope) if newest else {}
    wrong = {problem.index for problem in shown.draft.problems}
    return [
        RuleRow(
            index,
            said(rule, groups),
            found.get(_id(rule), Hits()),
            index == shown.draft.at,
            index in wrong,
        )
        for index, rule in enumerate(shown.draft.rules)
    ]


def may_edit(principal: UserPrincipal) -> bool:
    return principal.role is Role.ADMIN


def _differs(draft: Draft, newest: Policy | None) -> bool:
    saved = draft_of(newest.rules if newest else [], 0)
    return draft.fingerprint != saved.fingerprint


def _id(rule: Mapping[str, Any]) -> str:
    return str(rule.get("id") or "")
