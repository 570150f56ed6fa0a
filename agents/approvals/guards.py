"""What a guard found, on a request: taken when it is asked, looked at again, and bound.

`Approval.guard_seen` are the values that people decide about; the digest binds them. A
check that finds others makes a revision of its own: what was decided before does not count
for it. `guard_found` says what changed since the request was first asked.

A check is asked for by `ask_check` and made in a worker (`agents/runs/looks.py`). It may
be lost with its ring or its worker: `chase` asks again, and says so in the end.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Now

from agents import queue
from agents.errors import ArgumentsDoNotFit, UnknownAgent, UnknownTool
from agents.models import Approval, Decision
from agents.pure.tolerance import differences, within
from agents.tools import Changed, Found, Invalid, Tool, Unchanged, registry
from agents.tools.guards import AGE, Seen, Values
from checkpoints import audit, clock, gate
from checkpoints.access import Reason, RunPrincipal, UserPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.pure.codec import same

Guard = Approval.Guard
Verdict = Decision.Verdict

RING_AGAIN = timedelta(seconds=5)  # a check that is not over by then is asked again
GIVE_UP = timedelta(minutes=1)  # it is said that it could not be made
BATCH = 50

Kept = dict[str, Any]


@dataclass(frozen=True)
class Look:
    """What there is to ask people about: arguments, what a guard saw, and a preview."""

    arguments: dict[str, Any] = field(repr=False)  # those that would run
    guard: str = ""  # of Approval.Guard; "": the tool has none
    seen: Seen = field(default=None, repr=False)
    found: Kept | None = field(default=None, repr=False)  # Approval.guard_found
    preview: Kept | None = field(default=None, repr=False)

    def is_about(self, arguments: Mapping[str, Any], seen: Seen) -> bool:
        """Whether it is about what people were shown."""
        return same(self.arguments, dict(arguments)) and same(self.seen, seen)

    @property
    def holds(self) -> bool:
        """Whether the guard knows of nothing that speaks against the call."""
        return self.guard in (Guard.SAME, Guard.CHANGED)


def judge(
    tool: Tool,
    arguments: dict[str, Any],
    seen: Seen,
    found: Found | None,
    *,
    before: Kept | None = None,
) -> Look:
    """What the guard's answer means; None: it gave none.

    `before`: what was found earlier (`Approval.guard_found`), which a look that finds
    nothing new leaves as it is.
    """
    kept = {name: it for name, it in (before or {}).items() if name != "invalid"}
    as_before = Guard.CHANGED if "now" in kept else Guard.SAME
    match found:
        case Unchanged(values):
            kept_seen = values if seen is None else seen
            return Look(arguments, as_before, kept_seen, kept or None)
        case Changed(old, new, text, replaced):
            fitted = _fitted(tool, arguments, replaced)
            if fitted is None:
                return Look(arguments, _failed(before), seen, before)
            if within(differences(old, new), tool.tolerance):
                # What was seen stays: small steps do not add up to a large one.
                kept_seen = old if seen is None else seen
                return Look(arguments, as_before, kept_seen, kept or None)
            first = kept.get("was", old)
            moved = {"text": text, "was": first, "now": new, "arguments": fitted}
            return Look(fitted, Guard.CHANGED, new, moved)
        case Invalid(text):
            return Look(arguments, Guard.INVALID, seen, {**kept, "invalid": text})
        case None:
            return Look(arguments, _failed(before), seen, before)


def columns(row: Approval, look: Look | None, *, at: datetime | None) -> Kept:
    """The look, sealed, as a request has it from now on; no check is under way.

    `at`: when it was taken; None only without one.
    """
    look = look or Look({})

    def sealed(name: str, value: Any) -> bytes | None:
        return None if value is None else gate.seal(row, name, value)

    return {
        "guard": str(look.guard),
        "guard_seen": sealed("guard_seen", look.seen),
        "guard_found": sealed("guard_found", look.found),
        "guard_asked_at": None,
        "guard_checked_at": at if look.guard else None,
        "preview": sealed("preview", look.preview),
    }


def ask_check(approval: Approval, by: UserPrincipal) -> bool:
    """Have a worker look again; False where there is nothing to look at, or one is at it.

    Without a guard, that is a preview which an edit took away. What it finds is on the
    request soon, or that it could not be found out.
    """
    tool = _tool_of(approval)
    to_look_at = ~Q(guard="")
    if tool is not None and tool.preview is not None:
        # What a call in doubt would do now says nothing of what it did.
        to_look_at |= Q(preview=None) & ~Q(kind=Approval.Kind.UNKNOWN)
    with transaction.atomic():
        asked = (
            Approval.objects.for_user(by)
            .pending()
            .filter(to_look_at, pk=approval.pk, guard_asked_at=None)
            .update(guard_asked_at=ClockTimestamp())
        )
        if asked:
            ring = partial(
                queue.ring_check,
                approval.pk,
                n=secrets.token_hex(4),
                on=approval.run.queue,
            )
            transaction.on_commit(ring)
    return bool(asked)


class TooOld(Exception):
    """The guard's last look at what is to be approved is too long ago."""


