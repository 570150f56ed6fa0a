from __future__ import annotations

from django.db import models

from checkpoints.clock import ClockTimestamp


class SignInFailures(models.Model):
    """How often signing in failed lately, under one name or from one address.

    Neither is kept: the key is a keyed hash, for a name that somebody typed may be a
    password.
    """

    key = models.CharField(primary_key=True, max_length=64)
    failures = models.PositiveIntegerField()
    since = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    class Meta:
        verbose_name_plural = "sign-in failures"
        indexes = [models.Index(fields=["since"], name="sign_in_failures_age")]

    def __str__(self) -> str:
        return f"{self.failures} since {self.since}"
