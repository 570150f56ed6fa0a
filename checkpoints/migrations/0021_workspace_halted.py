"""A workspace may be halted: nothing acts in it until that is lifted."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0020_audit_by_date")]

    operations = [
        migrations.AddField(
            model_name="workspace",
            name="halted_at",
            field=models.DateTimeField(
                editable=False,
                help_text="Nothing acts in the workspace since then.",
                null=True,
            ),
        ),
    ]
