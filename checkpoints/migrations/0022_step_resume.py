"""A step may say on what a run goes on that was left off."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0021_workspace_halted")]

    operations = [
        migrations.AlterField(
            model_name="checkpoint",
            name="kind",
            field=models.CharField(
                choices=[
                    ("input", "Input"),
                    ("model", "Model"),
                    ("tool", "Tool"),
                    ("interrupt", "Interrupt"),
                    ("decision", "Decision"),
                    ("edit", "Edit"),
                    ("summary", "Summary"),
                    ("snapshot", "Snapshot"),
                    ("migrate", "Migrate"),
                    ("progress", "Progress"),
                    ("resume", "Resume"),
                    ("error", "Error"),
                ],
                max_length=10,
            ),
        ),
    ]
