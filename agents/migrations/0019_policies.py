"""What rules demand of whoever decides; policies, sticky rules, notes and snoozes."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import checkpoints.clock
import checkpoints.ids
import checkpoints.models.fields
from checkpoints.db.policies import tenant


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0018_call_without_lookups"),
        ("checkpoints", "0022_step_resume"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="PolicyUse",
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
                    "window",
                    models.CharField(
                        help_text="Keyed hash of rule, path and agent.", max_length=64
                    ),
                ),
                ("amount", checkpoints.models.fields.SealedField(null=True)),
                (
                    "at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Snooze",
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
                ("until", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="StickyRule",
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
                ("tool", models.CharField(max_length=64)),
                (
                    "scope",
                    models.CharField(
                        choices=[
                            ("once", "the next such call"),
                            ("run", "this run"),
                            ("thread", "this thread"),
                            ("agent", "this agent"),
                        ],
                        max_length=10,
                    ),
                ),
                ("predicate", checkpoints.models.fields.SealedField(null=True)),
                (
                    "made_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                ("expires_at", models.DateTimeField()),
                ("hits", models.PositiveIntegerField(default=0)),
                ("last_hit_at", models.DateTimeField(editable=False, null=True)),
                ("revoked_at", models.DateTimeField(editable=False, null=True)),
            ],
        ),
        migrations.AddField(
            model_name="approval",
            name="alike",
            field=models.BinaryField(
                help_text="Keyed hash of tool and arguments: equal requests.", null=True
            ),
        ),
        migrations.AddField(
            model_name="approval",
            name="approvers",
            field=models.PositiveSmallIntegerField(
                default=1, help_text="How many people have to approve."
            ),
        ),
        migrations.AddField(
            model_name="approval",
            name="assigned_to",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="approval",
            name="claimed_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="claimed_by",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="approval",
            name="final_at",
            field=models.DateTimeField(
                editable=False,
                help_text="Until then the decision can be undone, and nothing runs.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="approval",
            name="guard",
            field=models.CharField(
                blank=True,
                choices=[
                    ("checking", "Checking"),
                    ("same", "unchanged"),
                    ("changed", "Changed"),
                    ("invalid", "no longer valid"),
                    ("failed", "could not be checked"),
                ],
                max_length=10,
            ),
        ),
        migrations.AddField(
            model_name="approval",
            name="guard_asked_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="guard_checked_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="guard_found",
            field=checkpoints.models.fields.SealedField(
                help_text="Where that is something else.", null=True
            ),
        ),
        migrations.AddField(
            model_name="approval",
            name="guard_seen",
            field=checkpoints.models.fields.SealedField(null=True),
        ),
        migrations.AddField(
            model_name="approval",
            name="level",
            field=models.PositiveSmallIntegerField(
                default=0, help_text="Steps of the escalation that were taken."
            ),
        ),
        migrations.AddField(
            model_name="approval",
            name="next_step_at",
            field=models.DateTimeField(
                editable=False, help_text="When the next one is due.", null=True
            ),
        ),
        migrations.AddField(
            model_name="approval",
            name="priority",
            field=models.SmallIntegerField(default=0, help_text="Higher comes first."),
        ),
        migrations.AddField(
            model_name="approval",
            name="terms",
            field=models.JSONField(default=dict),
        ),
        migrations.CreateModel(
            name="ApprovalNote",
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
                ("text", checkpoints.models.fields.SealedField(null=True)),
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
                        related_name="notes",
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
            name="Policy",
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
                ("version", models.PositiveIntegerField()),
                ("rules", models.JSONField()),
                (
                    "note",
                    models.CharField(
                        blank=True, help_text="What was changed.", max_length=200
                    ),
                ),
                (
                    "made_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        help_text="None: every agent.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="policies",
                        to="agents.agent",
                    ),
                ),
                (
                    "made_by",
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
                        related_name="policies",
                        to="checkpoints.workspace",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "policies",
            },
        ),
        migrations.AddField(
            model_name="approval",
            name="policy",
            field=models.ForeignKey(
                help_text="None: the tool's own rule asks.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="agents.policy",
            ),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("due_at__isnull", False), ("status", "pending")),
                fields=["due_at"],
                name="approval_overdue",
            ),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(
                    ("next_step_at__isnull", False), ("status", "pending")
                ),
                fields=["next_step_at"],
                name="approval_escalates",
            ),
        ),
        migrations.AddField(
            model_name="policyuse",
            name="call",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="agents.toolcall",
            ),
        ),
        migrations.AddField(
            model_name="policyuse",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.workspace",
            ),
        ),
        migrations.AddField(
            model_name="snooze",
            name="approval",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="snoozes",
                to="agents.approval",
            ),
        ),
        migrations.AddField(
            model_name="snooze",
            name="by",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="snooze",
            name="thread",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.thread",
            ),
        ),
        migrations.AddField(
            model_name="snooze",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.workspace",
            ),
        ),
        migrations.AddField(
            model_name="stickyrule",
            name="agent",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="agents.agent",
            ),
        ),
        migrations.AddField(
            model_name="stickyrule",
            name="approval",
            field=models.ForeignKey(
                help_text="The request that it was made from.",
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="agents.approval",
            ),
        ),
        migrations.AddField(
            model_name="stickyrule",
            name="made_by",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="stickyrule",
            name="revoked_by",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="stickyrule",
            name="run",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="agents.run",
            ),
        ),
        migrations.AddField(
            model_name="stickyrule",
            name="thread",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.thread",
            ),
        ),
        migrations.AddField(
            model_name="stickyrule",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.workspace",
            ),
        ),
        migrations.AddConstraint(
            model_name="policy",
            constraint=models.UniqueConstraint(
                fields=("workspace", "agent", "version"),
                name="policy_version_unique",
                nulls_distinct=False,
            ),
        ),
        migrations.AddIndex(
            model_name="policyuse",
            index=models.Index(
                fields=["workspace", "window", "at"], name="policy_use_at"
            ),
        ),
        migrations.AddConstraint(
            model_name="policyuse",
            constraint=models.UniqueConstraint(
                fields=("workspace", "window", "call"), name="policy_use_once_per_call"
            ),
        ),
        migrations.AddConstraint(
            model_name="snooze",
            constraint=models.UniqueConstraint(
                fields=("approval", "by"), name="snooze_once_per_person"
            ),
        ),
        migrations.AddIndex(
            model_name="stickyrule",
            index=models.Index(
                condition=models.Q(("revoked_at", None)),
                fields=["workspace", "agent", "tool"],
                name="sticky_in_force",
            ),
        ),
        *(
            operation
            for name in ("approvalnote", "policy", "policyuse", "snooze", "stickyrule")
            for operation in tenant(f"agents_{name}")
        ),
        *(
            migrations.RunSQL(
                f"CREATE TRIGGER written_once BEFORE UPDATE OR DELETE ON agents_{name} "
                "FOR EACH ROW EXECUTE FUNCTION checkpoints_refuse()",
                f"DROP TRIGGER written_once ON agents_{name}",
            )
            for name in ("approvalnote", "policy", "policyuse")
        ),
    ]
