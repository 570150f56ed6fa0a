"""Taking a decision back: within the grace window, before anything has run by it.

The run is ready by then, but not due before the last window of its requests is over
(`wake`), so no claim can have come between. Taken back, the request is pending again, a
revision later: forms that were open are stale, and several people approve it anew.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction

from agents.approvals import quorum, rejections, who
from agents.approvals.binding import last_decision
from agents.approvals.forget import forget
from agents.approvals.lock import locked
from agents.delivery import outbox
from agents.errors import NotEligible, Stale, TooLate
from agents.models import Approval, Decision, Run, ToolCall
from checkpoints import audit, gate
from checkpoints.access import UserPrincipal
from checkpoints.clock import ClockTimestamp

OVER = "It is too late to take this back: the run went on."
NOTHING = "There is nothing of yours to take back here."


def undo(approval: Approval, by: UserPrincipal, *, revision: int | None = None) -> None:
    """Take back what `by` decided: an approval, an edit or a rejection; with an
    approval, also that it is remembered.

    Of a request that waits for more approvals, their own: all are given anew then, as
    that is a new revision. Its deadline stays as it was. `revision`: of the request as
    whoever takes it back saw it, so that what is sent twice takes back one decision.

    Raises TooLate when the window is over, or there is nothing (any more) to take back,
    Stale when a check came between, or that revision is not the one that there is, and
    NotEligible when somebody else decided it, or `by` may decide no more.
    """
    if why := who.without_right(approval, by):
        raise NotEligible(why)
    found, before = _before_edit(approval, by)
    with transaction.atomic():
        row, run, _ = locked(approval, by)
        if revision is not None and revision != row.revision:
            raise Stale(revision, row.revision)
        if row.is_pending:
            _withdraw(row, by)
        elif found != row.guard_found:
            raise Stale(approval.revision, row.revision)
        else:
            _reopen(row, run, by, before)
        audit.record(
            by,
            "undo",
            obj=row,
            run=row.run_id,
            call=row.call_id,
            revision=row.revision,
            was=row.status,
        )
        # It is another request: what was said of the one before calls nobody any more.
        row.revision += 1
        outbox.queue(row, outbox.Event.ASKED)


def may_undo(approval: Approval, by: UserPrincipal) -> bool:
    """Whether `undo` is worth offering: by the clock of whoever asks, not a promise."""
    return approval.final_at is not None and approval.decided_by_id == by.user_id


def _before_edit(
    approval: Approval, by: UserPrincipal
) -> tuple[bytes | None, dict[str, Any] | None]:
    """What its guard had put in the place of the proposed arguments, sealed and opened.

    Opened before the transaction: an opening is on record first.
    """
    now = Approval.objects.for_user(by).select_related("thread").get(pk=approval.pk)
    if now.is_pending or now.guard_found is None or not by.may_read:
        return now.guard_found, None
    opener = gate.admit(by, purpose="undo", threads=[now.thread])
    return now.guard_found, (opener.open(now, "guard_found") or {}).get("arguments")


def _withdraw(row: Approval, by: UserPrincipal) -> None:
    if not any(each.by_id == by.user_id for each in quorum.given(row)):
        raise TooLate(NOTHING)
    Approval.objects.for_user(by).filter(
        pk=row.pk, status=row.status, revision=row.revision
    ).update(revision=row.revision + 1)


def _reopen(
    row: Approval, run: Run, by: UserPrincipal, before: dict[str, Any] | None
) -> None:
    decision = last_decision(row)
    if decision is None or row.decided_by_id is None or row.final_at is None:
        raise TooLate(NOTHING if row.decided_by_id != by.user_id else OVER)
    if decision.by_id != by.user_id:
        name = decision.by.get_full_name() or decision.by.get_username()
        raise NotEligible(f"Only {name}, who decided this, can take it back.")
    reopened = (
        Approval.objects.for_user(by)
        .filter(
            pk=row.pk,
            status=row.status,
            revision=row.revision,
            final_at__gt=ClockTimestamp(),
        )
        .update(
            status=Approval.Status.PENDING,
            revision=row.revision + 1,
            digest=decision.digest,  # as it was shown: without the edits of this decision
            decided_at=None,
            decided_by=None,
            final_at=None,
        )
    )
    if not reopened:
        raise TooLate(OVER)
    if decision.verdict == Decision.Verdict.EDIT:
        call = ToolCall.objects.for_user(by).get(pk=row.call_id)
        call.effective = gate.seal(call, "effective", before) if before else None
        call.save(update_fields=["effective"])
    forget(row, by)
    _wait(run, by)
    if decision.verdict == Decision.Verdict.REJECT:
        rejections.take_back(run)


def _wait(run: Run, by: UserPrincipal) -> None:
    """The run waits for people again, if nobody has claimed it and it is not over."""
    if run.status == Run.Status.WAITING:
        return  # for another request
    waits = Run.objects.for_user(by).filter(pk=run.pk, status=Run.Status.READY)
    if not waits.update(status=Run.Status.WAITING, wake_at=None, rings=0, rung_at=None):
        raise TooLate(OVER)