def require_recent(row: Approval, verdict: str, at: datetime) -> None:
    """Raises TooOld where somebody is to let go ahead now what was looked at too long ago.

    What could not be checked counts as a look: it says so, and is checked before it runs.
    """
    if not row.guard or verdict not in (Verdict.APPROVE, Verdict.EDIT):
        return
    tool = _tool_of(row)
    age = AGE if tool is None else tool.guard_age
    if row.guard_checked_at is None or at - row.guard_checked_at > age:
        raise TooOld


def revalidated(
    row: Approval, look: Look, principal: RunPrincipal, *, revision: int
) -> None:
    """Record that the guard looked, and how that ended."""
    audit.record(
        principal,
        "revalidate",
        obj=row,
        via="worker",
        found=str(look.guard),
        revision=revision,
    )


def chase() -> int:
    """Ask again for checks that did not come back; give up those that never will.

    How many there were. Called by the reaper, in any workspace.
    """
    now = clock.now()
    late = unheard(older_than=RING_AGAIN)
    for row in late:
        assert row.guard_asked_at is not None  # by the query
        age = now - row.guard_asked_at
        if age > GIVE_UP:
            Approval.objects.filter(
                pk=row.pk, guard_asked_at=row.guard_asked_at
            ).update(
                guard=Case(
                    # As `_failed`; and what has no guard had a preview made.
                    When(guard__in=[Guard.INVALID, ""], then=F("guard")),
                    default=Value(Guard.FAILED),
                ),
                guard_asked_at=None,
                guard_checked_at=ClockTimestamp(),
            )
        else:  # one ring for each span of time, however many reapers there are
            queue.ring_check(
                row.pk, n=f"again-{int(age / RING_AGAIN)}", on=row.run.queue
            )
    return len(late)


def unheard(*, older_than: timedelta, on: str = "") -> list[Approval]:
    """Requests that wait for a check for as long as that; of one queue, or of all."""
    waiting = Approval.objects.unscoped(Reason.WORKER).filter(
        Q(run__queue=on) if on else Q(),
        status=Approval.Status.PENDING,
        guard_asked_at__lt=Now() - older_than,
    )
    return list(waiting.select_related("run").order_by("guard_asked_at")[:BATCH])


def waiting_for(pk: UUID) -> Approval | None:
    """The request, where it is to be checked; with all that a check needs."""
    return (
        Approval.objects.unscoped(Reason.WORKER)
        .filter(pk=pk, status=Approval.Status.PENDING, guard_asked_at__isnull=False)
        .select_related("thread", "call", "run__agent_version__agent")
        .first()
    )


def _tool_of(row: Approval) -> Tool | None:
    """As this server knows it."""
    try:
        return registry.tool(row.run.agent_version.agent.name, row.call.tool)
    except (UnknownAgent, UnknownTool):
        return None


def _failed(before: Kept | None) -> str:
    """What is not valid any more stays so: that nobody could look again changes nothing."""
    return Guard.INVALID if "invalid" in (before or {}) else Guard.FAILED


def _fitted(
    tool: Tool, arguments: dict[str, Any], replaced: Values | None
) -> dict[str, Any] | None:
    """The arguments with those that the guard replaces; None where they do not fit."""
    if replaced is None:
        return arguments
    try:
        return tool.validate(arguments | replaced)[0]
    except ArgumentsDoNotFit:
        return None
