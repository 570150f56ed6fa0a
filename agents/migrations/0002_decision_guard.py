"""A decision is written once: the database itself refuses the rest."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("agents", "0001_initial"), ("checkpoints", "0002_log_guards")]

    operations = [
        migrations.RunSQL(
            "CREATE TRIGGER written_once BEFORE UPDATE OR DELETE ON agents_decision "
            "FOR EACH ROW EXECUTE FUNCTION checkpoints_refuse()",
            "DROP TRIGGER written_once ON agents_decision",
        ),
    ]
