"""The roster of workers, since when a run is ready, and indexes for questions about failures."""

from django.conf import settings
from django.db import migrations, models

import checkpoints.clock


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0005_run_interrupted"),
        ("checkpoints", "0014_retention_tasks"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Worker",
            fields=[
                (
                    "name",
                    models.CharField(max_length=100, primary_key=True, serialize=False),
                ),
                ("host", models.CharField(max_length=60)),
                ("pid", models.PositiveIntegerField()),
                ("queue", models.CharField(max_length=60)),
                ("busy_since", models.DateTimeField(editable=False, null=True)),
                (
                    "turns",
                    models.PositiveBigIntegerField(
                        default=0, help_text="Runs that it was asked to take on."
                    ),
                ),
                (
                    "memory",
                    models.PositiveBigIntegerField(
                        default=0, help_text="Bytes, resident."
                    ),
                ),
                (
                    "started_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "beat_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(),
                        editable=False,
                        help_text="Of the reaper in it: after a sweep that came to its end.",
                    ),
                ),
                ("ended_at", models.DateTimeField(editable=False, null=True)),
                (
                    "ending",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("stopped", "Stopped"),
                            ("recycled", "Recycled"),
                            ("lost", "Lost"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "cause",
                    models.CharField(
                        blank=True,
                        help_text="SIGKILL, exit 1, 10000 turns, 1030 MB",
                        max_length=60,
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="run",
            name="ready_at",
            field=models.DateTimeField(
                db_default=checkpoints.clock.ClockTimestamp(),
                editable=False,
                help_text="When it last became ready: how long it has been waiting for a worker.",
                null=True,
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("status", "failed")),
                fields=["workspace", "error_class", "-finished_at"],
                name="run_failed_by_class",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("status", "failed")),
                fields=["workspace", "-finished_at"],
                include=("error_class",),
                name="run_failed_recently",
            ),
        ),
    ]
