"""The content of an expired thread goes; the row of a message to it stays.

A legal hold keeps the reason that its admin gave.
"""

from django.db import migrations

import checkpoints.models.fields


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0009_row_security")]

    operations = [
        migrations.AddField(
            model_name="thread",
            name="hold_reason",
            field=checkpoints.models.fields.SealedField(
                help_text="An admin's words.", null=True
            ),
        ),
        migrations.AlterField(
            model_name="threadinput",
            name="content",
            field=checkpoints.models.fields.SealedField(
                help_text="Null once the thread's content went.", null=True
            ),
        ),
    ]
