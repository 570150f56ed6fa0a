"""A call may wait for a lock that another run holds."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0037_run_parent"), ("checkpoints", "0041_locks_held")]

    operations = [
        migrations.AddField(
            model_name="toolcall",
            name="waits_for",
            field=models.UUIDField(
                editable=False,
                help_text="The lock that it has to have first, where another run held it.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="toolcall",
            name="waits_until",
            field=models.DateTimeField(
                editable=False,
                help_text="Then it is told who holds the lock.",
                null=True,
            ),
        ),
        migrations.AddIndex(
            model_name="toolcall",
            index=models.Index(
                condition=models.Q(("waits_for__isnull", False)),
                fields=["waits_for"],
                name="call_waits_for",
            ),
        ),
    ]
