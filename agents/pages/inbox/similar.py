"""What people said to the same tool of the same agent, lately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.functions import Now

from agents.models import Approval, Decision
from agents.pages.damage import open_each
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.compiled import Compiled

DAYS = 30
SHOWN = 3  # rejections that are told with their reasons
COUNTED = 500  # the newest; more are "500 or more"


@dataclass(frozen=True)
class Rejection:
    approval: Approval
    reason: str = field(repr=False)


@dataclass(frozen=True)
class Similar:
    """Decisions about the same tool of the same agent, as far as one may see them."""

    counts: Counter[str]
    newest: Approval | None = None
    rejections: Sequence[Rejection] = ()
    days: int = DAYS

    @property
    def approved(self) -> int:
        return self.counts[Approval.Status.APPROVED]

    @property
    def rejected(self) -> int:
        return self.counts[Approval.Status.REJECTED]

    @property
    def expired(self) -> int:
        return self.counts[Approval.Status.EXPIRED]

    @property
    def many(self) -> bool:
        return sum(self.counts.values()) >= COUNTED

    def __bool__(self) -> bool:
        return bool(self.counts)


def _decided(
    principal: UserPrincipal, *, pk: UUID, kind: str, tool: str, agent: UUID
) -> QuerySet[Approval]:
    return (
        Approval.objects.for_user(principal)
        .filter(
            kind=kind,
            call__tool=tool,
            run__agent_version__agent=agent,
            decided_at__gte=Now() - timedelta(days=DAYS),
        )
        .exclude(pk=pk)
        .exclude(status=Approval.Status.PENDING)
        .order_by("-decided_at")
        .only("status", "number", "thread_id", "workspace_id")[:COUNTED]
    )


_DECIDED = Compiled(_decided)


def find(principal: UserPrincipal, approval: Approval) -> Similar:
    """Opening the reasons of rejections is recorded."""
    decided = _DECIDED.rows(
        principal,
        pk=approval.pk,
        kind=approval.kind,
        tool=approval.call.tool,
        agent=approval.run.agent_version.agent_id,
    )
    rejected = [one for one in decided if one.status == Approval.Status.REJECTED]
    return Similar(
        counts=Counter(one.status for one in decided),
        newest=decided[0] if decided else None,
        rejections=_reasons(principal, rejected[:SHOWN]),
    )


def _reasons(
    principal: UserPrincipal, rejected: Sequence[Approval]
) -> Sequence[Rejection]:
    if not rejected:
        return ()
    said = {
        decision.approval_id: decision
        for decision in Decision.objects.for_user(principal)
        .filter(approval__in=rejected, verdict=Decision.Verdict.REJECT)
        .select_related("thread")
        .order_by("at")
    }
    decisions = [said[one.pk] for one in rejected if one.pk in said]
    opened = gate.admit(
        principal,
        purpose="similar decisions",
        threads={one.thread_id: one.thread for one in decisions}.values(),
    )
    contents = open_each(opened, decisions, "content")
    by_approval = {
        decision.approval_id: (content or {}).get("reason", "")
        for decision, content in zip(decisions, contents, strict=True)
    }
    return [Rejection(one, by_approval.get(one.pk, "")) for one in rejected]
