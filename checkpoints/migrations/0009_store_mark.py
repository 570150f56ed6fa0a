from django.db import migrations, models

import checkpoints.clock


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0008_audit_pending_fill")]

    operations = [
        migrations.CreateModel(
            name="StoreMark",
            fields=[
                (
                    "kind",
                    models.CharField(
                        help_text="local, s3",
                        max_length=20,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("mark", models.UUIDField()),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
            ],
        ),
    ]
