"""What people say about a thread, a branch or a step, beside the work itself.

A remark is written once. It can be taken back once, which destroys its text. Besides, its
text goes with the content of its thread and comes back with it (`log/content.py`).
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import checkpoints.clock
import checkpoints.ids
import checkpoints.models.fields
from checkpoints.db.policies import tenant

STANDS = """
CREATE FUNCTION checkpoints_remark_stands() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'remarks are taken back, not deleted; DELETE is refused'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.removed_at IS NOT NULL THEN
        -- A restore brings back what an archive holds: not what was taken back since.
        NEW.text := NULL;
        NEW.blind_index := NULL;
    END IF;
    IF (NEW.id, NEW.workspace_id, NEW.thread_id, NEW.branch_id, NEW.checkpoint_id,
        NEW.kind, NEW.by_id, NEW.request_key, NEW.created_at)
       IS DISTINCT FROM
       (OLD.id, OLD.workspace_id, OLD.thread_id, OLD.branch_id, OLD.checkpoint_id,
        OLD.kind, OLD.by_id, OLD.request_key, OLD.created_at)
       OR OLD.removed_at IS NOT NULL AND (NEW.removed_at, NEW.removed_by_id)
          IS DISTINCT FROM (OLD.removed_at, OLD.removed_by_id)
       OR NEW.removed_at IS NULL
          AND (NEW.text, NEW.blind_index) IS DISTINCT FROM (OLD.text, OLD.blind_index)
          AND NOT EXISTS (
              SELECT FROM checkpoints_thread
              WHERE id = OLD.thread_id AND pruned_at IS NOT NULL
          )
    THEN
        RAISE EXCEPTION 'remark % is written once; this UPDATE is refused', OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$
"""
# As in 0017: it finds our tables, whatever temporary ones a role has made.
OUR_TABLES = """
DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION checkpoints_remark_stands()'
                   ' SET search_path = %I, pg_temp', current_schema());
END $$
"""


class Migration(migrations.Migration):
    dependencies = [
        ("checkpoints", "0027_branch_call_choices"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Remark",
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
                        choices=[
                            ("note", "Note"),
                            ("label", "Label"),
                            ("star", "Star"),
                            ("good", "Good"),
                            ("bad", "Bad"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "text",
                    checkpoints.models.fields.SealedField(
                        help_text="A note, a label's words, the reason of a verdict.",
                        null=True,
                    ),
                ),
                (
                    "blind_index",
                    checkpoints.models.fields.BlindIndexField(
                        help_text="Of a label's words.", null=True
                    ),
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
                ("removed_at", models.DateTimeField(editable=False, null=True)),
                (
                    "branch",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.branch",
                    ),
                ),
                (
                    "by",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "checkpoint",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.checkpoint",
                    ),
                ),
                (
                    "removed_by",
                    models.ForeignKey(
                        db_index=False,
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
                        related_name="remarks",
                        to="checkpoints.thread",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.workspace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("blind_index__isnull", False)),
                        fields=["workspace", "blind_index", "thread"],
                        name="remark_by_label",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("kind", "star"), ("removed_at__isnull", True)
                        ),
                        fields=["by", "workspace", "thread"],
                        name="remark_stars",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("workspace", "request_key"),
                        name="remark_request_key_unique",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("kind", "star"), ("removed_at__isnull", True)
                        ),
                        fields=("thread", "branch", "checkpoint", "by"),
                        name="remark_star_once",
                        nulls_distinct=False,
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("blind_index__isnull", False),
                            ("kind", "label"),
                            ("removed_at__isnull", True),
                        ),
                        fields=("thread", "branch", "checkpoint", "blind_index"),
                        name="remark_label_once",
                        nulls_distinct=False,
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("checkpoint__isnull", True),
                            ("branch__isnull", False),
                            _connector="OR",
                        ),
                        name="remark_step_has_branch",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("removed_at__isnull", True),
                                ("removed_by__isnull", True),
                            ),
                            models.Q(
                                ("blind_index__isnull", True),
                                ("removed_at__isnull", False),
                                ("removed_by__isnull", False),
                                ("text__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="remark_removed_has_no_text",
                    ),
                ],
            },
        ),
        *tenant("checkpoints_remark"),
        migrations.RunSQL(STANDS, "DROP FUNCTION checkpoints_remark_stands()"),
        migrations.RunSQL(OUR_TABLES, migrations.RunSQL.noop),
        migrations.RunSQL(
            "CREATE TRIGGER stands BEFORE UPDATE OR DELETE ON checkpoints_remark"
            " FOR EACH ROW EXECUTE FUNCTION checkpoints_remark_stands()",
            "DROP TRIGGER stands ON checkpoints_remark",
        ),
    ]
