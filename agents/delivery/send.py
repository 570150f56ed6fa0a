"""The outbox is worked off: each message claimed, sent, and marked as what came of it.

A worker that dies between sending and marking leaves a claim that lapses; another one
then sends the message again, under the same id. At least once, that is, never not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from django.db import transaction

from agents.delivery import mail, outbox, webhook
from agents.delivery.message import Message, message_of
from agents.delivery.trouble import NotDelivered
from agents.models import Channel, Delivery, Event
from agents.tools.retitled import retitled
from checkpoints import audit, gate
from checkpoints.access import Reason, ScopedQuerySet, SystemPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.db.prepared import Prepared
from checkpoints.errors import CheckpointsError
from checkpoints.failpoints import failpoint

logger = logging.getLogger(__name__)

LEASE = 60  # seconds until another worker takes what one has claimed
# Until the next try; after the last it is given up, about a day after the first.
BACKOFF = [
    *(timedelta(seconds=30), timedelta(minutes=2), timedelta(minutes=10)),
    *(timedelta(hours=1), timedelta(hours=3), timedelta(hours=7), timedelta(hours=12)),
]
TRIES = len(BACKOFF) + 1
BATCH = 50  # messages of one turn

Status = Delivery.Status


def work_off(*, stopping: Callable[[], bool] = lambda: False) -> int:
    """Send what is due; how many messages got through.

    A channel that fails has no second message in this turn: those of others go first.
    """
    sent = 0
    failing: set[UUID] = set()
    for _ in range(BATCH):
        if stopping() or (claimed := _claim(failing)) is None:
            break
        if _send(claimed):
            sent += 1
        else:
            failing.add(claimed.channel_id)
    return sent


def _claim(failing: set[UUID]) -> Delivery | None:
    # An array as text: what a planned statement takes (`Prepared.row`).
    listed = "{" + ",".join(map(str, failing)) + "}"
    row = _CLAIM.row({"lease": LEASE, "failing": listed})
    if row is None:
        return None
    return (
        Delivery.objects.unscoped(Reason.DELIVERY)
        .select_related(
            *("channel", "approval__call", "approval__thread", "recipient"),
            "approval__run__agent_version__agent",
        )
        .get(pk=str(row[0]))
    )


# The next look at it is after the lease, unless this one ends well before. What is due is
# looked for in its index, which takes no clock_timestamp(): that changes while it looks.
_CLAIM = Prepared(f"""
UPDATE {Delivery._meta.db_table}
SET attempts = attempts + 1, next_at = clock_timestamp() + make_interval(secs => %(lease)s)
WHERE id = (
    SELECT id FROM {Delivery._meta.db_table}
    WHERE status = 'queued' AND next_at <= statement_timestamp()
      AND channel_id <> ALL (%(failing)s::uuid[])
    ORDER BY next_at LIMIT 1
    FOR UPDATE SKIP LOCKED
)
RETURNING id::text
""")  # noqa: S608  # our own names; values are parameters


def _send(delivery: Delivery) -> bool:
    """Whether it need not be tried again soon."""
    if why := _needless(delivery):
        _mark(delivery, Status.SKIPPED, why)
        return True
    try:
        _post(delivery)
    except NotDelivered as failed:
        _failed(delivery, failed.code, final=failed.final)
        return False
    except CheckpointsError as error:
        # The channel's record, or the title, does not open.
        _failed(delivery, error.code, final=not error.retry)
        return False
    failpoint("after delivery")
    _mark(delivery, Status.SENT)
    return True


def _needless(delivery: Delivery) -> str:
    """Why nobody needs it any more. Programs are told everything, in any order."""
    if not delivery.channel.active:
        return "channel_off"
    approval = delivery.approval
    if approval is not None and not outbox.is_still_told(delivery):
        return "not_theirs"
    if delivery.channel.kind == Channel.Kind.WEBHOOK or approval is None:
        return ""
    if delivery.event in (Event.ASKED, Event.ESCALATED) and not (
        approval.is_pending and approval.revision == delivery.revision
    ):
        return "over"
    return ""


def _post(delivery: Delivery) -> None:
    """Raises NotDelivered, CheckpointsError."""
    channel = delivery.channel
    message = _message(delivery)
    # What is opened leaves with the message, to where an admin has said that it may.
    seen = gate.admit(
        SystemPrincipal("deliver", channel.workspace_id), purpose="deliver"
    )
    if channel.kind == Channel.Kind.WEBHOOK:
        webhook.post(
            seen.open(channel, "address"),
            secret=seen.open(channel, "secret"),
            message_id=str(message.id),
            body=message.body,
        )
    elif channel.address is not None:
        mail.post(seen.open(channel, "address"), message)
    elif delivery.recipient is not None:
        mail.post(delivery.recipient.email, message)


def _message(delivery: Delivery) -> Message:
    approval = delivery.approval
    if approval is None or not delivery.channel.include_title:
        return message_of(delivery)
    seen = gate.admit(
        SystemPrincipal("deliver", delivery.workspace_id),
        purpose="deliver title",
        threads=[approval.thread],
    )
    call = approval.call
    title = retitled(
        approval.run.agent_version.agent.name,
        call.tool,
        seen.open(call, "title") or "",
        seen.open(call, "effective"),
    )
    return message_of(delivery, title=title)


def _failed(delivery: Delivery, code: str, *, final: bool) -> None:
    logger.warning(
        "a message was not delivered (%s)",
        code,
        extra={"ids": {"delivery": delivery.pk, "channel": delivery.channel_id}},
    )
    if final or delivery.attempts >= TRIES:
        _mark(delivery, Status.UNDELIVERED, code)
        return
    _still_ours(delivery).update(
        next_at=ClockTimestamp() + BACKOFF[delivery.attempts - 1], error_class=code[:60]
    )


def _mark(delivery: Delivery, status: str, code: str = "") -> None:
    """What came of it, and an event that says so."""
    with transaction.atomic():
        sent_at = ClockTimestamp() if status == Status.SENT else None
        marked = _still_ours(delivery).update(
            status=status, error_class=code[:60], sent_at=sent_at
        )
        if not marked:
            return  # another worker had it meanwhile
        audit.record(
            SystemPrincipal("deliver", delivery.workspace_id),
            "deliver",
            obj=delivery.approval or delivery.channel,
            outcome="ok" if status == Status.SENT else str(status),
            delivery=delivery.pk,
            channel=delivery.channel_id,
            told=str(delivery.event),
            revision=delivery.revision or None,
            recipient=delivery.recipient_id,
            attempts=delivery.attempts,
            error=code,
        )


def _still_ours(delivery: Delivery) -> ScopedQuerySet[Delivery]:
    return Delivery.objects.unscoped(Reason.DELIVERY).filter(
        pk=delivery.pk, status=Status.QUEUED, attempts=delivery.attempts
    )
