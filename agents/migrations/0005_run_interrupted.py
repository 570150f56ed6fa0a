"""A message may stop a run, and is then answered by the next one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0004_content_goes")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="interrupted",
            field=models.BooleanField(
                default=False,
                help_text="A message asked for the cancelling: the next run answers it.",
            ),
        ),
    ]
