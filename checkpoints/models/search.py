from __future__ import annotations

from django.db import models

from checkpoints.access import ThreadScopedQuerySet
from checkpoints.ids import short, uuid7
from checkpoints.models.fields import BlindIndexField
from checkpoints.models.threads import Branch, Thread
from checkpoints.models.workspaces import Workspace


class SearchField(models.Model):
    """A field of a branch's state that its agent declared, to find its thread by.

    The value is not here: a keyed hash of it is, as it was when a run of the branch last
    came to rest. The rows are content: they go with their thread's, and come back with it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # As the branch has them whose holder writes the row, and lets it go in the same
    # transaction: the database need not look them up again.
    workspace = models.ForeignKey(
        Workspace,
        models.PROTECT,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="+", db_constraint=False
    )
    branch = models.ForeignKey(
        Branch, models.PROTECT, related_name="+", db_constraint=False, db_index=False
    )
    name = models.CharField(max_length=40, help_text="As code declares it.")
    blind_index = BlindIndexField(help_text="Of the name and the value.")

    objects = models.Manager.from_queryset(ThreadScopedQuerySet)()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["branch", "name"], name="search_field_once_in_branch"
            ),
        ]
        indexes = [
            models.Index(
                fields=["workspace", "blind_index", "thread"],
                name="search_field_by_value",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} of branch {short(self.branch_id)}"
