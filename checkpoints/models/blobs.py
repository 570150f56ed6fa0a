from __future__ import annotations

from django.db import models

from checkpoints.access import ThreadScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import short, uuid7
from checkpoints.models.threads import Thread
from checkpoints.models.workspaces import Workspace


class Blob(models.Model):
    """A large value of a thread's state: sealed, and kept in a blob store.

    State holds `{"$blob": id, "size", "media_type", "digest"}` in its place. The object
    is written and verified before this row, which commits with the step that refers to it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="blobs")
    store = models.CharField(max_length=20, help_text="local, s3")
    object_name = models.CharField(max_length=100, unique=True, help_text="Random.")
    size = models.PositiveBigIntegerField(help_text="Bytes, opened.")
    stored_size = models.PositiveBigIntegerField(help_text="Bytes, sealed.")
    media_type = models.CharField(max_length=100)
    digest = models.BinaryField(
        help_text="Keyed hash of the content: the same value is stored once in a thread."
    )
    data_key = models.UUIDField(help_text="The data key it is sealed with.")
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    objects = models.Manager.from_queryset(ThreadScopedQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "digest"], name="blob_once_per_thread"
            ),
        ]

    def __str__(self) -> str:
        return f"blob {short(self.pk)}"


class StoreMark(models.Model):
    """By which mark this database knows its blob store; a row for each kind of store.

    So a directory that another machine happens to have under the same path is not taken
    for it (`stores/mark.py`).
    """

    kind = models.CharField(primary_key=True, max_length=20, help_text="local, s3")
    mark = models.UUIDField()
    claimed_at = models.DateTimeField(
        null=True, editable=False, help_text="When a store first had the mark."
    )

    def __str__(self) -> str:
        return f"{self.kind} store {short(self.mark)}"
