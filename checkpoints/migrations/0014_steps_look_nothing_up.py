"""What the statement of a step takes from rows that it holds, it does not look up again.

Each foreign key cost a step a query and a row lock, a tenth of its WAL and a fifth of its
time in the database. Branch and parent are the row that the same statement has just
moved and the head that it held; nothing removes either (0002).
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("checkpoints", "0013_delta_queue"),
    ]

    operations = [
        migrations.AlterField(
            model_name="checkpoint",
            name="branch",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="checkpoints",
                to="checkpoints.branch",
            ),
        ),
        migrations.AlterField(
            model_name="checkpoint",
            name="parent",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="children",
                to="checkpoints.checkpoint",
            ),
        ),
        migrations.AlterField(
            model_name="checkpointdelta",
            name="checkpoint",
            field=models.OneToOneField(
                db_constraint=False,
                on_delete=django.db.models.deletion.PROTECT,
                primary_key=True,
                related_name="delta",
                serialize=False,
                to="checkpoints.checkpoint",
            ),
        ),
    ]
