"""Channels, and the outbox of what they are to tell; requests that expired are counted."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import checkpoints.clock
import checkpoints.ids
import checkpoints.models.fields
from checkpoints.db.policies import tenant


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0025_decisions"),
        ("checkpoints", "0022_step_resume"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Channel",
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
                    "kind",
                    models.CharField(
                        choices=[("email", "e-mail"), ("webhook", "Webhook")],
                        max_length=10,
                    ),
                ),
                ("name", models.CharField(max_length=60)),
                (
                    "address",
                    checkpoints.models.fields.SealedField(
                        help_text="None: those who may decide, by e-mail.", null=True
                    ),
                ),
                (
                    "secret",
                    checkpoints.models.fields.SealedField(
                        help_text="What a webhook is signed with.", null=True
                    ),
                ),
                (
                    "events",
                    models.JSONField(default=list, help_text="Of which it tells."),
                ),
                (
                    "groups",
                    models.JSONField(
                        default=list,
                        help_text="Only of requests to one of these; none: of all.",
                    ),
                ),
                (
                    "include_title",
                    models.BooleanField(
                        default=False,
                        help_text="Titles are state: they leave with the message.",
                    ),
                ),
                ("active", models.BooleanField(default=True)),
                (
                    "made_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Delivery",
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
                    "event",
                    models.CharField(
                        choices=[
                            ("asked", "Asked"),
                            ("decided", "Decided"),
                            ("executed", "Executed"),
                            ("expired", "Expired"),
                            ("escalated", "Escalated"),
                            ("test", "Test"),
                        ],
                        max_length=10,
                    ),
                ),
                ("revision", models.PositiveIntegerField(default=0)),
                (
                    "level",
                    models.PositiveSmallIntegerField(
                        default=0, help_text="Of an escalation: which step."
                    ),
                ),
                (
                    "outcome",
                    models.CharField(
                        blank=True, help_text="The status that it tells.", max_length=10
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("sent", "Sent"),
                            ("undelivered", "Undelivered"),
                            ("skipped", "Skipped"),
                        ],
                        default="queued",
                        max_length=12,
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                (
                    "next_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                ("error_class", models.CharField(blank=True, max_length=60)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                ("sent_at", models.DateTimeField(editable=False, null=True)),
            ],
            options={
                "verbose_name_plural": "deliveries",
            },
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("status", "expired")),
                fields=["workspace", "due_at"],
                name="approval_expired",
            ),
        ),
        migrations.AddField(
            model_name="channel",
            name="made_by",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="channel",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.workspace",
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="approval",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="deliveries",
                to="agents.approval",
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="channel",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="deliveries",
                to="agents.channel",
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="recipient",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.workspace",
            ),
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.UniqueConstraint(
                fields=("workspace", "name"), name="channel_name_unique"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("status", "queued")),
                fields=["next_at"],
                name="delivery_due",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("status", "undelivered")),
                fields=["workspace", "approval"],
                name="delivery_undelivered",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                fields=["workspace", "-created_at"], name="delivery_newest"
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(
                condition=models.Q(("approval__isnull", False)),
                fields=(
                    "approval",
                    "revision",
                    "event",
                    "level",
                    "channel",
                    "recipient",
                ),
                name="delivery_told_once",
                nulls_distinct=False,
            ),
        ),
        *tenant("agents_channel"),
        *tenant("agents_delivery"),
    ]
