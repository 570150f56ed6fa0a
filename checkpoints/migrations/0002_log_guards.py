"""The log and the audit log are written once: the database itself refuses the rest.

Row triggers: TRUNCATE, which only the owner of the tables may do, still works, and
with it the flush between tests.
"""

from django.db import migrations

REFUSE = """
CREATE FUNCTION checkpoints_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% rows are written once; % is refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'integrity_constraint_violation';
END
$$
"""

GUARDS = [
    # table, what is refused. A delta may go, once it is packed into a segment.
    ("checkpoints_checkpoint", "UPDATE OR DELETE"),
    ("checkpoints_checkpointdelta", "UPDATE"),
    ("checkpoints_auditevent", "UPDATE OR DELETE"),
]


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0001_initial")]

    operations = [
        migrations.RunSQL(REFUSE, "DROP FUNCTION checkpoints_refuse()"),
        *(
            migrations.RunSQL(
                f"CREATE TRIGGER written_once BEFORE {refused} ON {table} "
                "FOR EACH ROW EXECUTE FUNCTION checkpoints_refuse()",
                f"DROP TRIGGER written_once ON {table}",
            )
            for table, refused in GUARDS
        ),
    ]
