"""Approve and remember: calls that are alike go ahead, until a day, without asking again.

Who may have what remembered, and how it is revoked. `back_test` says what it would have
let go; `recalled`, which calls go ahead by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from agents.approvals.asked import asked_of
from agents.approvals.decide import ineligible
from agents.errors import InvalidSticky, NotEligible, UnknownAgent, UnknownTool
from agents.models import Approval, Decision, StickyRule
from agents.models.approvals import Seen
from agents.policies.recalled import refuses
from agents.policies.remembered import bound, exact, leaves, require_narrow
from agents.policies.stored import in_force
from agents.pure.terms import Demand, Terms
from agents.tools import Tool, registry
from checkpoints import audit, clock, gate
from checkpoints.access import UserPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.pure.codec import same

LONGEST = timedelta(days=90)

Scope = StickyRule.Scope


def offered(approval: Approval, by: UserPrincipal) -> str:
    """Why `by` may not have this remembered; empty when they may."""
    if approval.kind != Approval.Kind.APPROVAL:
        return "Only a call that asks to be made can be remembered."
    demand = Demand(Terms.of(approval.terms), approval.rule, risk=approval.risk)
    tool = _tool(approval)
    if tool is None:
        return "This server does not know the tool."
    if why := refuses(demand, tool):
        return why
    if approval.branch.parent_id:
        return "A fork asks about each call."
    agent = approval.run.agent_version.agent_id
    for rule in in_force(approval.workspace_id, agent).rules:
        if rule.windows and rule.concerns(tool=tool.name, risk=tool.risk):
            return f"“{rule.name}” counts such calls, so each is asked about."
    return ineligible(approval, by)


def remember(
    approval: Approval,
    seen: Seen,
    by: UserPrincipal,
    scope: str,
    predicate: Mapping[str, Any] | None = None,
    *,
    expires_at: datetime,
) -> StickyRule:
    """Let calls that are alike go ahead until then. `by` has just approved this one.

    Without a `predicate`, exactly these arguments; else `{"all": [...]}` of conditions
    on them. Not in a transaction. Raises NotEligible, which says why this is not
    offered, InvalidSticky by field, and what the gate raises.
    """
    if why := offered(approval, by):
        raise NotEligible(why)
    now = clock.now()
    if scope not in Scope.values:
        raise InvalidSticky({"scope": f"One of {', '.join(Scope.values)}."})
    if not now < expires_at <= now + LONGEST:
        raise InvalidSticky({"expires_at": "Until a day within the next 90."})
    tool, call = _tool(approval), approval.call
    assert tool is not None  # `offered` asked
    opener = gate.admit(by, purpose="remember", threads=[approval.thread])
    arguments = asked_of(opener, call)
    when = exact(arguments) if predicate is None else predicate
    require_narrow(when, arguments)
    rule = StickyRule(
        workspace_id=approval.workspace_id,
        agent_id=approval.run.agent_version.agent_id,
        thread_id=approval.thread_id,
        run_id=approval.run_id,
        approval=approval,
        tool=call.tool,
        scope=scope,
        made_by_id=by.user_id,
        expires_at=expires_at,
    )
    more = {"paths": sorted(leaves(arguments)), "version": tool.version}
    rule.predicate = gate.seal(rule, "predicate", bound(rule, when, more))
    with transaction.atomic():
        if not _has_approved(approval, seen, by):
            raise InvalidSticky({"": "Approve it first, as it was shown."})
        rule.save(force_insert=True)
        audit.record(
            by,
            "sticky_make",
            obj=rule,
            approval=approval.pk,
            revision=seen.revision,
            digest=seen.digest.hex(),
            scope=scope,
        )
    return rule


def made_from(
    approval: Approval, by: UserPrincipal, scope: str, predicate: Mapping[str, Any]
) -> StickyRule | None:
    """The rule that `by` had made from this request for just this, the newest."""
    rules = list(
        StickyRule.objects.for_user(by)
        .filter(approval=approval, made_by_id=by.user_id, scope=scope)
        .order_by("-made_at")
    )
    if not rules:
        return None
    opener = gate.admit(by, purpose="remember", threads=[approval.thread])
    kept = zip(rules, shown(rules, opener), strict=True)
    return next((rule for rule, when in kept if same(when, dict(predicate))), None)


def revoke(rule: StickyRule, by: UserPrincipal) -> bool:
    """It lets nothing go any more. False: it was revoked already.

    For whoever may approve or made it; raises NotEligible.
    """
    if rule.made_by_id != by.user_id and (why := ineligible(rule.approval, by)):
        raise NotEligible(why)
    with transaction.atomic():
        live = StickyRule.objects.for_user(by).filter(pk=rule.pk, revoked_at=None)
        if not live.update(revoked_at=ClockTimestamp(), revoked_by_id=by.user_id):
            return False
        audit.record(by, "sticky_revoke", obj=rule)
    return True


def shown(
    rules: Sequence[StickyRule], opener: gate.Pass
) -> list[dict[str, Any] | None]:
    """The predicates, for people; None for what does not open."""
    found = opener.open_each(rules, "predicate")
    return [kept["when"] if isinstance(kept, dict) else None for kept in found]


def _has_approved(approval: Approval, seen: Seen, by: UserPrincipal) -> bool:
    """With the request locked until the transaction ends: whoever takes the approval back
    meanwhile comes after this, and finds what is remembered from it."""
    row = (
        Approval.objects.for_user(by)
        .select_for_update(no_key=True)
        .filter(pk=approval.pk)
        .first()
    )
    if row is None or (row.status, row.decided_by_id, row.as_shown()) != (
        Approval.Status.APPROVED,
        by.user_id,
        seen,
    ):
        return False
    return (
        Decision.objects.for_user(by)
        .filter(approval=approval, by=by.user_id, verdict=Decision.Verdict.APPROVE)
        .filter(revision=seen.revision, digest=seen.digest)
        .exists()
    )


def _tool(approval: Approval) -> Tool | None:
    try:
        agent = approval.run.agent_version.agent.name
        return registry.tool(agent, approval.call.tool)
    except (UnknownAgent, UnknownTool):
        return None
