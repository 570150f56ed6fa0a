"""The audit log as a chain: links its events, and proves that they are as they were.

Events are written plainly, with the change that they record. The linker follows within
about a second, one for each workspace at a time; a lock on the chain in every request
would make readers wait for each other. What a row's hash covers is said in
`pure/audit_proof.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Q, Subquery
from django.db.models.functions import Coalesce

from checkpoints import audit
from checkpoints.access import Reason, ScopedQuerySet, UserPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.models import AuditEvent, AuditLink, AuditPending, Workspace
from checkpoints.pure import audit_proof
from checkpoints.pure.audit_proof import Fault, Head, Row, Verdict

BATCH = 1_000  # events that one transaction links
READ = 5_000  # rows that one query reads
NEWEST = 50_000  # rows that a page verifies: some seconds
UNLINKED_FOR = timedelta(minutes=1)  # so long, and no linker is at work

# As `audit_proof.FIELDS`, but for the ids of workspace, actor and object.
_COLUMNS = (
    "position",
    "id",
    "at",
    "workspace_id",
    "actor_id",
    "via",
    "session",
    "address",
    "action",
    "object_type",
    "object_id",
    "purpose",
    "outcome",
    "detail",
)


def link_pending(limit: int = 5 * BATCH) -> int:
    """Link events that wait, up to about `limit` in each workspace; gives how many.

    A workspace whose events another process links right now is left to it.
    """
    waiting = AuditPending.objects.unscoped(Reason.AUDIT)
    linked = 0
    for workspace_id in waiting.values_list("workspace_id", flat=True).distinct():
        for _ in range(0, limit, BATCH):
            done = _link_batch(workspace_id)
            linked += done
            if done < BATCH:
                break
    return linked


@transaction.atomic
def _link_batch(workspace_id: UUID | None) -> int:
    if not _alone(workspace_id):
        return 0
    pending = (
        AuditPending.objects.unscoped(Reason.AUDIT)
        .filter(_of(workspace_id))
        .order_by("position")
    )
    ids = list(pending.values_list("event_id", flat=True)[:BATCH])
    head = head_of(workspace_id)
    links = []
    # A row slipped in among what waits may name an event that is linked, for which the
    # database would refuse all, or another workspace's.
    for event in _events(ids, _of(workspace_id), Q(link=None)):
        digest = audit_proof.link(head.hash, event)
        links.append(
            AuditLink(
                event_id=UUID(event["id"]),
                workspace_id=workspace_id,
                number=head.number + 1,
                previous=head.hash,
                hash=digest,
            )
        )
        head = Head(head.number + 1, digest)
    AuditLink.objects.bulk_create(links)
    pending.filter(event_id__in=ids).delete()
    return len(ids)


def _alone(workspace_id: UUID | None) -> bool:
    """Whether this transaction is now the only one to link the workspace's events."""
    name = sha256(f"holdpoint audit {workspace_id}".encode()).digest()
    with connection.cursor() as cursor:
        key = int.from_bytes(name[:8], "big", signed=True)
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [key])
        (alone,) = cursor.fetchone()
    return bool(alone)


def head_of(workspace_id: UUID | None) -> Head:
    """The last link of the workspace's chain."""
    link = _links(workspace_id).order_by("-number").first()
    return Head(link.number, bytes(link.hash)) if link else Head()


def head_at(workspace_id: UUID | None, number: int) -> Head:
    """The link with this number; the start of the chain where there is none."""
    link = _links(workspace_id).filter(number=number).first()
    return Head(link.number, bytes(link.hash)) if link else Head()


def chains() -> Iterator[Workspace | None]:
    """Whose logs there are: each workspace, and None for what belongs to none."""
    yield from Workspace.objects.order_by("slug")
    yield None


def rows(workspace_id: UUID | None, *, after: int = 0) -> Iterator[Row]:
    """The chain in order, from the link after this number; some thousands at a time."""
    columns = [f"event__{column}" for column in _COLUMNS]
    while True:
        batch = list(
            _links(workspace_id)
            .filter(number__gt=after)
            .order_by("number")
            .values_list("number", "previous", "hash", *columns)[:READ]
        )
        for number, previous, digest, *values in batch:
            yield Row(number, bytes(previous), bytes(digest), _event(values))
        if len(batch) < READ:
            return
        after = batch[-1][0]


def verify_audit(
    workspace_id: UUID | None,
    *,
    start: Head | None = None,
    anchors: Iterable[Head] = (),
    progress: Callable[[int], object] = lambda number: None,
) -> Verdict:
    """Recompute the workspace's chain, and say which row is the first bad one.

    `start` (a head that is known to be good) leaves out what is before it. `progress`
    is told the number of a row now and then. An event that has waited for its link for
    more than UNLINKED_FOR is a fault, too: it may be one that was slipped in.
    """
    start = start or Head()

    def told() -> Iterator[Row]:
        for row in rows(workspace_id, after=start.number):
            if row.number % READ == 0:
                progress(row.number)
            yield row

    verdict = audit_proof.verify(
        told(),
        start=start,
        anchors=anchors,
        workspace=str(workspace_id) if workspace_id else None,
    )
    if verdict.fault is None and (event := _unlinked(workspace_id)) is not None:
        fault = Fault(
            verdict.head.number + 1,
            "unlinked",
            f"event {event.pk} of {event.at:%Y-%m-%d %H:%M:%S} UTC is in no chain yet."
            " Is a worker running?",
            str(event.pk),
        )
        return Verdict(verdict.start, verdict.head, fault)
    return verdict


