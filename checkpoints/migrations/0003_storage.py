import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import checkpoints.clock
import checkpoints.ids
import checkpoints.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ("checkpoints", "0002_log_guards"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="datakey",
            name="destroyed_by",
            field=models.ForeignKey(
                editable=False,
                help_text="Null where a policy or a command did.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="thread",
            name="legal_hold",
            field=models.BooleanField(
                default=False,
                help_text="Nothing and nobody removes it, an admin lifts it.",
            ),
        ),
        migrations.AddField(
            model_name="thread",
            name="pinned",
            field=models.BooleanField(
                default=False, help_text="Retention leaves it alone."
            ),
        ),
        migrations.AddField(
            model_name="thread",
            name="pruned_at",
            field=models.DateTimeField(
                editable=False,
                help_text="When its content went, by the deletion journal; null: it is here.",
                null=True,
            ),
        ),
        migrations.CreateModel(
            name="RetentionPolicy",
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
                    "agent",
                    models.CharField(
                        blank=True, help_text="Empty: every agent.", max_length=60
                    ),
                ),
                (
                    "keep_days",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Days after the last step; empty: for ever.",
                        null=True,
                    ),
                ),
                (
                    "then",
                    models.CharField(
                        choices=[
                            ("archive", "archive it"),
                            ("delete", "destroy its keys"),
                        ],
                        default="archive",
                        max_length=10,
                    ),
                ),
                (
                    "archive_days",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Days that an archive is kept; empty: for ever.",
                        null=True,
                    ),
                ),
                (
                    "max_steps",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Steps of one thread before its runs pause.",
                        null=True,
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="retention_policies",
                        to="checkpoints.workspace",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "retention policies",
            },
        ),
        migrations.CreateModel(
            name="Deletion",
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
                            ("archived", "moved to an archive"),
                            ("shredded", "keys destroyed"),
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
                ("steps", models.PositiveIntegerField(default=0)),
                (
                    "at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="deletions",
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
                (
                    "policy",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.retentionpolicy",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Archive",
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
                    "status",
                    models.CharField(
                        choices=[
                            ("writing", "Writing"),
                            ("verified", "Verified"),
                            ("pruned", "verified, hot rows gone"),
                            ("restored", "Restored"),
                            ("deleted", "the object is gone"),
                        ],
                        default="writing",
                        max_length=10,
                    ),
                ),
                ("store", models.CharField(help_text="local, s3", max_length=20)),
                ("object_name", models.CharField(max_length=100, unique=True)),
                ("size", models.PositiveBigIntegerField(default=0, help_text="Bytes.")),
                (
                    "digest",
                    models.BinaryField(default=b"", help_text="SHA-256 of the object."),
                ),
                ("steps", models.PositiveIntegerField(default=0)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                ("verified_at", models.DateTimeField(editable=False, null=True)),
                ("pruned_at", models.DateTimeField(editable=False, null=True)),
                ("restored_at", models.DateTimeField(editable=False, null=True)),
                (
                    "requested_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="archives",
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
                (
                    "policy",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.retentionpolicy",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Segment",
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
                ("first_step", models.PositiveIntegerField()),
                ("last_step", models.PositiveIntegerField()),
                (
                    "data_key",
                    models.UUIDField(help_text="The data key it is sealed with."),
                ),
                ("record", checkpoints.models.fields.SealedField()),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "branch",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="segments",
                        to="checkpoints.branch",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.thread",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.workspace",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AuditLink",
            fields=[
                (
                    "event",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="link",
                        serialize=False,
                        to="checkpoints.auditevent",
                    ),
                ),
                ("number", models.PositiveBigIntegerField()),
                (
                    "previous",
                    models.BinaryField(
                        help_text="32 bytes: the hash of the link before."
                    ),
                ),
                (
                    "hash",
                    models.BinaryField(
                        help_text="32 bytes: SHA-256 over `previous` and event."
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.workspace",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("workspace", "number"),
                        name="audit_link_number_unique",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Blob",
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
                ("store", models.CharField(help_text="local, s3", max_length=20)),
                (
                    "object_name",
                    models.CharField(help_text="Random.", max_length=100, unique=True),
                ),
                ("size", models.PositiveBigIntegerField(help_text="Bytes, opened.")),
                (
                    "stored_size",
                    models.PositiveBigIntegerField(help_text="Bytes, sealed."),
                ),
                ("media_type", models.CharField(max_length=100)),
                (
                    "digest",
                    models.BinaryField(
                        help_text="Keyed hash of the content: the same value is stored once in a thread."
                    ),
                ),
                (
                    "data_key",
                    models.UUIDField(help_text="The data key it is sealed with."),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="blobs",
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("thread", "digest"), name="blob_once_per_thread"
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="retentionpolicy",
            constraint=models.UniqueConstraint(
                fields=("workspace", "agent"), name="retention_policy_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="archive",
            constraint=models.UniqueConstraint(
                condition=models.Q(("status__in", ["writing", "verified"])),
                fields=("thread",),
                name="archive_one_in_work_per_thread",
            ),
        ),
        migrations.AddConstraint(
            model_name="segment",
            constraint=models.UniqueConstraint(
                fields=("thread", "branch", "first_step"),
                name="segment_start_unique_in_branch",
            ),
        ),
        migrations.AddConstraint(
            model_name="segment",
            constraint=models.CheckConstraint(
                condition=models.Q(("last_step__gte", models.F("first_step"))),
                name="segment_has_steps",
            ),
        ),
    ]
