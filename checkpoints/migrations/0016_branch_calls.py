from django.db import migrations, models


class Migration(migrations.Migration):
    """What a fork does with calls that have effects."""

    dependencies = [("checkpoints", "0015_content_stays_by_statement")]

    operations = [
        migrations.AddField(
            model_name="branch",
            name="calls",
            field=models.CharField(
                choices=[
                    ("recorded", "recorded results"),
                    ("simulate", "simulated"),
                    ("live", "live"),
                ],
                db_default="recorded",
                default="recorded",
                help_text="What a fork does with calls that have effects.",
                max_length=10,
            ),
        ),
    ]
