from django.db import migrations, models

MARKS = """
INSERT INTO checkpoints_storemark (kind, mark)
VALUES ('local', gen_random_uuid()), ('s3', gen_random_uuid())
"""


class Migration(migrations.Migration):
    """By which mark the database knows its blob store; a random one for each kind."""

    dependencies = [("checkpoints", "0011_sign_in_failures")]

    operations = [
        migrations.CreateModel(
            name="StoreMark",
            fields=[
                (
                    "kind",
                    models.CharField(
                        help_text="local, s3",
                        max_length=20,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("mark", models.UUIDField()),
                (
                    "claimed_at",
                    models.DateTimeField(
                        editable=False,
                        help_text="When a store first had the mark.",
                        null=True,
                    ),
                ),
            ],
        ),
        migrations.RunSQL(MARKS, migrations.RunSQL.noop),
    ]
