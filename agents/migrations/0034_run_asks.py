"""A run may ask a model once more what a step asked it, and do nothing else."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0032_call_worker"),
        ("checkpoints", "0028_search_fields"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="asks",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                editable=False,
                help_text="The model's step whose request it sends once more. It does "
                "nothing else: no call of the answer is begun.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="asked_again",
                to="checkpoints.checkpoint",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("asks__isnull", False)),
                fields=["asks", "-created_at"],
                name="run_asking",
            ),
        ),
    ]
