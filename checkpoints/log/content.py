"""The content of a thread: what goes when it expires, and what is said afterwards.

Content is everything sealed that an agent did or was told. What stays is the skeleton:
thread, branches, the steps' rows, runs, approvals and decisions, so that SQL may be
asked and "who allowed what" answered, and no foreign key breaks.
"""

from __future__ import annotations

from typing import Never
from uuid import UUID

from django.db import connection

from checkpoints.access import Reason
from checkpoints.compiled import Compiled
from checkpoints.errors import Pruned, Shredded
from checkpoints.ids import short
from checkpoints.log import rows
from checkpoints.models import Archive, Blob, Branch, Deletion, Thread

BY_POLICY = "the retention policy"


def remove(thread: Thread) -> list[tuple[str, str]]:
    """Remove a thread's content in the open transaction, which has journaled it.

    The stores and names of its blobs' objects, which can go once that committed.
    """
    blobs = rows.of_thread(Blob, thread.pk).values_list("store", "object_name")
    objects = [(store, name) for store, name in blobs]
    for model in rows.models_of_threads():
        found = rows.of_thread(model, thread.pk)
        if model in rows.CONTENT_ROWS:
            # Nothing refers to these rows: no need to fetch them first.
            found._raw_delete(found.db)
        elif columns := rows.content_columns(model):
            found.update(**dict.fromkeys(columns))
    return objects


def is_here(thread_id: UUID) -> bool:
    return bool(_HERE.rows(None, pk=thread_id))


_HERE = Compiled(
    lambda _, pk: (
        Thread.objects.unscoped(Reason.ARCHIVE)
        .filter(pk=pk, pruned_at=None)
        .values_list("pk")
    )
)


def last_deletion(thread_id: UUID) -> Deletion | None:
    """What the journal says about the content that went last."""
    return (
        Deletion.objects.unscoped(Reason.ARCHIVE)
        .filter(thread_id=thread_id)
        .select_related("by", "policy")
        .order_by("-at")
        .first()
    )


def require(thread_id: UUID) -> None:
    """Raises Pruned or Shredded, with when, by whom and the way back, unless it is here."""
    if not is_here(thread_id):
        explain(thread_id)


def keep(branch_id: UUID, thread_id: UUID) -> None:
    """From here on nobody removes the thread's content, until the open transaction ends.

    No step waits for this lock. Raises as `require` does.
    """
    with connection.cursor() as cursor:
        # A foreign key's lock would come at commit, which is too late to ask.
        cursor.execute(_KEEP, [branch_id])
    require(thread_id)


_KEEP = f"SELECT FROM {Branch._meta.db_table} WHERE id = %s FOR KEY SHARE"  # our own name; the value is a parameter


def explain(thread_id: UUID) -> Never:
    """Raises Pruned or Shredded for a thread whose content went."""
    gone = last_deletion(thread_id)
    name = f"Thread {short(thread_id)}"
    if gone is None:
        raise Pruned(f"{name} is being restored. Try again in a moment.")
    when, who = f"{gone.at:%Y-%m-%d}", by_whom(gone)
    if gone.what == Deletion.What.SHREDDED:
        raise Shredded(f"{name} was shredded on {when} by {who}.")
    raise Pruned(
        f"{name} was archived on {when} by {who}; an operator can restore it."
        if has_archive(thread_id)
        else f"{name} was archived on {when} by {who}; that archive was deleted since."
    )


def by_whom(gone: Deletion) -> str:
    if gone.by is None:
        return BY_POLICY
    return str(gone.by.get_full_name() or gone.by.get_username())


def has_archive(thread_id: UUID) -> bool:
    return (
        Archive.objects.unscoped(Reason.ARCHIVE)
        .filter(thread_id=thread_id, status=Archive.Status.PRUNED)
        .exists()
    )
