from django.db import migrations, models


class Migration(migrations.Migration):
    """A call that a fork only pretends to make."""

    dependencies = [("agents", "0006_operations")]

    operations = [
        migrations.AlterField(
            model_name="toolcall",
            name="status",
            field=models.CharField(
                choices=[
                    ("proposed", "Proposed"),
                    ("waiting", "Waiting"),
                    ("approved", "Approved"),
                    ("executing", "Executing"),
                    ("succeeded", "Succeeded"),
                    ("failed", "Failed"),
                    ("rejected", "Rejected"),
                    ("responded", "Responded"),
                    ("unknown", "Unknown"),
                    ("superseded", "Superseded"),
                    ("simulated", "Simulated"),
                ],
                default="proposed",
                max_length=10,
            ),
        ),
    ]
