"""An event waits for its link from the moment it is written, whoever writes it.

The function runs as its owner: who may write events need have no right to this table,
and so cannot keep one out of the chain.
"""

from django.db import migrations

PENDS = """
CREATE FUNCTION checkpoints_audit_pends() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO checkpoints_auditpending (event_id, workspace_id, position)
    VALUES (NEW.id, NEW.workspace_id, NEW.position);
    RETURN NULL;
END
$$
"""


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0006_audit_pending")]

    operations = [
        migrations.RunSQL(PENDS, "DROP FUNCTION checkpoints_audit_pends()"),
        migrations.RunSQL(
            "CREATE TRIGGER pends AFTER INSERT ON checkpoints_auditevent "
            "FOR EACH ROW EXECUTE FUNCTION checkpoints_audit_pends()",
            "DROP TRIGGER pends ON checkpoints_auditevent",
        ),
    ]
