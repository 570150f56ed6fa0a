"""A request with its run and branch, locked: always in the order branch, run, approval."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from agents.errors import AlreadyDecided, NotEligible, Stale
from agents.models import Approval, Run
from agents.models.approvals import Seen
from checkpoints.access import UserPrincipal
from checkpoints.db import rows
from checkpoints.db.prepared import Prepared
from checkpoints.models import Branch, Grant, Thread
from checkpoints.models.threads import VISIBLE


class Locked(NamedTuple):
    row: Approval
    run: Run
    at: datetime  # the database's time, after all locks were granted


def locked(approval: Approval, by: UserPrincipal) -> Locked:
    """The request as it is now, with its branch, run and row locked, in this order.

    Raises NotEligible where `by` does not see the thread, and AlreadyDecided where the
    request was closed with its run.
    """
    found = _LOCK.execute(
        {
            "approval": approval.pk,
            "workspace": by.workspace_id,
            "user": by.user_id,
            "groups": list(map(str, by.groups)),
        }
    ).fetchone()
    if found is None:
        raise NotEligible("This thread is not shared with you.")
    *values, at = found
    row, run = _made(values)
    if row.is_pending and not run.is_live:
        raise AlreadyDecided("", "closed with its run", None)
    return Locked(row, run, at)


def locked_overdue(pk: UUID) -> tuple[Approval, Run] | None:
    """As `locked`, of a request whose deadline has passed and that nobody acted upon.

    None where it is not so any more, or where somebody else has one of the three rows:
    they decide it, or the next sweep comes by.
    """
    found = _LOCK_OVERDUE.execute({"approval": pk}).fetchone()
    return _made(found) if found is not None else None


def _made(found: Any) -> tuple[Approval, Run]:
    row, run, branch, grant = rows.each(found, Approval, Run, Branch, Grant)
    row.run, run.branch, run.grant = run, branch, grant
    return row, run


_ROWS = f"""
SELECT {rows.columns(Approval, "asked")}, {rows.columns(Run, "run")},
       {rows.columns(Branch, "branch")}, {rows.columns(Grant, "given")}
FROM {Approval._meta.db_table} asked
JOIN {Run._meta.db_table} run ON run.id = asked.run_id
JOIN {Branch._meta.db_table} branch ON branch.id = asked.branch_id
JOIN {Grant._meta.db_table} given ON given.id = run.grant_id
"""  # noqa: S608  # our own names

# PostgreSQL locks in the order in which the tables are named, and gives each row as it is
# once all locks are granted. What is asked outside of the inner statement is so then, too:
# one that locks is never merged with what is around it.
_LOCK = Prepared(f"""
SELECT locked.*, clock_timestamp() FROM (
{_ROWS}
JOIN {Thread._meta.db_table} thread ON thread.id = asked.thread_id
WHERE asked.id = %(approval)s AND asked.workspace_id = %(workspace)s AND {VISIBLE}
FOR NO KEY UPDATE OF branch, run, asked
) locked
""")  # noqa: S608  # our own names; values are parameters

_LOCK_OVERDUE = Prepared(f"""
{_ROWS}
WHERE asked.id = %(approval)s
  AND asked.status = 'pending'
  AND asked.overdue_at IS NULL
  AND asked.due_at <= clock_timestamp()
FOR NO KEY UPDATE OF branch, run, asked SKIP LOCKED
""")


def require_open(row: Approval, seen: Seen) -> None:
    """Raises AlreadyDecided, Stale."""
    if not row.is_pending:
        who = row.decided_by
        name = (who.get_full_name() or who.get_username()) if who else ""
        raise AlreadyDecided(name, row.get_status_display().lower(), row.decided_at)
    if seen != row.as_shown():
        raise Stale(seen.revision, row.revision)
