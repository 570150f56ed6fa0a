"""A run may have been started by a call of another run, which waits for it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0034_run_asks")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="parent",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                editable=False,
                help_text="The run that had this one started, and waits for it.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="children",
                to="agents.run",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="parent_call",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                editable=False,
                help_text="Its call, of which this run's answer is the result.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="children",
                to="agents.toolcall",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("parent__isnull", False)),
                fields=["parent", "parent_call"],
                name="run_child",
            ),
        ),
    ]
