"""What people say about a thread, a branch or a step: notes, labels, stars, verdicts.

What is written is sealed under the thread's keys and goes with its content. The audit log
says who remarked on what, and who took it back, never the words. A star is one's own: it
is in no log.

Each change locks the thread's row: two that come at once are one after the other, and none
is written while the content goes. No step waits for that lock.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from agents.errors import InvalidRemark
from agents.tools.secrets import captured
from checkpoints import audit, gate
from checkpoints.access import Role, UserPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import NotPermitted
from checkpoints.keys.hierarchy import workspace_mac
from checkpoints.log import content
from checkpoints.models import Branch, Checkpoint, DataKey, Remark, Thread
from checkpoints.models.remarks import RemarkQuerySet
from checkpoints.pure.chain import keyed_digest

NOTE, LABEL, REASON = 4_000, 40, 500  # characters
MOST = 1_000  # remarks of a thread, with those that were taken back; stars are apart
MOST_LABELS = 20  # of one thread, branch or step

READERS = "Your role reads the audit log, not threads."
VIEWER = (
    "Viewers read. An operator of the workspace can write notes, labels and verdicts."
)
OTHER = (
    "This form was sent before, with something else, and that is kept. What is written"
    " here now is not: send it once more."
)

_Kind = Remark.Kind


@dataclass(frozen=True)
class About:
    """What is remarked on: the thread, a branch of it, or a checkpoint of a branch."""

    thread: Thread
    branch: Branch | None = None
    checkpoint: Checkpoint | None = None

    @property
    def columns(self) -> dict[str, UUID | None]:
        step, branch = self.checkpoint, self.branch
        return {
            "branch_id": step.branch_id if step else branch.pk if branch else None,
            "checkpoint_id": step.pk if step else None,
        }


def note(
    about: About, by: UserPrincipal, *, text: str, request_key: UUID | None = None
) -> Remark:
    """Write a note. A repeated `request_key` gives the first call's.

    Raises InvalidRemark where it is empty, too long or one too many, or where the first call
    said something else, NotPermitted for whom
    may not write here, Pruned or Shredded where the thread's content is gone.
    """
    written = _text("A note", text, most=NOTE, empty="Write the note first.")
    return _write(about, by, _Kind.NOTE, written, request_key)


def label(about: About, by: UserPrincipal, *, text: str) -> Remark:
    """Put a label on it; the same label again is the one that is there. Raises as `note`.

    Labels are the same that differ in case, blanks or width of their letters alone.
    """
    words = " ".join(text.split())
    written = _text("A label", words, most=LABEL, empty="Write the label first.")
    index = blind_index(by.workspace_id, written)
    with _changing(about.thread, by) as thread:
        there = _of(thread, by).standing().filter(kind=_Kind.LABEL, **about.columns)
        if same := there.filter(blind_index=index).first():
            return same
        if there.count() >= MOST_LABELS:
            raise InvalidRemark(
                f"There are {MOST_LABELS} labels on this already, which is the most."
                " Take one off first."
            )
        return _insert(about, thread, by, _Kind.LABEL, written, blind_index=index)


def judge(
    about: About,
    by: UserPrincipal,
    *,
    good: bool,
    reason: str = "",
    request_key: UUID | None = None,
) -> Remark:
    """Say that it went well or badly. The newest verdict counts, all are kept.

    Raises as `note`; the reason may be empty.
    """
    written = _text("A reason", reason, most=REASON)
    kind = _Kind.GOOD if good else _Kind.BAD
    return _write(about, by, kind, written, request_key)


def star(about: About, by: UserPrincipal) -> bool:
    """Mark it for oneself. False when it was. Raises NotPermitted for whom may not read."""
    with _changing(about.thread, by, reading=True) as thread:
        if _of(thread, by).stars_of(by).filter(**about.columns).exists():
            return False
        Remark(
            workspace_id=thread.workspace_id,
            thread=thread,
            kind=_Kind.STAR,
            by_id=by.user_id,
            **about.columns,
        ).save(force_insert=True)
    return True


def unstar(about: About, by: UserPrincipal) -> bool:
    """False when it had no star of theirs. Raises NotPermitted for whom may not read."""
    with _changing(about.thread, by, reading=True) as thread:
        mine = _of(thread, by).stars_of(by).filter(**about.columns)
        return bool(mine.update(removed_at=ClockTimestamp(), removed_by=by.user_id))


def remove(thread: Thread, by: UserPrincipal, remark: UUID) -> bool:
    """Take a note, a label or a verdict back: who and when stay, the words are destroyed.

    False when it was taken back already. Raises NotPermitted for whom it is not theirs and
    who is no admin, Pruned or Shredded where the words are not here, and
    Remark.DoesNotExist for what is none of this thread.
    """
    with _changing(thread, by, reading=True) as locked:
        content.require(locked.pk)
        found = _of(locked, by).exclude(kind=_Kind.STAR).get(pk=remark)
        if by.role is not Role.ADMIN and found.by_id != by.user_id:
            raise NotPermitted("Only who wrote this, or an admin, can take it back.")
        if found.removed_at is not None:
            return False
        _of(locked, by).filter(pk=found.pk).update(
            removed_at=ClockTimestamp(),
            removed_by=by.user_id,
            text=None,
            blind_index=None,
        )
        _record(by, "remark_remove", found)
    return True


def labelled(by: UserPrincipal, words: str) -> RemarkQuerySet:
    """The label of these words, wherever it is put: `.values("thread")` filters threads.

    An exact match by index: nothing is opened.
    """
    index = blind_index(by.workspace_id, " ".join(words.split()))
    return Remark.objects.for_user(by).filter(blind_index=index)


def blind_index(workspace_id: UUID, words: str) -> bytes:
    """What equal labels of a workspace have in common: a keyed hash, 32 bytes."""
    key = workspace_mac(workspace_id, DataKey.Purpose.INDEX)
    same = unicodedata.normalize("NFKC", words).casefold()
    return keyed_digest(key, "label 1", same)


def _text(what: str, text: str, *, most: int, empty: str = "") -> str:
    """As it is stored, without secrets. Raises InvalidRemark."""
    written = captured(text.replace("\r\n", "\n").strip())
    if not written and empty:
        raise InvalidRemark(empty)
    if len(written) > most:
        raise InvalidRemark(
            f"{what} has at most {most:,} characters; this one has {len(written):,}."
        )
    return written


@contextmanager
def _changing(
    thread: Thread, by: UserPrincipal, *, reading: bool = False
) -> Iterator[Thread]:
    """The thread, locked; `reading`: whoever may read it may do this."""
    if not by.may_read:
        raise NotPermitted(READERS)
    if not reading and not by.may_operate:
        raise NotPermitted(VIEWER)
    with transaction.atomic():
        # As whoever removes content locks it, so that theirs or ours comes first.
        readable = Thread.objects.for_user(by).select_for_update(no_key=True)
        locked = readable.filter(pk=thread.pk).first()
        if locked is None:
            raise NotPermitted("This thread is not shared with you.")
        if not reading:
            content.require(locked.pk)
        yield locked


def _write(
    about: About, by: UserPrincipal, kind: str, text: str, request_key: UUID | None
) -> Remark:
    with _changing(about.thread, by) as thread:
        keyed = Remark.objects.for_user(by).filter(request_key=request_key)
        again = None if request_key is None else keyed.first()
        if again is None:
            return _insert(about, thread, by, kind, text, request_key=request_key)
        if (again.by_id, again.thread_id) != (by.user_id, thread.pk):
            raise NotPermitted("This request key was used for something else.")
    # A double click; or somebody went back to the page, and wrote something else there.
    opened = gate.admit(by, purpose="remark", threads=[about.thread])
    said = opened.open(again, "text") or ""
    if (again.kind, _columns(again), said) != (kind, about.columns, text):
        raise InvalidRemark(OTHER)
    return again


def _insert(
    about: About,
    thread: Thread,
    by: UserPrincipal,
    kind: str,
    text: str,
    *,
    request_key: UUID | None = None,
    blind_index: bytes | None = None,
) -> Remark:
    if _of(thread, by).exclude(kind=_Kind.STAR).count() >= MOST:
        raise InvalidRemark(
            f"This thread has {MOST:,} notes, labels and verdicts, which is the most."
        )
    row = Remark(
        workspace_id=thread.workspace_id,
        thread=thread,
        kind=kind,
        by_id=by.user_id,
        request_key=request_key,
        blind_index=blind_index,
        **about.columns,
    )
    row.text = gate.seal(row, "text", text) if text else None
    row.save(force_insert=True)
    _record(by, "remark", row)
    return row


def _columns(row: Remark) -> dict[str, UUID | None]:
    return {"branch_id": row.branch_id, "checkpoint_id": row.checkpoint_id}


def _of(thread: Thread, by: UserPrincipal) -> RemarkQuerySet:
    return Remark.objects.for_user(by).filter(thread=thread)


def _record(by: UserPrincipal, action: str, row: Remark) -> None:
    audit.record(
        by,
        action,
        obj=Thread(pk=row.thread_id),
        remark=row.pk,
        kind=row.kind,
        branch=row.branch_id,
        checkpoint=row.checkpoint_id,
    )
