"""Looking after a request without deciding it: claims, snoozes, notes, escalation.

A claim is soft: everyone sees it, and whoever may decide still may. A snooze is one
person's, and moves no deadline. Each is in the audit log; what was written is not.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from agents.approvals import able, who
from agents.approvals import escalate as steps
from agents.approvals.decide import text_of
from agents.approvals.lock import locked
from agents.errors import AlreadyDecided, InvalidDecision, NotEligible
from agents.models import Approval, ApprovalNote, Snooze
from agents.pure.policy_text import MOST_PRIORITY
from agents.pure.terms import Terms
from checkpoints import audit, clock, gate
from checkpoints.access import Role, UserPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import NotPermitted
from checkpoints.models import Thread

LONGEST = timedelta(days=30)  # of a snooze
READERS = "Your role reads the audit log, not requests."


def claim(approval: Approval, by: UserPrincipal) -> bool:
    """Say that `by` looks after it, whoever did before. False when they do already.

    Raises NotEligible for whoever may not decide it, and AlreadyDecided.
    """
    with transaction.atomic():
        row = _pending(approval, by)
        if why := who.ineligible(row, by, "reject"):
            raise NotEligible(why)
        if row.claimed_by_id == by.user_id:
            return False
        _update(row, by, claimed_by=by.user_id, claimed_at=ClockTimestamp())
        _record(by, row, "claim", before=row.claimed_by_id)
    return True


def release(approval: Approval, by: UserPrincipal) -> bool:
    """Let it go: one's own claim, or as an admin anyone's. False when there is none.

    Raises NotEligible, AlreadyDecided.
    """
    with transaction.atomic():
        row = _pending(approval, by)
        if row.claimed_by_id is None:
            return False
        if row.claimed_by_id != by.user_id and by.role is not Role.ADMIN:
            raise NotEligible(
                "Somebody else claimed this; they, or an admin, let it go."
            )
        _update(row, by, claimed_by=None, claimed_at=None)
        _record(by, row, "release", before=row.claimed_by_id)
    return True


def assign(approval: Approval, by: UserPrincipal, *, to: int | None) -> bool:
    """Name the person (a user's id) who is to decide it; None for nobody.

    Others still may. False when it is theirs already. Raises NotEligible where `by` may
    not decide it, InvalidDecision ("to") where `to` could not, and AlreadyDecided.
    """
    with transaction.atomic():
        row = _pending(approval, by)
        if why := who.ineligible(row, by, "reject"):
            raise NotEligible(why)
        if row.assigned_to_id == to:
            return False
        if to is not None and (why := able.cannot_decide(row, to)):
            raise InvalidDecision({"to": why})
        _update(row, by, assigned_to=to)
        _record(by, row, "assign", to=to, before=row.assigned_to_id)
    return True


def assignable(approval: Approval) -> list[tuple[int, str]]:
    """Whom it can be assigned to: ids and names, in order of names."""
    found = [
        (each.user_id, each.user.get_full_name() or each.user.get_username())
        for each, why in able.able(approval, able.members(approval))
        if not why
    ]
    return sorted(found, key=lambda each: each[1])


def in_vain(approval: Approval) -> set[int]:
    """Of those who claimed it, and whom it is assigned to: who could not decide it (any
    more), by user id."""
    named = {approval.claimed_by_id, approval.assigned_to_id} - {None}
    if not named:
        return set()
    members = able.members(approval).filter(user_id__in=named)
    could = {each.user_id for each, why in able.able(approval, members) if not why}
    return {each for each in named if each is not None and each not in could}


def snooze(approval: Approval, by: UserPrincipal, *, until: datetime) -> None:
    """Hide it from `by`'s list until then. Its deadline stays, and so does everyone's list.

    Raises InvalidDecision ("until"), NotEligible, AlreadyDecided.
    """
    now = clock.now()
    if not now < until <= now + LONGEST:
        raise InvalidDecision(
            {"until": f"Give a time to come, at most {LONGEST.days} days from now."}
        )
    with transaction.atomic():
        row = _pending(approval, by)
        Snooze.objects.for_user(by).update_or_create(
            approval=row,
            by_id=by.user_id,
            defaults={"until": until},
            create_defaults={
                "workspace_id": row.workspace_id,
                "thread_id": row.thread_id,
                "until": until,
            },
        )
        _record(by, row, "snooze", until=until.isoformat(timespec="seconds"))


def unsnooze(approval: Approval, by: UserPrincipal) -> bool:
    """Show it to `by` again. False when it was not hidden."""
    with transaction.atomic():
        mine = Snooze.objects.for_user(by).filter(approval=approval.pk, by=by.user_id)
        if not mine.delete()[0]:
            return False
        _record(by, approval, "unsnooze")
    return True


def note(approval: Approval, by: UserPrincipal, *, text: str) -> ApprovalNote:
    """Write beside it, without deciding, also once it is decided. Notes stay as they are.

    Raises InvalidDecision ("note") where it is empty or too long, and NotEligible.
    """
    written = text_of("note", text, "Write something.")
    _require_reader(approval, by)
    row = ApprovalNote(
        workspace_id=approval.workspace_id,
        thread_id=approval.thread_id,
        approval=approval,
        by_id=by.user_id,
    )
    row.text = gate.seal(row, "text", written)
    with transaction.atomic():
        row.save(force_insert=True)
        _record(by, approval, "note", note=row.pk)
    return row


def escalate(approval: Approval, by: UserPrincipal) -> bool:
    """Take the next step of its escalation by hand; without one, it becomes more urgent.

    False when it is as urgent as can be. Raises NotEligible for those without the right
    to decide such requests, and AlreadyDecided.
    """
    with transaction.atomic():
        row = _pending(approval, by)
        if why := who.without_right(row, by):
            raise NotEligible(why)
        following = Terms.of(row.terms).escalation[row.level : row.level + 1]
        if not following and row.priority >= MOST_PRIORITY:
            return False
        steps.take(row, following, raised=1, by=by)
    return True


def _pending(approval: Approval, by: UserPrincipal) -> Approval:
    """Its row, locked. Raises AlreadyDecided, NotEligible."""
    _require_reader(approval, by)
    row, *_ = locked(approval, by)
    if not row.is_pending:
        who_did = row.decided_by
        name = who_did.get_full_name() or who_did.get_username() if who_did else ""
        raise AlreadyDecided(name, row.get_status_display().lower(), row.decided_at)
    return row


def _require_reader(approval: Approval, by: UserPrincipal) -> None:
    if not by.may_read:
        raise NotEligible(READERS)
    if not Thread.objects.for_user(by).filter(pk=approval.thread_id).exists():
        raise NotPermitted("This thread is not shared with you.")


def _update(row: Approval, by: UserPrincipal, **values: object) -> None:
    Approval.objects.for_user(by).filter(pk=row.pk).update(**values)


def _record(
    by: UserPrincipal,
    row: Approval,
    action: str,
    *,
    before: int | None = None,
    to: int | None = None,
    until: str = "",
    note: UUID | None = None,
) -> None:
    audit.record(
        by,
        action,
        obj=row,
        run=row.run_id,
        before=before,
        to=to,
        until=until,
        note=note,
    )
