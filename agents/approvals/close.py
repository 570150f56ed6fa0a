"""A request is closed, the decision that closes it written, and who hears of it, in one
statement.

Compare-and-set on what was shown: where the request is decided, or another revision, or
asks for other bytes, nothing is written.
"""

from __future__ import annotations

from datetime import datetime

from agents.delivery import outbox
from agents.errors import Stale
from agents.models import Approval, Decision
from agents.models.approvals import Seen
from checkpoints.db.prepared import Prepared

_STATUS = {
    Decision.Verdict.APPROVE: Approval.Status.APPROVED,
    Decision.Verdict.EDIT: Approval.Status.APPROVED,
    Decision.Verdict.REJECT: Approval.Status.REJECTED,
    Decision.Verdict.RESPOND: Approval.Status.RESPONDED,
}


def close(
    row: Approval,
    seen: Seen,
    decision: Decision,
    *,
    settled: bytes,
    final_at: datetime | None,
) -> None:
    """Give the request its decision; `settled` is the digest of what may run now.

    An edit makes a revision of its own: other bytes will run. Until `final_at` it can be
    taken back, and the run is not woken. Raises Stale.
    """
    closed = _CLOSE.row(
        {
            "status": _STATUS[Decision.Verdict(decision.verdict)].value,
            "closed_revision": seen.revision + (settled != seen.digest),
            "settled": settled,
            "final_at": final_at,
            "seen_revision": seen.revision,
            "seen_digest": seen.digest,
            **{name: getattr(decision, attname) for name, attname in _COLUMNS.items()},
        }
    )
    if closed is None:
        raise Stale(seen.revision, row.revision)
    if closed[0] != "0":
        outbox.ring(row, outbox.Event.DECIDED)


_COLUMNS = {field.column: field.attname for field in Decision._meta.concrete_fields}

# The request as it was before, like all that one statement reads.
_TELL = outbox.queueing(
    "asked.id IN (SELECT id FROM closed)",
    event=f"'{outbox.Event.DECIDED.value}'::text",
    outcome="%(status)s",
)
# Tables and columns are named by the models; every value is a parameter.
_CLOSE = Prepared(f"""
WITH closed AS (
    UPDATE {Approval._meta.db_table}
    SET status = %(status)s,
        revision = %(closed_revision)s,
        digest = %(settled)s,
        decided_at = %(at)s,
        decided_by_id = %(by_id)s,
        final_at = %(final_at)s
    WHERE id = %(approval_id)s
      AND status = 'pending'
      AND revision = %(seen_revision)s
      AND digest = %(seen_digest)s
    RETURNING id
), said AS (
    INSERT INTO {Decision._meta.db_table} ({", ".join(_COLUMNS)})
    SELECT {", ".join(f"%({name})s" for name in _COLUMNS)} FROM closed
), told AS (
    {_TELL}
    RETURNING id
)
SELECT (SELECT count(*) FROM told)::text FROM closed
""")  # noqa: S608  # our own names; values are parameters
