"""A call says which worker began it, until it is known that this one is at it no more.

Calls that are under way while this is applied were begun by nobody knows whom.
"""

from django.db import migrations, models

MARK = "UPDATE agents_toolcall SET worker = 'not known' WHERE status = 'executing'"


class Migration(migrations.Migration):
    dependencies = [("agents", "0031_run_max_cost")]

    operations = [
        migrations.AddField(
            model_name="toolcall",
            name="worker",
            field=models.CharField(
                blank=True,
                db_default="",
                editable=False,
                help_text="While it is executing: whose process may be at it; empty: none.",
                max_length=100,
            ),
        ),
        migrations.RunSQL(MARK, migrations.RunSQL.noop),
    ]
