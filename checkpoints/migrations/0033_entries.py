"""The store: entries that agents and people put under names, with every version of each.

A version is written once. An entry keeps whose it is and what it is called, and counts by
one. Both go when the entry has expired, or was deleted, long enough ago.
"""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import checkpoints.clock
import checkpoints.ids
import checkpoints.models.fields
from checkpoints.db.policies import tenant

STANDS = """
CREATE FUNCTION checkpoints_entry_stands() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.workspace_id, NEW.scope, NEW.user_id, NEW.owner, NEW.namespace,
        NEW.blind_index)
       IS DISTINCT FROM
       (OLD.id, OLD.workspace_id, OLD.scope, OLD.user_id, OLD.owner, OLD.namespace,
        OLD.blind_index)
       OR NEW.version <> OLD.version + 1
    THEN
        RAISE EXCEPTION 'entry % keeps its name and counts by one; this UPDATE is refused',
            OLD.id USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$
"""
ONCE = """
CREATE FUNCTION checkpoints_entryversion_stands() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'version % of an entry is written once; this UPDATE is refused', OLD.id
        USING ERRCODE = 'integrity_constraint_violation';
END
$$
"""
# As in 0017: they look into our tables, whatever temporary ones a role has made.
OUR_TABLES = """
DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION {0}() SET search_path = %I, pg_temp', current_schema());
END $$
"""


def stands(table: str, function: str) -> list[migrations.RunSQL]:
    """The table's trigger, and its function."""
    return [
        migrations.RunSQL(function, f"DROP FUNCTION {table}_stands()"),
        migrations.RunSQL(OUR_TABLES.format(f"{table}_stands"), migrations.RunSQL.noop),
        migrations.RunSQL(
            f"CREATE TRIGGER stands BEFORE UPDATE ON {table}"
            f" FOR EACH ROW EXECUTE FUNCTION {table}_stands()",
            f"DROP TRIGGER stands ON {table}",
        ),
    ]


class Migration(migrations.Migration):
    dependencies = [
        ("checkpoints", "0028_search_fields"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Entry",
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
                    "scope",
                    models.CharField(
                        choices=[
                            ("user", "User"),
                            ("group", "Group"),
                            ("workspace", "Workspace"),
                            ("board", "Board"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "owner",
                    models.UUIDField(
                        editable=False,
                        help_text="The group or the board whose it is.",
                        null=True,
                    ),
                ),
                (
                    "namespace",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BinaryField(),
                        default=list,
                        editable=False,
                        help_text="A keyed hash of each beginning of the namespace.",
                        size=None,
                    ),
                ),
                (
                    "blind_index",
                    checkpoints.models.fields.BlindIndexField(
                        help_text="Of whose it is, its namespace and key."
                    ),
                ),
                (
                    "version",
                    models.PositiveIntegerField(default=0, help_text="The newest."),
                ),
                (
                    "deleted",
                    models.BooleanField(
                        default=False, help_text="The newest version says so."
                    ),
                ),
                ("expires_at", models.DateTimeField(null=True)),
                (
                    "updated_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        help_text="Whose it is, where it is a person's.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
                "verbose_name_plural": "entries",
            },
        ),
        migrations.CreateModel(
            name="EntryVersion",
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
                ("version", models.PositiveIntegerField(help_text="Counted from 1.")),
                (
                    "content",
                    checkpoints.models.fields.SealedField(
                        help_text="Namespace, key, value and version."
                    ),
                ),
                (
                    "deleted",
                    models.BooleanField(
                        default=False, help_text="From here on it is gone."
                    ),
                ),
                ("expires_at", models.DateTimeField(null=True)),
                (
                    "run",
                    models.UUIDField(
                        editable=False, help_text="Null: a person did.", null=True
                    ),
                ),
                (
                    "request_key",
                    models.UUIDField(
                        editable=False,
                        help_text="The form, or the run's call, that asked: it writes once.",
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
                    "by",
                    models.ForeignKey(
                        db_index=False,
                        help_text="Null where a run wrote it.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "entry",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="versions",
                        to="checkpoints.entry",
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
        ),
        migrations.AddIndex(
            model_name="entry",
            index=models.Index(
                fields=["workspace", "scope", "user", "owner", "-updated_at"],
                name="entry_of_owner",
            ),
        ),
        migrations.AddIndex(
            model_name="entry",
            index=models.Index(
                condition=models.Q(("expires_at__isnull", False)),
                fields=["expires_at"],
                name="entry_expires",
            ),
        ),
        migrations.AddIndex(
            model_name="entry",
            index=models.Index(
                condition=models.Q(("deleted", True)),
                fields=["updated_at"],
                name="entry_deleted",
            ),
        ),
        migrations.AddConstraint(
            model_name="entry",
            constraint=models.UniqueConstraint(
                fields=("workspace", "blind_index"), name="entry_name_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="entry",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("owner", None), ("scope", "user"), ("user__isnull", False)
                    ),
                    models.Q(("owner", None), ("scope", "workspace"), ("user", None)),
                    models.Q(
                        ("owner__isnull", False),
                        ("scope__in", ["group", "board"]),
                        ("user", None),
                    ),
                    _connector="OR",
                ),
                name="entry_has_its_owner",
            ),
        ),
        migrations.AddConstraint(
            model_name="entryversion",
            constraint=models.UniqueConstraint(
                fields=("entry", "version"), name="entry_version_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="entryversion",
            constraint=models.UniqueConstraint(
                fields=("workspace", "request_key"), name="entry_request_key_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="entryversion",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("by__isnull", True), ("run__isnull", True), _connector="XOR"
                ),
                name="entry_version_has_a_writer",
            ),
        ),
        *tenant("checkpoints_entry"),
        *tenant("checkpoints_entryversion"),
        *stands("checkpoints_entry", STANDS),
        *stands("checkpoints_entryversion", ONCE),
    ]
