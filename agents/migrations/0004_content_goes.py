"""The content of an expired thread goes; the rows of its calls stay."""

from django.db import migrations

import checkpoints.models.fields


class Migration(migrations.Migration):
    dependencies = [("agents", "0003_row_security")]

    operations = [
        migrations.AlterField(
            model_name="toolcall",
            name="title",
            field=checkpoints.models.fields.SealedField(null=True),
        ),
        migrations.AlterField(
            model_name="toolcall",
            name="arguments",
            field=checkpoints.models.fields.SealedField(
                help_text="As proposed, without the reason.", null=True
            ),
        ),
    ]
