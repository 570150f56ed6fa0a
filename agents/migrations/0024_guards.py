"""What a request's preview shows, and which requests are being checked."""

from django.db import migrations, models

import checkpoints.models.fields


class Migration(migrations.Migration):
    dependencies = [("agents", "0023_inbox")]

    operations = [
        migrations.AddField(
            "approval",
            "preview",
            checkpoints.models.fields.SealedField(
                editable=False, help_text="What the call would do, as text.", null=True
            ),
        ),
        migrations.AlterField(
            "approval",
            "guard_asked_at",
            models.DateTimeField(
                editable=False, help_text="A check is under way since then.", null=True
            ),
        ),
        migrations.AddIndex(
            "approval",
            models.Index(
                condition=models.Q(
                    ("guard_asked_at__isnull", False), ("status", "pending")
                ),
                fields=["guard_asked_at"],
                name="approval_checked",
            ),
        ),
    ]
