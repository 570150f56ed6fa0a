"""Whose policy a page is about: the workspace's, or one agent's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, F, Max, Q, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast
from django.http import Http404
from django.urls import reverse

from agents.models import Agent, Policy, StickyRule
from agents.tools import registry
from checkpoints import clock
from checkpoints.access import UserPrincipal
from checkpoints.models import AuditEvent

WEEK = timedelta(days=7)
MONTH = timedelta(days=30)
# What is recorded of a call that a rule decided, or asked people about.
HITS = ("ask", "auto_approve", "auto_reject", "stop_run")
TABS = 6  # agents beside the workspace; the others are in a menu


@dataclass(frozen=True)
class Scope:
    """`name` is empty for the workspace's policy; `agent` None where it never ran."""

    name: str = ""
    agent: Agent | None = None

    @property
    def said(self) -> str:
        return self.name or "every agent"

    @property
    def page(self) -> str:
        if self.name:
            return reverse("agents:policies_of", args=[self.name])
        return reverse("agents:policies")

    @property
    def versions(self) -> str:
        if self.name:
            return reverse("agents:policy_versions_of", args=[self.name])
        return reverse("agents:policy_versions")

    def known(self, principal: UserPrincipal) -> Agent | None:
        """The agent, as if it had run here; None for the workspace."""
        if not self.name or self.agent is not None:
            return self.agent
        return Agent(name=self.name, workspace_id=principal.workspace_id)

    def policies(self, principal: UserPrincipal) -> Any:
        """All versions of it, the newest first."""
        of = Policy.objects.for_user(principal).select_related("made_by")
        if self.name and self.agent is None:
            return of.none()
        return of.filter(agent=self.agent).order_by("-version")

    def saved_for(self, principal: UserPrincipal) -> Agent | None:
        """The agent's row, made where it never ran here; None for the workspace."""
        if not self.name or self.agent is not None:
            return self.agent
        made, _ = Agent.objects.for_user(principal).get_or_create(
            name=self.name, defaults={"workspace_id": principal.workspace_id}
        )
        return made


@dataclass(frozen=True)
class Hits:
    """How often a rule decided or asked, and when it last did."""

    week: int = 0
    last: datetime | None = None  # within the last 30 days


def scope_of(principal: UserPrincipal, name: str) -> Scope:
    """Raises Http404 for an agent that neither code nor the workspace knows."""
    if not name:
        return Scope()
    agent = Agent.objects.for_user(principal).filter(name=name).first()
    if agent is None and name not in registry:
        raise Http404
    return Scope(name, agent)


def tabs(principal: UserPrincipal, here: Scope) -> tuple[list[Scope], list[Scope]]:
    """Agents as tabs, and those for which there is no room; where one is, is a tab."""
    known = Agent.objects.for_user(principal).values_list("name", flat=True)
    names = sorted({*known, *(agent.name for agent in registry)})
    if here.name in names[TABS:]:
        names.remove(here.name)
        names.insert(0, here.name)
    scopes = [Scope(name) for name in names]
    return scopes[:TABS], scopes[TABS:]


def hits(principal: UserPrincipal, scope: Scope) -> dict[str, Hits]:
    """By the rule's id, over all versions of the policy. From the audit log."""
    now = clock.now()
    versions = scope.policies(principal).order_by()
    found = (
        AuditEvent.objects.for_user(principal)
        .annotate(policy=KeyTextTransform("policy", "detail"))
        .filter(
            at__gt=now - MONTH,
            action__in=HITS,
            policy__in=versions.annotate(text=Cast("pk", TextField())).values("text"),
        )
        .order_by()
        .values(rule=F("detail__rule"))
        .annotate(week=Count("pk", filter=Q(at__gt=now - WEEK)), last=Max("at"))
    )
    return {str(row["rule"]): Hits(row["week"], row["last"]) for row in found}


def remembered(principal: UserPrincipal, scope: Scope) -> list[StickyRule]:
    """What people want remembered and is in force, in threads that this person sees."""
    if scope.name and scope.agent is None:
        return []
    live = StickyRule.objects.for_user(principal).filter(
        revoked_at=None, expires_at__gt=clock.now()
    )
    if scope.agent is not None:
        live = live.filter(agent=scope.agent)
    return list(
        live.select_related("agent", "made_by", "thread").order_by("expires_at")[:100]
    )


def number_of(text: str) -> int | None:
    """A version, or a place in the list, of an address or a form; None: it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else None
