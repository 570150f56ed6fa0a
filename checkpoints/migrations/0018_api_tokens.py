"""What programs act with: a token of a workspace, of which a keyed digest is kept."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import checkpoints.clock
import checkpoints.ids
from checkpoints.db.policies import tenant


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("checkpoints", "0017_functions_look_nowhere_else"),
    ]

    operations = [
        migrations.CreateModel(
            name="ApiToken",
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
                ("name", models.CharField(max_length=60)),
                (
                    "prefix",
                    models.CharField(
                        help_text="How it begins: to recognise it, and to look for it.",
                        max_length=12,
                    ),
                ),
                (
                    "digest",
                    models.BinaryField(
                        default=b"", help_text="Empty: restored from an archive."
                    ),
                ),
                (
                    "scopes",
                    models.CharField(
                        help_text="Separated by spaces: read, start, message, fork, cancel.",
                        max_length=100,
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(editable=False, null=True)),
                (
                    "busy_until",
                    models.DateTimeField(
                        editable=False,
                        help_text="Each request moves it on by its share of a minute (GCRA).",
                        null=True,
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
                "verbose_name": "API token",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("workspace", "prefix"), name="api_token_prefix_unique"
                    ),
                ],
            },
        ),
        *tenant("checkpoints_apitoken"),
    ]
