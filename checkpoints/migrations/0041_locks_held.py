"""Locks that are held are found by their run, to free those of runs that are over."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0039_entry_vectors")]

    operations = [
        migrations.AddIndex(
            model_name="entrylock",
            index=models.Index(
                condition=models.Q(("run__isnull", False)),
                fields=["run"],
                name="entry_lock_held",
            ),
        ),
    ]
