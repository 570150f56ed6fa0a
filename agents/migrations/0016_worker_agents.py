"""Workers say which agents they can run."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0015_run_answering")]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="agents",
            field=models.JSONField(
                default=list, help_text="Names of the agents that it can run."
            ),
        ),
    ]
