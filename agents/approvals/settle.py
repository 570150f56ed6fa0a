"""A decision is taken: checked, written, and the run woken, in one transaction.

What `decide`, `break_glass` and `batch` come down to. Where the terms ask for several
people, each approval is a record of its own, and the request stays pending until there
are enough of the same revision (docs/approvals.md).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from agents.approvals import expire, guards, quorum, rejections, who
from agents.approvals.binding import digest_of, mac_of
from agents.approvals.close import close
from agents.approvals.given import Given, Where, confirmed, require_valid
from agents.approvals.lock import locked, require_open
from agents.delivery import outbox
from agents.errors import AlreadyDecided, InvalidDecision, NotAsShown, NotEligible
from agents.models import Approval, Decision, Run, ToolCall
from agents.models.approvals import Seen
from agents.pure.digest import alike_digest
from agents.pure.terms import Terms
from agents.tools import Tool
from agents.wake import adopt, wake_locked
from checkpoints import audit, gate
from checkpoints.access import UserPrincipal
from checkpoints.keys.hierarchy import workspace_mac
from checkpoints.models import DataKey

Verdict = Decision.Verdict

LOOKS_AGAIN = (
    "What this depends on was looked at too long ago. It is looked at again now: decide in"
    " a moment, about what is found."
)


@dataclass(frozen=True)
class Edited:
    """Other arguments for a call."""

    tool: Tool
    arguments: dict[str, Any] = field(repr=False)

    def digest(self, call: ToolCall, row: Approval) -> bytes:
        return digest_of(call, self.tool, self.arguments, under=row)

    def put(self, call: ToolCall, row: Approval) -> bytes:
        """Keep them beside what was proposed; the digest of what may run now."""
        call.effective = gate.seal(call, "effective", self.arguments)
        call.save(update_fields=["effective"])
        return self.digest(call, row)


def decide(
    approval: Approval,
    seen: Seen,
    by: UserPrincipal,
    verdict: Decision.Verdict,
    given: Given,
    edited: Edited | None = None,
    *,
    stop: Callable[[Run], object] | None = None,
) -> Decision:
    """Take this decision, and end the run with it (`stop`). Raises as `decide.approve`.

    `approval`: as it was opened for `given.shown`, where that is given.
    """
    if why := who.without_right(approval, by):
        raise NotEligible(why)
    try:
        with transaction.atomic():
            row, run, at = locked(approval, by)
            try:
                require_open(row, seen)
            except AlreadyDecided as closed:
                closed.is_repeat = _was_said(row, seen, by, verdict, given)
                raise
            # Another look came between: what it found is not what the page showed.
            lets_go = verdict in (Verdict.APPROVE, Verdict.EDIT)
            on_page = given.where is Where.PAGE
            if lets_go and on_page and row.preview != approval.preview:
                raise NotAsShown
            made = _decide(row, run, at, seen, by, verdict, given, edited)
            if stop is not None:
                stop(run)
            return made
    except expire.Overdue as late:
        expire.expire(approval.pk)
        raise AlreadyDecided("", "expired", late.due_at) from None
    except guards.TooOld:
        guards.ask_check(approval, by)
        raise InvalidDecision({"verdict": LOOKS_AGAIN}) from None


def _decide(
    row: Approval,
    run: Run,
    at: datetime,
    seen: Seen,
    by: UserPrincipal,
    verdict: Decision.Verdict,
    given: Given,
    edited: Edited | None,
) -> Decision:
    """With the locks of `locked`, since `at`."""
    terms = Terms.of(row.terms)
    if verdict not in row.allowed:
        raise InvalidDecision({"verdict": _not_allowed(row.allowed)})
    alone = given.break_glass
    if row.terms and not alone and (why := who.not_asked(row, by.user_id, verdict)):
        raise NotEligible(why)
    require_valid(row, verdict)
    settled = bytes(row.digest)
    if edited is not None:
        settled = edited.put(call_of(row, by), row)
    content = _kept(row, given.content)
    decision = Decision(
        workspace_id=row.workspace_id,
        thread_id=row.thread_id,
        approval=row,
        revision=row.revision,
        verdict=verdict,
        by_id=by.user_id,
        role=by.role,
        session=by.session,
        digest=seen.digest,
        shown=given.shown,
        confirmed=confirmed(row, terms, verdict, given),
        break_glass=given.break_glass,
        at=at,
    )
    expire.require_in_time(row, terms, decision.at)
    if content is not None:
        decision.content = gate.seal(decision, "content", content)
    decision.mac = mac_of(decision, content=content, settled=settled)
    needed = terms.approvers if terms.approvers > 1 else None
    so_far = None
    if alone and (mine := _own(quorum.given(row), by)):
        raise _said_by(mine)  # to be taken back first: one person is one approval
    if needed and verdict == Verdict.APPROVE and not alone:
        so_far = len(_others(row, by)) + 1
    # What is late, or said before, is told that first.
    guards.require_recent(row, verdict, at)
    if needed and so_far is not None and so_far < needed:
        decision.save(force_insert=True)
        _record(by, row, verdict, given, settled, so_far=so_far, needed=needed)
        return decision
    if edited is not None and who.edit_stays_open(terms):
        _renew(row, edited, settled, by)
        decision.save(force_insert=True)
        _record(by, row, verdict, given, settled, needed=needed)
        row.revision += 1  # as it is stored now
        outbox.queue(row, outbox.Event.ASKED)
        return decision
    grace = timedelta(seconds=terms.grace)
    final_at = decision.at + grace if grace else None
    close(row, seen, decision, settled=settled, final_at=final_at)
    action = "break_glass" if alone else verdict
    _record(by, row, action, given, settled, so_far=so_far, needed=needed)
    if verdict == Verdict.REJECT:
        rejections.pause_after(row, run, by)
    # Whoever decides takes over what its owner left, if they may.
    if run.needs_owner and by.may_operate:
        adopt(run, by)
    wake_locked(run)
    return decision


def _others(row: Approval, by: UserPrincipal) -> list[Decision]:
    """Approvals of others that count. Raises AlreadyDecided where `by` gave one."""
    approvals = quorum.given(row)
    if mine := _own(approvals, by):
        said = _said_by(mine)
        said.is_repeat = mine.session == by.session
        raise said
    return quorum.counted(row, approvals)


def _own(approvals: list[Decision], by: UserPrincipal) -> Decision | None:
    return next((each for each in approvals if each.by_id == by.user_id), None)


def _said_by(mine: Decision) -> AlreadyDecided:
    name = mine.by.get_full_name() or mine.by.get_username()
    return AlreadyDecided(name, "approved", mine.at)


def _renew(row: Approval, edited: Edited, settled: bytes, by: UserPrincipal) -> None:
    """Pending still, with other arguments: earlier approvals count no more.

    Its preview was of the arguments before; who opens the page has another one made.
    """
    key = workspace_mac(row.workspace_id, DataKey.Purpose.INDEX)
    Approval.objects.for_user(by).filter(pk=row.pk).update(
        revision=row.revision + 1,
        digest=settled,
        alike=alike_digest(key, tool=edited.tool.name, arguments=edited.arguments),
        preview=None,
        guard_checked_at=None,
    )


def _record(
    by: UserPrincipal,
    row: Approval,
    action: str,
    given: Given,
    settled: bytes,
    *,
    so_far: int | None = None,
    needed: int | None = None,
) -> None:
    """`so_far` approvals of as many as are `needed`, where one is not enough. `settled`:
    the digest of what may run by it, which the worker's event names again."""
    audit.record(
        by,
        action,
        obj=row,
        run=row.run_id,
        call=row.call_id,
        revision=row.revision,
        digest=settled.hex(),
        shown=str(given.where),
        given=so_far,
        needed=needed,
    )


def _was_said(
    row: Approval, seen: Seen, by: UserPrincipal, verdict: str, given: Given
) -> bool:
    """Whether this very decision closed it: the same form, sent twice."""
    said = (
        Decision.objects.for_user(by)
        .filter(approval=row, by_id=by.user_id, verdict=verdict, session=by.session)
        .filter(revision=seen.revision, digest=seen.digest)
        .first()
    )
    return said is not None and hmac.compare_digest(
        bytes(said.mac),
        mac_of(said, content=_kept(row, given.content), settled=bytes(row.digest)),
    )


def _kept(row: Approval, content: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the decision is to hold."""
    if row.kind == Approval.Kind.UNKNOWN:
        return {**(content or {}), "in_doubt": True}
    return content


def call_of(approval: Approval, by: UserPrincipal) -> ToolCall:
    """Its call, with what the digest needs."""
    call = ToolCall.objects.for_user(by).select_related("reply", "run")
    return call.get(pk=approval.call_id)


def _not_allowed(allowed: list[str]) -> str:
    return f"This request can be decided by: {', '.join(allowed)}."
