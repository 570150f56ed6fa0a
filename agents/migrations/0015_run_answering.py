"""Whoever looks on sees how far a reply has come."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0014_run_resume"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="answering",
            field=models.JSONField(
                editable=False,
                help_text="While a model answers: the step, the attempt, characters so far. "
                "Never its words.",
                null=True,
            ),
        ),
    ]
