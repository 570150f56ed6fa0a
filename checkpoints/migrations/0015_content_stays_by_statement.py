"""What goes is looked at once a statement, not once a row; and a blob stays, too.

Packing deletes 64 deltas at a time: a trigger for each took as long as all the rest of
it. A segment that holds them is there before they go, so that they can be looked at right
then; segments are still looked at when the transaction commits (0004).
"""

from django.db import migrations

DELTAS_STAY = """
CREATE FUNCTION checkpoints_deltas_stay() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    lost record;
BEGIN
    SELECT gone.branch_id, gone.step INTO lost
    FROM gone
    WHERE NOT EXISTS (
        SELECT FROM checkpoints_segment s
        WHERE s.thread_id = gone.thread_id AND s.branch_id = gone.branch_id
          AND gone.step BETWEEN s.first_step AND s.last_step
      )
      AND NOT EXISTS (
        SELECT FROM checkpoints_thread t
        JOIN checkpoints_deletion d ON d.thread_id = t.id
        WHERE t.id = gone.thread_id AND t.pruned_at IS NOT NULL
      )
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'step % of branch % would be lost; DELETE is refused',
            lost.step, lost.branch_id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$$
"""

BLOBS_STAY = """
CREATE FUNCTION checkpoints_blobs_stay() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    lost record;
BEGIN
    SELECT gone.id INTO lost
    FROM gone
    WHERE NOT EXISTS (
        SELECT FROM checkpoints_thread t
        JOIN checkpoints_deletion d ON d.thread_id = t.id
        WHERE t.id = gone.thread_id AND t.pruned_at IS NOT NULL
      )
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'blob % would be lost; DELETE is refused', lost.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$$
"""

BY_ROW = """
CREATE CONSTRAINT TRIGGER content_stays AFTER DELETE ON checkpoints_checkpointdelta
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION checkpoints_content_stays()
"""


def by_statement(table: str, function: str) -> str:
    return (
        f"CREATE TRIGGER content_stays AFTER DELETE ON {table} "
        "REFERENCING OLD TABLE AS gone "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
    )


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0014_retention_tasks")]

    operations = [
        migrations.RunSQL(DELTAS_STAY, "DROP FUNCTION checkpoints_deltas_stay()"),
        migrations.RunSQL(BLOBS_STAY, "DROP FUNCTION checkpoints_blobs_stay()"),
        migrations.RunSQL(
            "DROP TRIGGER content_stays ON checkpoints_checkpointdelta", BY_ROW
        ),
        migrations.RunSQL(
            by_statement("checkpoints_checkpointdelta", "checkpoints_deltas_stay"),
            "DROP TRIGGER content_stays ON checkpoints_checkpointdelta",
        ),
        migrations.RunSQL(
            by_statement("checkpoints_blob", "checkpoints_blobs_stay"),
            "DROP TRIGGER content_stays ON checkpoints_blob",
        ),
    ]
