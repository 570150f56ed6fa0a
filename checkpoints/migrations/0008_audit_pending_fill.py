"""Events from before the trigger wait for their links, too."""

from django.db import migrations

FILL = """
INSERT INTO checkpoints_auditpending (event_id, workspace_id, position)
SELECT id, workspace_id, position FROM checkpoints_auditevent AS event
WHERE NOT EXISTS (SELECT FROM checkpoints_auditlink WHERE event_id = event.id)
ON CONFLICT DO NOTHING
"""


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0007_audit_pending_trigger")]

    operations = [migrations.RunSQL(FILL, migrations.RunSQL.noop)]
