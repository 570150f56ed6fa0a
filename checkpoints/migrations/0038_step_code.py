"""A step may be what an agent's own code wants next."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0035_boards")]

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
                    ("code", "Code"),
                ],
                max_length=10,
            ),
        ),
    ]
