"""To write and settle a call looks up no row that the step has just written or locked."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0017_queues"),
        ("checkpoints", "0022_step_resume"),
    ]

    operations = [
        migrations.AlterField(
            model_name="toolcall",
            name="branch",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.branch",
            ),
        ),
        migrations.AlterField(
            model_name="toolcall",
            name="reply",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                help_text="The model's reply.",
                on_delete=django.db.models.deletion.PROTECT,
                related_name="calls",
                to="checkpoints.checkpoint",
            ),
        ),
        migrations.AlterField(
            model_name="toolcall",
            name="result_checkpoint",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.checkpoint",
            ),
        ),
        migrations.AlterField(
            model_name="toolcall",
            name="thread",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.thread",
            ),
        ),
        migrations.AlterField(
            model_name="toolcall",
            name="workspace",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.workspace",
            ),
        ),
    ]
