"""What was written stays: in a delta, in a segment, or by the deletion journal gone.

Packing moves steps from deltas into a segment, and a change of data key from segment to
segment; that each step is somewhere is looked at when the transaction commits, so that
the order of its statements is free.
"""

from django.db import migrations

CONTENT_STAYS = """
CREATE FUNCTION checkpoints_content_stays() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    first integer;
    last integer;
    kept bigint;
BEGIN
    IF TG_TABLE_NAME = 'checkpoints_segment' THEN
        first := OLD.first_step;
        last := OLD.last_step;
    ELSE
        first := OLD.step;
        last := OLD.step;
    END IF;
    SELECT coalesce(sum(least(last_step, last) - greatest(first_step, first) + 1), 0)
    INTO kept
    FROM checkpoints_segment
    WHERE thread_id = OLD.thread_id AND branch_id = OLD.branch_id
      AND first_step <= last AND last_step >= first;
    SELECT kept + count(*) INTO kept
    FROM checkpoints_checkpointdelta
    WHERE thread_id = OLD.thread_id AND branch_id = OLD.branch_id
      AND step BETWEEN first AND last;
    IF kept >= last - first + 1 THEN
        RETURN NULL;
    END IF;
    PERFORM FROM checkpoints_thread
    WHERE id = OLD.thread_id AND pruned_at IS NOT NULL
      AND EXISTS (SELECT FROM checkpoints_deletion WHERE thread_id = OLD.thread_id);
    IF FOUND THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'steps % to % of branch % would be lost; % is refused',
        first, last, OLD.branch_id, TG_OP
        USING ERRCODE = 'integrity_constraint_violation';
END
$$
"""

WRITTEN_ONCE = [
    # table, what is refused
    ("checkpoints_segment", "UPDATE"),
    ("checkpoints_auditlink", "UPDATE OR DELETE"),
    ("checkpoints_deletion", "UPDATE OR DELETE"),
]
KEPT = ["checkpoints_checkpointdelta", "checkpoints_segment"]

# The last step of each full segment that waits to be packed. Packing deletes the row,
# so the index is as small as the backlog, and 63 of 64 commits do not touch it.
FILLS_SEGMENT = """
CREATE INDEX delta_fills_segment ON checkpoints_checkpointdelta (branch_id, step)
WHERE step % 64 = 63
"""


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0003_storage")]

    operations = [
        *(
            migrations.RunSQL(
                f"CREATE TRIGGER written_once BEFORE {refused} ON {table} "
                "FOR EACH ROW EXECUTE FUNCTION checkpoints_refuse()",
                f"DROP TRIGGER written_once ON {table}",
            )
            for table, refused in WRITTEN_ONCE
        ),
        migrations.RunSQL(CONTENT_STAYS, "DROP FUNCTION checkpoints_content_stays()"),
        *(
            migrations.RunSQL(
                f"CREATE CONSTRAINT TRIGGER content_stays AFTER DELETE ON {table} "
                "DEFERRABLE INITIALLY DEFERRED "
                "FOR EACH ROW EXECUTE FUNCTION checkpoints_content_stays()",
                f"DROP TRIGGER content_stays ON {table}",
            )
            for table in KEPT
        ),
        migrations.RunSQL(FILLS_SEGMENT, "DROP INDEX delta_fills_segment"),
    ]
