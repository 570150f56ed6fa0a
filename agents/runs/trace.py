"""What the audit log says of a call with effects: who let it run, what they saw, which rule.

From this alone, without the tables, each effect outside leads to the people who approved
it, the digest of what they were shown, and the version of the policy that asked; or to
the rule that asked nobody. An event is written when a call is begun, with the intent: a
worker that dies afterwards leaves it behind. Another says what came of it, and goes into
the statement that stores the result, as does what channels are to tell.
"""

from __future__ import annotations

import json
from typing import Any

from django.db.models import Q

from agents.delivery.outbox import queueing
from agents.models import Approval, Policy, ToolCall
from agents.pure.policies import Why
from checkpoints.access import Reason
from checkpoints.db.prepared import Prepared
from checkpoints.ids import uuid7
from checkpoints.models import AuditEvent


def values(why: Why) -> dict[str, Any]:
    """For a statement with `_event` in it."""
    return {"event": uuid7(), "why": json.dumps(dict(why))}


def begun(call: ToolCall) -> Why | None:
    """Why a call was begun, as the log has it: whoever goes on with a call of another
    claim does not judge it again."""
    asked = Approval.objects.unscoped(Reason.WORKER).filter(call=call.pk)
    # By their ids, not by a query in the query: so the log's index serves it.
    ids = list(asked.values_list("pk", flat=True))
    events = (
        AuditEvent.objects.unscoped(Reason.WORKER)
        .filter(workspace=call.workspace_id, action="begin", detail__call=str(call.pk))
        .filter(
            Q(object_type=ToolCall._meta.label_lower, object_id=call.pk)
            | Q(object_type=Approval._meta.label_lower, object_id__in=ids)
        )
    )
    detail = events.order_by("position").values_list("detail", flat=True).last()
    if detail is None:
        return None
    return {name: value for name, value in detail.items() if name not in _OF_EACH}


_OF_EACH = ("run", "grant", "call", "status")  # what each such event says besides


def _event(action: str, *, of: str, status: str, outcome: str) -> str:
    """Write the event if `of` has a row. The approval is the one that lets it run."""
    return f"""
INSERT INTO {AuditEvent._meta.db_table}
    (id, workspace_id, action, object_type, object_id, outcome, purpose, via, session,
     detail)
SELECT %(event)s::uuid, %(workspace)s::uuid, '{action}',
       CASE WHEN asked.id IS NULL THEN '{ToolCall._meta.label_lower}'
            ELSE '{Approval._meta.label_lower}' END,
       coalesce(asked.id, %(call)s::uuid), {outcome}, '', 'worker', '',
       jsonb_strip_nulls(jsonb_build_object(
           'run', %(run)s::uuid::text,
           'grant', %(grant)s::uuid::text,
           'call', %(call)s::uuid::text,
           'status', {status},
           'approval', asked.id,
           'revision', asked.revision,
           'digest', encode(asked.digest, 'hex'),
           'policy', asked.policy_id,
           'policy_version', policy.version,
           'rule', CASE WHEN asked.policy_id IS NULL THEN nullif(asked.rule, '') END,
           'approvers', CASE WHEN asked.id IS NOT NULL
                             THEN %(why)s::jsonb -> 'approvers' END
       )) || CASE WHEN asked.id IS NULL THEN %(why)s::jsonb ELSE '{{}}' END
FROM {of}
LEFT JOIN {Approval._meta.db_table} asked
  ON asked.call_id = %(call)s::uuid AND asked.status = '{Approval.Status.APPROVED}'
LEFT JOIN {Policy._meta.db_table} policy ON policy.id = asked.policy_id"""  # noqa: S608  # our own names; values are parameters


# Parts of the WITH of the statement that stores a result; `beside` has its other values.
EXECUTED = f"""
, traced AS ({
    _event(
        "execute",
        of="moved",
        status="%(call_status)s::varchar",
        outcome="CASE WHEN %(call_status)s::varchar = 'succeeded' THEN 'ok' ELSE 'failed' END",
    )
}
), told AS ({
    queueing(
        "asked.call_id = %(call)s::uuid AND EXISTS (SELECT FROM moved) AND asked.status"
        f" = '{Approval.Status.APPROVED}'",
        event="'executed'",
        outcome="%(call_status)s::varchar",
    )
})"""

# As `judged` says, and only then; the event in the same round trip.
BEGIN = Prepared(f"""
WITH begun AS (
    UPDATE {ToolCall._meta.db_table}
    SET status = '{ToolCall.Status.EXECUTING}',
        attempts = %(attempts)s,
        error_class = '',
        worker = %(worker)s,
        started_at = clock_timestamp()
    WHERE id = %(call)s AND workspace_id = %(workspace)s AND thread_id = %(thread)s
      AND status = %(was)s
    RETURNING id
), traced AS ({_event("begin", of="begun", status="'executing'::text", outcome="'ok'")})
SELECT id::text FROM begun
""")  # noqa: S608  # as above
