"""What models cost, as admins say it. Of no workspace: a price is the server's."""

import django.core.validators
from django.db import migrations, models

import checkpoints.clock
import checkpoints.ids

RATE = {
    "blank": True,
    "decimal_places": 6,
    "max_digits": 12,
    "null": True,
    "validators": [django.core.validators.MinValueValidator(0)],
}


class Migration(migrations.Migration):
    dependencies = [("agents", "0008_run_used")]

    operations = [
        migrations.CreateModel(
            name="Price",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=checkpoints.ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "model",
                    models.CharField(
                        help_text="As its server names it; gpt-4o stands for "
                        "gpt-4o-2024-08-06, too.",
                        max_length=100,
                    ),
                ),
                ("since", models.DateField(help_text="The first day, in UTC.")),
                ("fresh", models.DecimalField(verbose_name="input", **RATE)),
                ("cached", models.DecimalField(verbose_name="input, cached", **RATE)),
                ("output", models.DecimalField(verbose_name="output", **RATE)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("model", "since"),
                        name="price_once_a_day",
                        violation_error_message="This model has a price from that day on.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(fresh=None, cached=None, output=None)
                        | models.Q(
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
                ],
            },
        ),
    ]
