"""What a remembered rule would have let go, before it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from agents.approvals.asked import asked_of
from agents.models import Approval, Decision, StickyRule
from agents.policies.opened import arguments_of
from agents.policies.remembered import exact, leaves, require_narrow
from agents.pure import policy
from checkpoints import gate
from checkpoints.access import UserPrincipal
from checkpoints.models import Thread

BACK = timedelta(days=30)
MOST_REQUESTS = 2_000  # that are looked at, the newest

Scope = StickyRule.Scope


@dataclass(frozen=True)
class BackTest:
    """What a rule would have let go of what was asked in the last 30 days."""

    would_approve: int
    rejected: tuple[str, ...]  # of those, what people rejected: APR-2041, newest first
    edited: tuple[str, ...]  # and what they changed before it ran
    looked_at: int
    more: bool  # there were more requests than were looked at


def back_test(
    approval: Approval,
    by: UserPrincipal,
    scope: str,
    predicate: Mapping[str, Any] | None = None,
) -> BackTest:
    """What such a rule would have let go of the requests that `by` may see.

    Raises InvalidSticky, and what the gate raises.
    """
    opener = gate.admit(by, purpose="back-test", threads=[approval.thread])
    call = approval.call
    arguments = asked_of(opener, call)
    when = exact(arguments) if predicate is None else predicate
    require_narrow(when, arguments)
    paths = set(leaves(arguments))
    asked = _asked(approval, by, scope)
    requests, more = asked[:MOST_REQUESTS], len(asked) > MOST_REQUESTS
    threads = [Thread(pk=pk) for pk in {each.thread_id for each in requests}]
    opener = gate.admit(by, purpose="back-test", threads=threads)
    opened = arguments_of([each.call_id for each in requests], opener, by)
    alike = [
        each
        for each, values in zip(requests, opened, strict=True)
        if isinstance(values, dict)
        and set(leaves(values)) <= paths
        and policy.answer(when, values) is True
    ]
    edited = set(
        Decision.objects.for_user(by)
        .filter(approval__in=alike, verdict=Decision.Verdict.EDIT)
        .values_list("approval_id", flat=True)
    )
    rejected = Approval.Status.REJECTED
    return BackTest(
        would_approve=len(alike),
        rejected=tuple(str(each) for each in alike if each.status == rejected),
        edited=tuple(str(each) for each in alike if each.pk in edited),
        looked_at=len(requests),
        more=more,
    )


def _asked(approval: Approval, by: UserPrincipal, scope: str) -> list[Approval]:
    """The newest first, one more than are looked at."""
    asked = Approval.objects.for_user(by).filter(
        kind=Approval.Kind.APPROVAL,
        call__tool=approval.call.tool,
        run__agent_version__agent=approval.run.agent_version.agent_id,
        asked_at__gt=Now() - BACK,
    )
    if scope in (Scope.ONCE, Scope.THREAD):
        asked = asked.filter(thread=approval.thread_id)
    elif scope == Scope.RUN:
        asked = asked.filter(run=approval.run_id)
    # What is sealed is left where it is: of each request this much is looked at.
    found = asked.only("number", "status", "thread_id", "call_id")
    return list(found.order_by("-asked_at", "-number")[: MOST_REQUESTS + 1])
