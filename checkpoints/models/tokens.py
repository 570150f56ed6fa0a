from __future__ import annotations

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints.access import Scope, ScopedQuerySet
from checkpoints.clock import ClockTimestamp
from checkpoints.ids import uuid7
from checkpoints.models.workspaces import Workspace


class ApiTokenQuerySet(ScopedQuerySet["ApiToken"]):
    def live(self) -> Self:
        """Tokens that open something: neither revoked nor expired, nor from an archive."""
        return self.filter(
            Q(expires_at=None) | Q(expires_at__gt=ClockTimestamp()), revoked_at=None
        ).exclude(digest=b"")


class ApiToken(models.Model):
    """What a program acts with in a workspace: a service principal of its own.

    The token itself is nowhere: `digest` is keyed (the workspace's index key), so who
    reads or writes this table can neither use one nor forge one.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="+")
    name = models.CharField(max_length=60)
    prefix = models.CharField(
        max_length=12, help_text="How it begins: to recognise it, and to look for it."
    )
    digest = models.BinaryField(
        default=b"", editable=False, help_text="Empty: restored from an archive."
    )
    scopes = models.CharField(
        max_length=100, help_text=f"Separated by spaces: {', '.join(Scope.values)}."
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, editable=False)
    busy_until = models.DateTimeField(
        null=True,
        editable=False,
        help_text="Each request moves it on by its share of a minute (GCRA).",
    )

    objects = models.Manager.from_queryset(ApiTokenQuerySet)()

    class Meta:
        verbose_name = "API token"
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "prefix"], name="api_token_prefix_unique"
            ),
        ]

    def __str__(self) -> str:
        return self.name
