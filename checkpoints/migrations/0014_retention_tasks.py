"""What people ask of retention, and workers do."""

from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import checkpoints.clock
import checkpoints.ids
import checkpoints.models.fields
from checkpoints.db.policies import tenant


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("checkpoints", "0014_steps_look_nothing_up"),
    ]

    operations = [
        migrations.CreateModel(
            name="RetentionTask",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=checkpoints.ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "what",
                    models.CharField(
                        choices=[
                            ("archive", "archive it now"),
                            ("restore", "restore it"),
                            ("shred", "delete it for good"),
                            ("sweep", "run retention now"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "reason",
                    checkpoints.models.fields.SealedField(
                        help_text="A person's words.", null=True
                    ),
                ),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("done", "Done"),
                            ("refused", "Refused"),
                        ],
                        default="open",
                        max_length=10,
                    ),
                ),
                (
                    "answer",
                    models.CharField(
                        blank=True,
                        help_text="What was done, or why not; ids only.",
                        max_length=400,
                    ),
                ),
                (
                    "asked_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                ("done_at", models.DateTimeField(editable=False, null=True)),
                (
                    "by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="retention_tasks",
                        to="checkpoints.thread",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.workspace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("outcome", "open")),
                        fields=["asked_at"],
                        name="retention_task_open",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("outcome", "open")),
                        fields=("workspace", "thread"),
                        name="retention_task_open_once",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        *tenant("checkpoints_retentiontask"),
    ]
