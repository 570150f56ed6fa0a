"""Fields of states that code declares, as blind indexes: threads are found by them."""

import django.db.models.deletion
from django.db import migrations, models

import checkpoints.ids
import checkpoints.models.fields
from checkpoints.db.policies import tenant


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0024_remarks")]

    operations = [
        migrations.CreateModel(
            name="SearchField",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=checkpoints.ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "name",
                    models.CharField(help_text="As code declares it.", max_length=40),
                ),
                (
                    "blind_index",
                    checkpoints.models.fields.BlindIndexField(
                        help_text="Of the name and the value."
                    ),
                ),
                (
                    "branch",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.branch",
                    ),
                ),
                (
                    "thread",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.thread",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="checkpoints.workspace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["workspace", "blind_index", "thread"],
                        name="search_field_by_value",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("branch", "name"), name="search_field_once_in_branch"
                    )
                ],
            },
        ),
        *tenant("checkpoints_searchfield"),
    ]
