"""What a run has used, as its limits count it."""

from datetime import timedelta

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0007_call_simulated")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="unpriced",
            field=models.PositiveIntegerField(
                default=0, help_text="Model calls whose price is not known."
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="worked",
            field=models.DurationField(
                default=timedelta, help_text="At work; waiting for people is not."
            ),
        ),
        migrations.AlterField(
            model_name="run",
            name="cost",
            field=models.DecimalField(
                decimal_places=6,
                help_text="US dollars, of what has a known price; null: of nothing.",
                max_digits=12,
                null=True,
            ),
        ),
    ]
