"""Vectors of entries: derived, sealed as the entries are, one for each at most."""

import django.db.models.deletion
from django.db import migrations, models

import checkpoints.models.fields
from checkpoints.db.policies import tenant


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0038_step_code")]

    operations = [
        migrations.CreateModel(
            name="EntryVector",
            fields=[
                (
                    "entry",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="checkpoints.entry",
                    ),
                ),
                (
                    "vector",
                    checkpoints.models.fields.SealedField(
                        help_text="Version, model and vector."
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.workspace",
                    ),
                ),
            ],
        ),
        *tenant("checkpoints_entryvector"),
    ]
