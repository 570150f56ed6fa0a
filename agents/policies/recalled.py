"""A call goes ahead by what somebody approved before and had remembered.

Each time, everything is looked at anew: that the request it was made from still stands,
that whoever made it could approve this very call alone, and that nothing stricter holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from agents.approvals.decide import ineligible
from agents.models import Approval, PolicyUse, Run, StickyRule, ToolCall
from agents.policies.remembered import matches
from agents.pure.policies import Why
from agents.pure.terms import Demand
from agents.tools import Tool
from checkpoints import audit, gate
from checkpoints.access import (
    Reason,
    Role,
    RunPrincipal,
    SystemPrincipal,
    UserPrincipal,
)
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import CheckpointsError
from checkpoints.models import AuditEvent, Group, Thread

Scope = StickyRule.Scope


def lets_go(
    row: ToolCall,
    tool: Tool,
    arguments: dict[str, Any],
    demand: Demand,
    *,
    run: Run,
    agent: UUID,
    opener: gate.Pass,
) -> StickyRule | None:
    """The rule by which this call goes ahead, which is counted; None: people are asked.

    Not in a transaction.
    """
    if refuses(demand, tool):
        return None
    for rule, kept in _live(row, agent, opener):
        if not matches(rule, kept, version=tool.version, arguments=arguments):
            continue
        if _may_still(rule, row, run, demand) and _hit(rule, row, run, demand):
            return rule
    return None


def why(rule: StickyRule, demand: Demand) -> Why:
    """For the log: by what a call goes ahead, whose doing that is, and what would have
    asked about it.

    The rule is written once, so its id is its version; the event that it was made
    (`sticky_make`) has what its maker saw.
    """
    ids: dict[str, str | int | None] = {
        "sticky": str(rule.pk),
        "made_by": str(rule.made_by_id),
        "remembered_from": str(rule.approval_id),
        "policy": str(demand.policy) if demand.policy else None,
        "policy_version": demand.version,
        "rule": demand.rule_id or demand.rule or None,
    }
    return {name: value for name, value in ids.items() if value is not None}


def _live(
    row: ToolCall, agent: UUID, opener: gate.Pass
) -> Iterable[tuple[StickyRule, Any]]:
    """Those that could speak about the call, and what they hold."""
    now = ClockTimestamp()
    within = (
        Q(scope=Scope.AGENT)
        | Q(scope__in=[Scope.THREAD, Scope.ONCE], thread=row.thread_id)
        | Q(scope=Scope.RUN, run=row.run_id)
    )
    rules = list(
        StickyRule.objects.unscoped(Reason.WORKER)
        .filter(within, workspace=row.workspace_id, agent=agent, tool=row.tool)
        .filter(revoked_at=None, expires_at__gt=now)
        .exclude(predicate=None)
        .filter(
            Q(approval__final_at=None) | Q(approval__final_at__lte=now),
            approval__status=Approval.Status.APPROVED,
            approval__decided_by=F("made_by"),
        )
        .select_related("made_by")
        .order_by("made_at")
    )
    elsewhere = {rule.thread_id for rule in rules} - {row.thread_id}
    others = opener
    if elsewhere:  # the run's own pass is for its thread alone
        others = gate.admit(
            SystemPrincipal("sticky rule", row.workspace_id),
            purpose="match a sticky rule",
            threads=[Thread(pk=pk) for pk in elsewhere],
        )
    for rule in rules:
        by = opener if rule.thread_id == row.thread_id else others
        (kept,) = by.open_each([rule], "predicate")
        if not isinstance(kept, CheckpointsError):
            yield rule, kept


def _may_still(rule: StickyRule, row: ToolCall, run: Run, demand: Demand) -> bool:
    """Whether whoever made it could approve this call, now and alone."""
    groups = Group.objects.unscoped(Reason.WORKER).filter(
        workspace=row.workspace_id, members__user=rule.made_by_id
    )
    maker = UserPrincipal(
        user_id=rule.made_by_id,
        workspace_id=row.workspace_id,
        role=Role.VIEWER,  # as it is now is looked up
        can_approve=False,
        name="",
        groups=frozenset(groups.values_list("pk", flat=True)),
    )
    if not Thread.objects.for_user(maker).filter(pk=row.thread_id).exists():
        return False
    asked = Approval(  # as it would be asked
        workspace_id=row.workspace_id,
        thread_id=row.thread_id,
        branch_id=row.branch_id,
        run=run,
        call=row,
        checkpoint_id=row.reply_id,
        rule=demand.rule,
        terms=demand.terms.as_json(),
    )
    return not ineligible(asked, maker)


def _was_revoked(rule: StickyRule) -> bool:
    """As the audit log has it, where nothing is taken out unseen, whatever the row says."""
    said = AuditEvent.objects.unscoped(Reason.WORKER).filter(
        workspace=rule.workspace_id, object_type=StickyRule._meta.label_lower
    )
    return said.filter(object_id=rule.pk, action="sticky_revoke").exists()


def _hit(rule: StickyRule, row: ToolCall, run: Run, demand: Demand) -> bool:
    """Count it, if it still stands. A call that it let go already is let go again."""
    window = f"sticky {rule.pk}"
    with transaction.atomic():
        live = StickyRule.objects.unscoped(Reason.WORKER).filter(
            pk=rule.pk, revoked_at=None, expires_at__gt=ClockTimestamp()
        )
        if live.select_for_update(no_key=True).first() is None or _was_revoked(rule):
            return False
        uses = PolicyUse.objects.unscoped(Reason.WORKER).filter(
            workspace_id=row.workspace_id, window=window
        )
        if uses.filter(call=row.pk).exists():
            return True
        if rule.scope == Scope.ONCE and uses.exists():
            return False
        PolicyUse.objects.create(
            workspace_id=row.workspace_id, window=window, call_id=row.pk
        )
        live.update(hits=F("hits") + 1, last_hit_at=ClockTimestamp())
        audit.record(
            RunPrincipal(run.pk, run.workspace_id, run.thread_id, run.grant_id),
            "sticky",
            obj=rule,
            via="worker",
            call=row.pk,
            approval=rule.approval_id,
            made_by=rule.made_by_id,
            policy=demand.policy,
            policy_version=demand.version,
            rule=demand.rule_id,
        )
    return True


def refuses(demand: Demand, tool: Tool) -> str:
    """Why what is so demanded is never let go by what one person said before."""
    terms = demand.terms
    if "critical" in (demand.risk, tool.risk):
        return "What is critical is asked about each time."
    if terms.approvers > 1:
        return "It takes more than one person to approve this."
    if terms.reauthenticate or terms.typed:
        return "This asks for the password, or a word typed, each time."
    if tool.guard is not None:
        return "What it depends on may change, so each such call is asked about."
    return ""
