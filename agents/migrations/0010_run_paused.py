"""People may pause a run."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0009_price"),
        ("checkpoints", "0021_workspace_halted"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="paused_at",
            field=models.DateTimeField(
                editable=False,
                help_text="By a person: not to be claimed until it is resumed.",
                null=True,
            ),
        ),
    ]
