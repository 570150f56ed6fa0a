import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import checkpoints.clock
import checkpoints.ids
import checkpoints.models.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        # Before the tables, whose columns take their defaults from them.
        migrations.RunSQL(
            "CREATE SEQUENCE checkpoints_input_position",
            "DROP SEQUENCE checkpoints_input_position",
        ),
        migrations.RunSQL(
            "CREATE SEQUENCE checkpoints_audit_position",
            "DROP SEQUENCE checkpoints_audit_position",
        ),
        migrations.CreateModel(
            name="Workspace",
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
                ("slug", models.SlugField(unique=True)),
                ("name", models.CharField(max_length=100)),
                (
                    "approvals_made",
                    models.PositiveIntegerField(
                        default=2000,
                        help_text="Last number given to an approval: APR-2041.",
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Branch",
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
                ("name", checkpoints.models.fields.SealedField()),
                (
                    "namespace",
                    models.CharField(
                        blank=True, help_text="Empty for the main line.", max_length=200
                    ),
                ),
                (
                    "fork_step",
                    models.IntegerField(
                        default=-1,
                        help_text="Step of the checkpoint it leaves its parent at; -1: none.",
                    ),
                ),
                (
                    "head_step",
                    models.IntegerField(default=-1, help_text="-1: no step yet."),
                ),
                ("head_mac", models.BinaryField(default=b"")),
                ("fence", models.BigIntegerField(default=0)),
                (
                    "holder",
                    models.UUIDField(
                        editable=False, help_text="The run that appends.", null=True
                    ),
                ),
                (
                    "worker",
                    models.CharField(blank=True, editable=False, max_length=100),
                ),
                ("lease_until", models.DateTimeField(editable=False, null=True)),
                ("request_key", models.UUIDField(editable=False, null=True)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "updated_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(),
                        editable=False,
                        help_text="Time of its last step.",
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
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="children",
                        to="checkpoints.branch",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "branches",
            },
        ),
        migrations.CreateModel(
            name="Checkpoint",
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
                    "step",
                    models.PositiveIntegerField(
                        help_text="Steps from the start of the thread, through any forks."
                    ),
                ),
                (
                    "kind",
                    models.CharField(
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
                            ("error", "Error"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("ok", "Ok"),
                            ("failed", "Failed"),
                            ("waiting", "Waiting"),
                        ],
                        default="ok",
                        max_length=10,
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        blank=True,
                        help_text="The node, or a tool that is registered.",
                        max_length=100,
                    ),
                ),
                (
                    "run",
                    models.UUIDField(
                        help_text="The run that took the step.", null=True
                    ),
                ),
                ("agent_version", models.UUIDField(null=True)),
                ("schema_version", models.PositiveSmallIntegerField(default=1)),
                ("model_requested", models.CharField(blank=True, max_length=100)),
                ("model_returned", models.CharField(blank=True, max_length=100)),
                ("temperature", models.FloatField(null=True)),
                ("top_p", models.FloatField(null=True)),
                ("seed", models.BigIntegerField(null=True)),
                ("fingerprint", models.CharField(blank=True, max_length=100)),
                ("tokens_in", models.PositiveIntegerField(null=True)),
                ("tokens_out", models.PositiveIntegerField(null=True)),
                ("tokens_cached", models.PositiveIntegerField(null=True)),
                (
                    "cost",
                    models.DecimalField(
                        decimal_places=6,
                        help_text="US dollars; null: unknown.",
                        max_digits=12,
                        null=True,
                    ),
                ),
                ("latency_ms", models.PositiveIntegerField(null=True)),
                ("error_class", models.CharField(blank=True, max_length=60)),
                (
                    "data_key",
                    models.UUIDField(
                        help_text="The data key its delta is sealed with."
                    ),
                ),
                (
                    "state_mac",
                    models.BinaryField(
                        help_text="32 bytes; chains this step to its parent."
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "actor",
                    models.ForeignKey(
                        db_index=False,
                        help_text="The person, where a person took it.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "branch",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="checkpoints",
                        to="checkpoints.branch",
                    ),
                ),
                (
                    "parent",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="children",
                        to="checkpoints.checkpoint",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="branch",
            name="forked_from",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="forks",
                to="checkpoints.checkpoint",
            ),
        ),
        migrations.AddField(
            model_name="branch",
            name="head",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.checkpoint",
            ),
        ),
        migrations.CreateModel(
            name="Membership",
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
                    "role",
                    models.CharField(
                        choices=[
                            ("viewer", "Viewer"),
                            ("operator", "Operator"),
                            ("admin", "Admin"),
                            ("auditor", "Auditor"),
                        ],
                        default="viewer",
                        max_length=10,
                    ),
                ),
                ("can_approve", models.BooleanField(default=False)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="memberships",
                        to="checkpoints.workspace",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Group",
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
                    "members",
                    models.ManyToManyField(
                        blank=True, related_name="groups", to="checkpoints.membership"
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="groups",
                        to="checkpoints.workspace",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Thread",
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
                    "visibility",
                    models.CharField(
                        choices=[
                            ("private", "Private"),
                            ("group", "Group"),
                            ("workspace", "Workspace"),
                        ],
                        default="workspace",
                        max_length=10,
                    ),
                ),
                (
                    "origin",
                    models.CharField(
                        choices=[("run", "Run"), ("import", "Import")],
                        default="run",
                        max_length=10,
                    ),
                ),
                ("title", checkpoints.models.fields.SealedField()),
                (
                    "external_id",
                    models.CharField(blank=True, max_length=200, null=True),
                ),
                (
                    "request_key",
                    models.UUIDField(
                        editable=False,
                        help_text="The form that asked; makes a double click one.",
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
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.group",
                    ),
                ),
                (
                    "owner",
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
                        related_name="threads",
                        to="checkpoints.workspace",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="checkpoint",
            name="thread",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="checkpoints",
                to="checkpoints.thread",
            ),
        ),
        migrations.AddField(
            model_name="branch",
            name="thread",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="branches",
                to="checkpoints.thread",
            ),
        ),
        migrations.CreateModel(
            name="Grant",
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
                    "session",
                    models.CharField(
                        blank=True, help_text="Keyed hash.", max_length=64
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "user",
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
                        related_name="grants",
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
            model_name="checkpoint",
            name="workspace",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.workspace",
            ),
        ),
        migrations.AddField(
            model_name="branch",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.workspace",
            ),
        ),
        migrations.CreateModel(
            name="AuditEvent",
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
                    "position",
                    models.BigIntegerField(
                        db_default=checkpoints.models.fields.NextPosition(
                            "checkpoints_audit_position"
                        ),
                        editable=False,
                    ),
                ),
                (
                    "at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "via",
                    models.CharField(
                        help_text="web, worker, command, admin", max_length=20
                    ),
                ),
                ("session", models.CharField(blank=True, max_length=64)),
                ("address", models.GenericIPAddressField(blank=True, null=True)),
                ("action", models.CharField(max_length=40)),
                ("object_type", models.CharField(blank=True, max_length=40)),
                ("object_id", models.UUIDField(null=True)),
                ("purpose", models.CharField(blank=True, max_length=60)),
                ("outcome", models.CharField(default="ok", max_length=20)),
                ("detail", models.JSONField(blank=True, default=dict)),
                (
                    "actor",
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
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="audit_events",
                        to="checkpoints.workspace",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="WorkspaceKey",
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
                ("version", models.PositiveIntegerField(default=1)),
                (
                    "kek",
                    models.CharField(
                        help_text="kek:<provider>:<name>:<version> of what wraps it.",
                        max_length=200,
                    ),
                ),
                ("wrapped", models.BinaryField()),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                ("rewrapped_at", models.DateTimeField(editable=False, null=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="keys",
                        to="checkpoints.workspace",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DataKey",
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
                    "purpose",
                    models.CharField(
                        choices=[
                            ("data", "data key of a thread"),
                            ("mac", "MAC key of a thread"),
                            ("detail", "agent specs, audit details"),
                            ("index", "digests and blind index of a workspace"),
                            ("decision", "decision MACs; outlives threads"),
                        ],
                        max_length=10,
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1)),
                (
                    "wrapped",
                    models.BinaryField(help_text="Null once destroyed.", null=True),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                ("destroyed_at", models.DateTimeField(editable=False, null=True)),
                (
                    "thread",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="data_keys",
                        to="checkpoints.thread",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="data_keys",
                        to="checkpoints.workspace",
                    ),
                ),
                (
                    "workspace_key",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="data_keys",
                        to="checkpoints.workspacekey",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="CheckpointDelta",
            fields=[
                (
                    "checkpoint",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="delta",
                        serialize=False,
                        to="checkpoints.checkpoint",
                    ),
                ),
                ("step", models.PositiveIntegerField()),
                ("record", checkpoints.models.fields.SealedField()),
                (
                    "branch",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
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
            name="ThreadInput",
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
                    "position",
                    models.BigIntegerField(
                        db_default=checkpoints.models.fields.NextPosition(
                            "checkpoints_input_position"
                        ),
                        editable=False,
                    ),
                ),
                ("content", checkpoints.models.fields.SealedField()),
                ("request_key", models.UUIDField(editable=False, null=True)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "author",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "branch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="inputs",
                        to="checkpoints.branch",
                    ),
                ),
                (
                    "checkpoint",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.checkpoint",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="inputs",
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
                        condition=models.Q(("checkpoint__isnull", True)),
                        fields=["branch", "position"],
                        name="input_undelivered",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("workspace", "request_key"),
                        name="input_request_key_unique",
                    )
                ],
            },
        ),
        migrations.AddIndex(
            model_name="thread",
            index=models.Index(
                fields=["workspace", "-created_at"], name="thread_recent"
            ),
        ),
        migrations.AddConstraint(
            model_name="thread",
            constraint=models.UniqueConstraint(
                fields=("workspace", "external_id"), name="thread_external_id_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="thread",
            constraint=models.UniqueConstraint(
                fields=("workspace", "request_key"), name="thread_request_key_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.UniqueConstraint(
                fields=("workspace", "user"), name="membership_once_per_workspace"
            ),
        ),
        migrations.AddConstraint(
            model_name="group",
            constraint=models.UniqueConstraint(
                fields=("workspace", "name"), name="group_name_unique_in_workspace"
            ),
        ),
        migrations.AddIndex(
            model_name="checkpoint",
            index=models.Index(
                condition=models.Q(("error_class", ""), _negated=True),
                fields=["workspace", "error_class", "-created_at"],
                name="checkpoint_failures",
            ),
        ),
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.UniqueConstraint(
                fields=("thread", "branch", "step"),
                name="checkpoint_step_unique_in_branch",
            ),
        ),
        migrations.AddIndex(
            model_name="branch",
            index=models.Index(
                condition=models.Q(("holder__isnull", False)),
                fields=["holder"],
                name="branch_held",
            ),
        ),
        migrations.AddConstraint(
            model_name="branch",
            constraint=models.UniqueConstraint(
                fields=("workspace", "request_key"), name="branch_request_key_unique"
            ),
        ),
        migrations.AddIndex(
            model_name="auditevent",
            index=models.Index(fields=["workspace", "-position"], name="audit_recent"),
        ),
        migrations.AddIndex(
            model_name="auditevent",
            index=models.Index(
                fields=["object_type", "object_id"], name="audit_object"
            ),
        ),
        migrations.AddConstraint(
            model_name="workspacekey",
            constraint=models.UniqueConstraint(
                fields=("workspace", "version"), name="workspace_key_version_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="datakey",
            constraint=models.UniqueConstraint(
                fields=("workspace", "thread", "purpose", "version"),
                name="data_key_version_unique",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="datakey",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("wrapped__isnull", False),
                    ("destroyed_at__isnull", False),
                    _connector="OR",
                ),
                name="data_key_is_there_or_destroyed",
            ),
        ),
        migrations.AddConstraint(
            model_name="checkpointdelta",
            constraint=models.UniqueConstraint(
                fields=("thread", "branch", "step"), name="delta_step_unique_in_branch"
            ),
        ),
    ]
