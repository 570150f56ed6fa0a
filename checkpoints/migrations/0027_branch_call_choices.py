"""A fork may do with single calls of its source otherwise than with the others."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0023_scope_decide")]

    operations = [
        migrations.AddField(
            model_name="branch",
            name="call_choices",
            field=models.JSONField(
                editable=False,
                help_text="In a fork: what becomes of single calls of its source instead, by id.",
                null=True,
            ),
        ),
    ]
