"""Where a request and its reader stand: who approved, who may, what can be taken back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib.auth.models import User
from django.db.models.functions import Now

from agents.approvals import break_glass, care, given, quorum, share, sight, undo, who
from agents.models import Approval, Decision, Snooze
from agents.pages.inbox.activity import name_of
from agents.policies import sticky
from agents.pure.terms import Terms
from checkpoints.access import Role, UserPrincipal
from checkpoints.compiled import Compiled
from checkpoints.models import Group

AS_WHAT = {
    "starter": "started the run",
    "author": "wrote the message that it acts on",
    "editor": "edited the arguments",
}


@dataclass(frozen=True)
class Standing:
    """`why_not` approve, `why_no_reject`: a reason, or "" where they may."""

    why_not: str = ""
    why_no_reject: str = ""
    needed: int = 1
    approvals: tuple[Decision, ...] = ()
    groups: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # "Ana Ruiz (started the run)"
    gave: bool = False  # the reader approved this revision already
    may_break: bool = False
    why_not_remembered: str = ""  # "approve and remember" is not offered
    unseen: bool = False  # by everybody in the groups that are asked
    shares: tuple[Group | None, ...] = ()  # whom the reader could let see it; None: all
    can_undo: bool = False
    in_vain: frozenset[int] = frozenset()  # who looks after it and could not decide it
    snoozed_until: datetime | None = None
    demanded: given.Demanded | None = None  # what an approval needs beside the click

    @property
    def asks(self) -> str:
        """The line of the quorum: "1 of 2 Finance"; empty for anyone, once."""
        names = " or ".join(self.groups)
        if self.needed > 1:
            return f"{len(self.approvals)} of {self.needed} {names}".strip()
        return f"needs 1 of {names}" if names else ""

    @property
    def is_last(self) -> bool:
        """Whether the reader's approval would be the last that is waited for."""
        return len(self.approvals) + 1 >= self.needed

    @property
    def nth(self) -> int:
        return len(self.approvals) + 1


def standing_of(principal: UserPrincipal, approval: Approval) -> Standing:
    """A query or two for the usual terms, some more for those that ask several people."""
    if not approval.is_pending:
        return Standing(
            can_undo=in_grace(approval) and undo.may_undo(approval, principal)
        )
    why_not = who.ineligible(approval, principal)
    why_no_reject = who.ineligible(approval, principal, "reject") if why_not else ""
    found = quorum.standing(approval)
    gave = any(one.by_id == principal.user_id for one in found.approvals)
    asked = who.asked_groups(approval, Terms.of(approval.terms))
    stands = bool(why_not) or found.needed > 1
    unseen = bool(asked) and not sight.is_seen_by(approval, asked)
    return Standing(
        why_not=why_not,
        why_no_reject=why_no_reject,
        needed=found.needed,
        approvals=tuple(found.approvals),
        groups=tuple(found.groups),
        left_out=_named(found.excluded),
        gave=gave,
        may_break=stands
        and principal.role is Role.ADMIN
        and not gave
        and break_glass.may(approval, principal),
        why_not_remembered=why_not or sticky.offered(approval, principal),
        unseen=unseen,
        shares=tuple(share.offered(approval, principal)) if unseen else (),
        can_undo=gave,
        in_vain=frozenset(care.in_vain(approval)),
        snoozed_until=_snoozed(principal, approval),
        demanded=given.demanded(approval),
    )


def in_grace(approval: Approval) -> bool:
    """By this machine's clock: what is offered. The database's decides."""
    return approval.final_at is not None and approval.final_at > datetime.now(UTC)


def _named(excluded: dict[int, str]) -> tuple[str, ...]:
    if not excluded:
        return ()
    people = User.objects.filter(pk__in=excluded).order_by("first_name", "username")
    return tuple(
        f"{name_of(person)} ({AS_WHAT[excluded[person.pk]]})" for person in people
    )


_SNOOZED = Compiled(
    lambda by, approval: (
        Snooze.objects.for_user(by)
        .filter(approval=approval, by_id=by.user_id, until__gt=Now())
        .values_list("until", flat=True)
    )
)


def _snoozed(principal: UserPrincipal, approval: Approval) -> datetime | None:
    until: datetime | None = _SNOOZED.first(principal, approval=approval.pk)
    return until
