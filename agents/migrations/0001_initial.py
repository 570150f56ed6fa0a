import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import checkpoints.clock
import checkpoints.ids
import checkpoints.models.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("checkpoints", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Agent",
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
                ("name", models.SlugField(max_length=60)),
                ("enabled", models.BooleanField(default=True)),
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
                        related_name="agents",
                        to="checkpoints.workspace",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AgentVersion",
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
                ("number", models.PositiveIntegerField()),
                ("digest", models.BinaryField()),
                ("spec", checkpoints.models.fields.SealedField()),
                ("schema_version", models.PositiveSmallIntegerField(default=1)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="versions",
                        to="agents.agent",
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
        ),
        migrations.CreateModel(
            name="Approval",
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
                    "number",
                    models.PositiveIntegerField(
                        help_text="APR-2041; unique in its workspace."
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("approval", "Approval"),
                            ("question", "Question"),
                            ("unknown", "outcome unknown"),
                        ],
                        default="approval",
                        max_length=10,
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("approved", "Approved"),
                            ("rejected", "Rejected"),
                            ("responded", "Responded"),
                            ("expired", "Expired"),
                            ("superseded", "Superseded"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="pending",
                        max_length=10,
                    ),
                ),
                (
                    "risk",
                    models.CharField(
                        choices=[
                            ("low", "Low"),
                            ("medium", "Medium"),
                            ("high", "High"),
                            ("critical", "Critical"),
                        ],
                        default="medium",
                        max_length=10,
                    ),
                ),
                (
                    "rule",
                    models.CharField(
                        help_text="Name of the rule that asks.", max_length=200
                    ),
                ),
                ("allowed", models.JSONField(help_text="Verdicts that may be given.")),
                ("revision", models.PositiveIntegerField(default=1)),
                ("digest", models.BinaryField(help_text="32 bytes, keyed.")),
                (
                    "asked_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                ("due_at", models.DateTimeField(blank=True, null=True)),
                ("decided_at", models.DateTimeField(editable=False, null=True)),
                (
                    "branch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.branch",
                    ),
                ),
                (
                    "checkpoint",
                    models.ForeignKey(
                        help_text="The model's reply.",
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.checkpoint",
                    ),
                ),
                (
                    "decided_by",
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
                        related_name="approvals",
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
        ),
        migrations.CreateModel(
            name="Decision",
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
                ("revision", models.PositiveIntegerField()),
                (
                    "verdict",
                    models.CharField(
                        choices=[
                            ("approve", "Approve"),
                            ("edit", "Edit"),
                            ("reject", "Reject"),
                            ("respond", "Respond"),
                        ],
                        max_length=10,
                    ),
                ),
                ("role", models.CharField(max_length=10)),
                ("session", models.CharField(blank=True, max_length=64)),
                (
                    "digest",
                    models.BinaryField(
                        help_text="What was shown, as the form carried it."
                    ),
                ),
                (
                    "content",
                    checkpoints.models.fields.SealedField(
                        help_text="Reason, response or edited arguments, as JSON.",
                        null=True,
                    ),
                ),
                ("mac", models.BinaryField()),
                (
                    "at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "approval",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
                        to="agents.approval",
                    ),
                ),
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
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
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
        ),
        migrations.CreateModel(
            name="Run",
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
                            ("ready", "Ready"),
                            ("running", "Running"),
                            ("waiting", "Waiting"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="ready",
                        max_length=10,
                    ),
                ),
                ("cancel_requested", models.BooleanField(default=False)),
                (
                    "attempts",
                    models.PositiveIntegerField(
                        default=0, help_text="Claims since the last committed step."
                    ),
                ),
                ("rings", models.PositiveIntegerField(default=0)),
                ("rung_at", models.DateTimeField(editable=False, null=True)),
                (
                    "wake_at",
                    models.DateTimeField(
                        blank=True,
                        help_text="Not to be claimed before this time.",
                        null=True,
                    ),
                ),
                ("worker", models.CharField(blank=True, max_length=100)),
                ("steps", models.PositiveIntegerField(default=0)),
                ("tokens", models.PositiveBigIntegerField(default=0)),
                (
                    "cost",
                    models.DecimalField(
                        decimal_places=6,
                        help_text="US dollars; null: unknown.",
                        max_digits=12,
                        null=True,
                    ),
                ),
                ("error_class", models.CharField(blank=True, max_length=60)),
                ("error", checkpoints.models.fields.SealedField(null=True)),
                ("failed_step", models.IntegerField(null=True)),
                ("request_key", models.UUIDField(editable=False, null=True)),
                (
                    "external_id",
                    models.CharField(blank=True, max_length=200, null=True),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                ("started_at", models.DateTimeField(editable=False, null=True)),
                ("finished_at", models.DateTimeField(editable=False, null=True)),
                (
                    "agent_version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="agents.agentversion",
                    ),
                ),
                (
                    "branch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="checkpoints.branch",
                    ),
                ),
                (
                    "grant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.grant",
                    ),
                ),
                (
                    "retry_of",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="retries",
                        to="agents.run",
                    ),
                ),
                (
                    "started_by",
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
                        related_name="runs",
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
        ),
        migrations.AddField(
            model_name="approval",
            name="run",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="approvals",
                to="agents.run",
            ),
        ),
        migrations.CreateModel(
            name="ToolCall",
            fields=[
                (
                    "id",
                    models.UUIDField(editable=False, primary_key=True, serialize=False),
                ),
                ("ordinal", models.PositiveSmallIntegerField()),
                (
                    "tool",
                    models.CharField(
                        blank=True,
                        help_text="Empty when no such tool is registered.",
                        max_length=100,
                    ),
                ),
                ("tool_version", models.CharField(blank=True, max_length=64)),
                (
                    "effect",
                    models.CharField(
                        choices=[
                            ("none", "None"),
                            ("read", "Read"),
                            ("write", "Write"),
                            ("external", "External"),
                        ],
                        default="external",
                        max_length=10,
                    ),
                ),
                (
                    "status",
                    models.CharField(
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
                        ],
                        default="proposed",
                        max_length=10,
                    ),
                ),
                ("title", checkpoints.models.fields.SealedField()),
                (
                    "arguments",
                    checkpoints.models.fields.SealedField(
                        help_text="As proposed, without the reason."
                    ),
                ),
                (
                    "arguments_digest",
                    models.BinaryField(
                        help_text="Keyed hash of tool, version and arguments: finds recorded results."
                    ),
                ),
                ("reason", checkpoints.models.fields.SealedField(null=True)),
                (
                    "effective",
                    checkpoints.models.fields.SealedField(
                        help_text="As edited; null: as proposed.", null=True
                    ),
                ),
                ("result", checkpoints.models.fields.SealedField(null=True)),
                ("error_class", models.CharField(blank=True, max_length=60)),
                ("attempts", models.PositiveIntegerField(default=0)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                ("started_at", models.DateTimeField(editable=False, null=True)),
                ("finished_at", models.DateTimeField(editable=False, null=True)),
                (
                    "branch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.branch",
                    ),
                ),
                (
                    "recorded_from",
                    models.ForeignKey(
                        help_text="In a fork: the call whose recorded result was used.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="agents.toolcall",
                    ),
                ),
                (
                    "reply",
                    models.ForeignKey(
                        help_text="The model's reply.",
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="calls",
                        to="checkpoints.checkpoint",
                    ),
                ),
                (
                    "result_checkpoint",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.checkpoint",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="calls",
                        to="agents.run",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
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
        ),
        migrations.AddField(
            model_name="approval",
            name="call",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="approval",
                to="agents.toolcall",
            ),
        ),
        migrations.AddConstraint(
            model_name="agent",
            constraint=models.UniqueConstraint(
                fields=("workspace", "name"), name="agent_name_unique_in_workspace"
            ),
        ),
        migrations.AddConstraint(
            model_name="agentversion",
            constraint=models.UniqueConstraint(
                fields=("agent", "number"), name="agent_version_number_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="agentversion",
            constraint=models.UniqueConstraint(
                fields=("agent", "digest"), name="agent_version_spec_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.UniqueConstraint(
                fields=("approval", "revision", "by"),
                name="decision_once_per_revision_and_person",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("status__in", ["ready", "running", "waiting"])),
                fields=["status", "wake_at"],
                name="run_live",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["workspace", "-created_at"], name="run_recent"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("status", "failed")),
                fields=["workspace", "failed_step", "-finished_at"],
                name="run_failed_at",
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(
                fields=("workspace", "request_key"), name="run_request_key_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(
                fields=("workspace", "external_id"), name="run_external_id_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(
                condition=models.Q(("status__in", ["ready", "running", "waiting"])),
                fields=("branch",),
                name="run_one_live_per_branch",
            ),
        ),
        migrations.AddIndex(
            model_name="toolcall",
            index=models.Index(
                fields=["workspace", "tool", "-created_at"], name="call_by_tool"
            ),
        ),
        migrations.AddConstraint(
            model_name="toolcall",
            constraint=models.UniqueConstraint(
                fields=("thread", "reply", "ordinal", "branch"),
                name="call_ordinal_unique_in_reply",
            ),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("status", "pending")),
                fields=["workspace", "due_at", "asked_at"],
                name="approval_pending",
            ),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                fields=["workspace", "-decided_at"], name="approval_decided"
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.UniqueConstraint(
                fields=("workspace", "number"), name="approval_number_unique"
            ),
        ),
    ]