@dataclass(frozen=True)
class Verified:
    """What was found the last time that the log, or its newest part, was verified."""

    first: int
    number: int  # of the last row that holds
    at: datetime
    what: str = ""  # is wrong, if anything is; then with which row and event
    bad: int = 0
    bad_event: UUID | None = None

    @property
    def fault(self) -> bool:
        return bool(self.what)

    @property
    def sound(self) -> int:
        """The last row before the bad one; 0 where it was the first that was looked at."""
        return self.bad - 1 if self.bad > self.first else 0


def record_verdict(
    verdict: Verdict,
    *,
    workspace: Workspace | None,
    by: UserPrincipal | None = None,
    via: str = "web",
) -> None:
    """Write down what was found, in the log itself."""
    fault = verdict.fault
    audit.record(
        by,
        "verify_audit",
        obj=workspace,
        workspace_id=workspace.pk if workspace else None,
        via=via,
        outcome="broken" if fault else "ok",
        first=verdict.start.number + 1,
        number=verdict.head.number,
        hash=verdict.head.hash.hex(),
        what=fault.what if fault else None,
        bad=fault.number if fault else None,
        event=(fault.event or _event_at(workspace, fault.number)) if fault else None,
    )


def verify_newest(by: UserPrincipal) -> Verified:
    """Verify the newest NEWEST rows of the person's workspace, and record what was found.

    Where there are no more, that is all of them.
    """
    workspace = Workspace.objects.get(pk=by.workspace_id)
    start = head_at(workspace.pk, head_of(workspace.pk).number - NEWEST)
    verdict = verify_audit(workspace.pk, start=start)
    record_verdict(verdict, workspace=workspace, by=by)
    found = last_verified(workspace.pk)
    assert found is not None  # it was recorded just now
    return found


def last_verified(workspace_id: UUID) -> Verified | None:
    """How the workspace's log stands. A part that holds mends what is in it, no more:
    a fault counts until its row was verified again, however often later rows were."""
    events = (
        AuditEvent.objects.unscoped(Reason.AUDIT)
        .filter(
            workspace_id=workspace_id,
            object_type="checkpoints.workspace",  # by the index of objects
            object_id=workspace_id,
            action="verify_audit",
        )
        .order_by("-position")
    )
    whole = events.filter(outcome="ok", detail__first=1).values("position")[:1]
    newest: Verified | None = None
    holds_from: int | None = None  # the first row that was found to hold since
    for event in events.filter(position__gte=Coalesce(Subquery(whole), 0)):
        found = _verified(event)
        newest = newest or found
        if not found.fault:
            holds_from = min(found.first, holds_from or found.first)
        elif holds_from is None or found.bad < holds_from:
            return found
    return newest


def _verified(event: AuditEvent) -> Verified:
    said = event.detail
    return Verified(
        first=int(said.get("first", 1)),
        number=int(said.get("number", 0)),
        at=event.at,
        what=str(said.get("what", "")),
        bad=int(said.get("bad", 0)),
        bad_event=UUID(said["event"]) if said.get("event") else None,
    )


def _event_at(workspace: Workspace | None, number: int) -> UUID | None:
    links = _links(workspace.pk if workspace else None).filter(number=number)
    return links.values_list("event_id", flat=True).first()


def covers(link: AuditLink, event: AuditEvent) -> bool:
    """Whether the link's hash is that of this event and of what the link says is before."""
    found = _event(getattr(event, column) for column in _COLUMNS)
    return audit_proof.link(bytes(link.previous), found) == bytes(link.hash)


def _unlinked(workspace_id: UUID | None) -> AuditEvent | None:
    events = AuditEvent.objects.unscoped(Reason.AUDIT)
    return (
        events.filter(_of(workspace_id), link=None)
        .filter(at__lt=ClockTimestamp() - UNLINKED_FOR)
        .order_by("position")
        .first()
    )


def _links(workspace_id: UUID | None) -> ScopedQuerySet[AuditLink]:
    return AuditLink.objects.unscoped(Reason.AUDIT).filter(_of(workspace_id))


def _of(workspace_id: UUID | None) -> Q:
    return Q(workspace_id=workspace_id)


def _events(ids: list[UUID], *which: Q) -> Iterator[dict[str, Any]]:
    found = AuditEvent.objects.unscoped(Reason.AUDIT).filter(*which, pk__in=ids)
    for values in found.order_by("position").values_list(*_COLUMNS):
        yield _event(values)


def _event(values: Iterable[Any]) -> dict[str, Any]:
    """The event as JSON, under the names of `audit_proof.FIELDS`."""
    return {
        field: _plain(value)
        for field, value in zip(audit_proof.FIELDS, values, strict=True)
    }


def _plain(value: Any) -> Any:
    match value:
        case UUID():
            return str(value)
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds")
    return value
