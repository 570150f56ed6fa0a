"""What is to be told, written in the transaction of what it tells of.

One row of the outbox for each channel that tells of the event, or for each person whom
it writes to; each of them once for a revision of the request. A workspace without
channels pays one statement that writes nothing.
"""

from __future__ import annotations

from functools import partial

from django.contrib.auth.models import User
from django.db import transaction

from agents import queue as doorbell
from agents.models import Approval, Channel, Delivery, Event
from checkpoints.access import Role
from checkpoints.clock import ClockTimestamp
from checkpoints.db.prepared import Prepared
from checkpoints.models import Group, Membership, Thread

__all__ = ["Event", "is_still_told", "queue", "queueing", "ring", "test"]


def queue(approval: Approval, event: str) -> None:
    """Have the channels tell of the event, in the open transaction.

    The request's row must already say what happened: its status, revision, level (of an
    escalation: the steps that were taken, this one included) and terms. Whoever sends is
    rung after commit, and looks every second without a ring, too.
    """
    queued = _QUEUE.row({"approval": approval.pk, "event": str(event)})
    if queued and queued[0] != "0":
        ring(approval, event)


def ring(approval: Approval, event: str) -> None:
    """Have whoever sends look after commit: rows were written for this event."""
    n = f"{approval.revision}-{event}-{approval.level}"
    transaction.on_commit(partial(doorbell.ring_delivery, approval.pk, n=n))


def test(channel: Channel, *, recipient: int | None) -> Delivery:
    """Have one channel say that it works; `recipient` is who tries it, where it writes to
    people."""
    delivery = Delivery.objects.create(
        workspace_id=channel.workspace_id,
        channel=channel,
        recipient_id=recipient if channel.is_to_people else None,
        event=Event.TEST,
        next_at=ClockTimestamp(),
    )
    ring = partial(doorbell.ring_delivery, channel.pk, n=str(delivery.pk))
    transaction.on_commit(ring)
    return delivery


def is_still_told(delivery: Delivery) -> bool:
    """Whether whoever it goes to still is to hear of its request.

    A message waits up to a day: meanwhile people leave, and threads become private.
    """
    asked = {
        "approval": delivery.approval_id,
        "channel": delivery.channel_id,
        "recipient": delivery.recipient_id,
    }
    return _STILL.row(asked) is not None


def queueing(which: str, *, event: str, outcome: str = "asked.status") -> str:
    """The statement that writes the rows: `which` is a condition on `asked`, the request.

    For a part of another statement's WITH. `event` and `outcome` are expressions.
    """
    return f"""
INSERT INTO {Delivery._meta.db_table}
    (id, workspace_id, channel_id, approval_id, recipient_id, event, revision, level,
     outcome, status, attempts, error_class)
SELECT gen_random_uuid(), asked.workspace_id, channel.id, asked.id, told.user_id, {event},
       asked.revision, CASE WHEN {event} = 'escalated' THEN asked.level ELSE 0 END,
       {outcome}, 'queued', 0, ''
FROM {Approval._meta.db_table} asked
JOIN {Thread._meta.db_table} thread ON thread.id = asked.thread_id
JOIN {Channel._meta.db_table} channel
  ON channel.workspace_id = asked.workspace_id AND channel.active
 AND channel.events ? {event}
CROSS JOIN LATERAL (SELECT {_GROUPS.format(event=event)} AS ids) groups
CROSS JOIN LATERAL (SELECT {_PERSON.format(event=event)} AS id) one
CROSS JOIN LATERAL ({_TOLD}) told
WHERE {which}
  AND (channel.groups = '[]' OR channel.groups ?| groups.ids)
ON CONFLICT DO NOTHING"""  # noqa: S608  # our own names; values are parameters


# Whom the request is asked: the groups of its terms with those of the steps that it
# escalated by (`who.asked_groups`), or of the step that it escalates to.
_GROUPS = """CASE
    WHEN {event} = 'escalated' THEN array_remove(
        ARRAY[asked.terms #>> ARRAY['escalation', (asked.level - 1)::text, 'group']], NULL)
    WHEN coalesce(asked.terms -> 'groups', '[]') = '[]' THEN ARRAY[]::text[]
    ELSE ARRAY(
        SELECT jsonb_array_elements_text(asked.terms -> 'groups')
        UNION
        SELECT step.taken ->> 'group'
        FROM jsonb_array_elements(coalesce(asked.terms -> 'escalation', '[]'))
             WITH ORDINALITY AS step(taken, n)
        WHERE step.n <= asked.level AND step.taken ->> 'group' IS NOT NULL)
END"""

# The person whom the step that it escalates to names: they alone are told.
_PERSON = """CASE WHEN {event} = 'escalated' THEN
    (asked.terms #>> ARRAY['escalation', (asked.level - 1)::text, 'person'])::integer
END"""

# A channel with an address is no person: it hears of what the whole workspace sees.
_TOLD = f"""
SELECT NULL::integer AS user_id
WHERE (channel.kind = '{Channel.Kind.WEBHOOK}' OR channel.address IS NOT NULL)
  AND thread.visibility = 'workspace'
UNION ALL
SELECT person.id
FROM {Membership._meta.db_table} member
JOIN {User._meta.db_table} person ON person.id = member.user_id
WHERE channel.kind = '{Channel.Kind.EMAIL}' AND channel.address IS NULL
  AND member.workspace_id = asked.workspace_id
  AND person.is_active AND person.email <> ''
  AND member.role <> '{Role.AUDITOR}'
  AND (member.can_approve OR (asked.kind = '{Approval.Kind.QUESTION}'
       AND member.role IN ('{Role.OPERATOR}', '{Role.ADMIN}')))
  AND (thread.visibility = 'workspace' OR thread.owner_id = person.id
       OR (thread.visibility = 'group' AND EXISTS (
           SELECT FROM {Group.members.through._meta.db_table} shared
           WHERE shared.membership_id = member.id
             AND shared.group_id = thread.group_id)))
  AND (one.id IS NULL OR one.id = person.id)
  AND (cardinality(groups.ids) = 0 OR EXISTS (
       SELECT FROM {Group.members.through._meta.db_table} named
       WHERE named.membership_id = member.id
         AND named.group_id::text = ANY (groups.ids)))
"""  # noqa: S608  # as above

_QUEUE = Prepared(f"""
WITH queued AS (
    {queueing("asked.id = %(approval)s", event="%(event)s::text")}
    RETURNING id
)
SELECT count(*)::text FROM queued
""")  # noqa: S608  # as above

# Not by groups: whom the request asks was settled when it was queued.
_STILL = Prepared(f"""
SELECT 'told'
FROM {Approval._meta.db_table} asked
JOIN {Thread._meta.db_table} thread ON thread.id = asked.thread_id
JOIN {Channel._meta.db_table} channel ON channel.id = %(channel)s
CROSS JOIN LATERAL (SELECT ARRAY[]::text[] AS ids) groups
CROSS JOIN LATERAL (SELECT NULL::integer AS id) one
CROSS JOIN LATERAL ({_TOLD}) told
WHERE asked.id = %(approval)s
  AND told.user_id IS NOT DISTINCT FROM %(recipient)s::integer
""")  # noqa: S608  # as above
