from __future__ import annotations

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from checkpoints.clock import ClockTimestamp
from checkpoints.ids import uuid7


class Price(models.Model):
    """What a model costs from a day on: US dollars for a million tokens.

    Comes before the prices that Holdpoint ships with (`agents/pure/prices.py`). Without
    rates it says that the price is not known.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    model = models.CharField(
        max_length=100,
        help_text="As its server names it; gpt-4o stands for gpt-4o-2024-08-06, too.",
    )
    since = models.DateField(help_text="The first day, in UTC.")
    fresh = models.DecimalField(
        "input",
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
    )
    cached = models.DecimalField(
        "input, cached",
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
    )
    output = models.DecimalField(
        "output",
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
    )
    created_at = models.DateTimeField(db_default=ClockTimestamp(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["model", "since"],
                name="price_once_a_day",
                violation_error_message="This model has a price from that day on.",
            ),
            models.CheckConstraint(
                condition=Q(fresh=None, cached=None, output=None)
                | Q(
                    fresh__isnull=False,
                    cached__isnull=False,
                    output__isnull=False,
                    fresh__gte=0,
                    cached__gte=0,
                    output__gte=0,
                ),
                name="price_whole_or_unknown",
                violation_error_message="Give all three rates, or none: not known.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model} from {self.since}"
