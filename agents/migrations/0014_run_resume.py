"""People may choose what a run goes on from."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0010_run_paused")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="resume",
            field=models.CharField(
                blank=True,
                choices=[
                    ("factual", "from the facts"),
                    ("as_is", "from the whole conversation"),
                ],
                db_default="",
                default="",
                help_text="What a person chose that it goes on from; empty: as its "
                "agent says.",
                max_length=10,
            ),
        ),
    ]
