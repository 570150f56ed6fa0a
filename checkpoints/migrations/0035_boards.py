"""Boards: entries that agents share, or keep there for themselves, and locks of names.

Whose an entry is never changes, its line included. A lock keeps its name and its board,
and its fence stays or counts by one.
"""

import django.db.models.deletion
from django.db import migrations, models

import checkpoints.clock
import checkpoints.ids
import checkpoints.models.fields
from checkpoints.db.policies import tenant

STANDS = """
CREATE OR REPLACE FUNCTION checkpoints_entry_stands() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.workspace_id, NEW.scope, NEW.user_id, NEW.owner, {line}NEW.namespace,
        NEW.blind_index)
       IS DISTINCT FROM
       (OLD.id, OLD.workspace_id, OLD.scope, OLD.user_id, OLD.owner, {old_line}OLD.namespace,
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
WITH_LINE = STANDS.format(line="NEW.line, ", old_line="OLD.line, ")
WITHOUT = STANDS.format(line="", old_line="")
LOCK_STANDS = """
CREATE FUNCTION checkpoints_entrylock_stands() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.workspace_id, NEW.owner, NEW.blind_index, NEW.name)
       IS DISTINCT FROM
       (OLD.id, OLD.workspace_id, OLD.owner, OLD.blind_index, OLD.name)
       OR NEW.fence NOT IN (OLD.fence, OLD.fence + 1)
    THEN
        RAISE EXCEPTION 'lock % keeps its name and counts up; this UPDATE is refused',
            OLD.id USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$
"""
# As in 0017: they look into our tables, whatever temporary ones a role has made. A function
# that is replaced forgets it.
OUR_TABLES = """
DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION {0}() SET search_path = %I, pg_temp', current_schema());
END $$
"""
ENTRY, LOCK = "checkpoints_entry_stands", "checkpoints_entrylock_stands"


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0033_entries")]

    operations = [
        migrations.AddField(
            model_name="entry",
            name="line",
            field=models.UUIDField(
                editable=False,
                help_text="On a board: the branch whose runs alone have it; null: all"
                " that share the board.",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="entry",
            name="owner",
            field=models.UUIDField(
                editable=False,
                help_text="The group or the board whose it is: a board's is a branch.",
                null=True,
            ),
        ),
        migrations.AddConstraint(
            model_name="entry",
            constraint=models.CheckConstraint(
                condition=models.Q(("line", None), ("scope", "board"), _connector="OR"),
                name="entry_line_is_of_a_board",
            ),
        ),
        migrations.RunSQL(WITH_LINE, WITHOUT),
        migrations.RunSQL(OUR_TABLES.format(ENTRY), OUR_TABLES.format(ENTRY)),
        migrations.CreateModel(
            name="EntryLock",
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
                    "owner",
                    models.UUIDField(editable=False, help_text="The board: a branch."),
                ),
                (
                    "blind_index",
                    checkpoints.models.fields.BlindIndexField(
                        help_text="Of the board, namespace and key."
                    ),
                ),
                (
                    "name",
                    checkpoints.models.fields.SealedField(
                        help_text="Namespace and key."
                    ),
                ),
                (
                    "fence",
                    models.BigIntegerField(
                        default=0, help_text="How many have held it."
                    ),
                ),
                (
                    "run",
                    models.UUIDField(
                        editable=False, help_text="Null: it is free.", null=True
                    ),
                ),
                (
                    "until",
                    models.DateTimeField(
                        help_text="When its holder loses it.", null=True
                    ),
                ),
                (
                    "request_key",
                    models.UUIDField(
                        editable=False,
                        help_text="The call that took it.",
                        null=True,
                    ),
                ),
                (
                    "updated_at",
                    models.DateTimeField(
                        db_default=checkpoints.clock.ClockTimestamp(), editable=False
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
            model_name="entrylock",
            index=models.Index(
                fields=["workspace", "owner"], name="entry_lock_of_board"
            ),
        ),
        migrations.AddIndex(
            model_name="entrylock",
            index=models.Index(fields=["updated_at"], name="entry_lock_moved"),
        ),
        migrations.AddConstraint(
            model_name="entrylock",
            constraint=models.UniqueConstraint(
                fields=("workspace", "blind_index"), name="entry_lock_name_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="entrylock",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("run", None), ("until", None)),
                    models.Q(("run__isnull", False), ("until__isnull", False)),
                    _connector="OR",
                ),
                name="entry_lock_ends",
            ),
        ),
        *tenant("checkpoints_entrylock"),
        migrations.RunSQL(LOCK_STANDS, f"DROP FUNCTION {LOCK}()"),
        migrations.RunSQL(OUR_TABLES.format(LOCK), migrations.RunSQL.noop),
        migrations.RunSQL(
            "CREATE TRIGGER stands BEFORE UPDATE ON checkpoints_entrylock"
            f" FOR EACH ROW EXECUTE FUNCTION {LOCK}()",
            "DROP TRIGGER stands ON checkpoints_entrylock",
        ),
    ]
