"""A run has a queue, whose workers take it, and a priority."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0016_worker_agents"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="queue",
            field=models.CharField(
                default="agents", help_text="Whose workers take it.", max_length=60
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="priority",
            field=models.PositiveSmallIntegerField(
                choices=[(0, "High"), (1, "Normal"), (2, "Low")],
                default=1,
                help_text="What is ready is taken in this order.",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("status", "ready")),
                fields=["queue", "priority", "ready_at"],
                name="run_in_line",
            ),
        ),
        migrations.AddIndex(
            model_name="toolcall",
            index=models.Index(
                condition=models.Q(("recorded_from__isnull", False)),
                fields=["workspace", "-created_at"],
                include=("tool", "effect"),
                name="call_reused",
            ),
        ),
    ]
