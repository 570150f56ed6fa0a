"""Deltas come and go like a queue's rows; sealed records do not compress again."""

from django.db import migrations

SEALED = [
    "checkpoints_checkpointdelta",
    "checkpoints_segment",
]
# By the row, not by the share of a table that is as small as the backlog: room that
# packing leaves is used again by the next steps.
DELTAS = """
ALTER TABLE checkpoints_checkpointdelta SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500
)
"""
AS_BEFORE = """
ALTER TABLE checkpoints_checkpointdelta RESET (
    autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold
)
"""


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0012_store_mark")]

    operations = [
        migrations.RunSQL(DELTAS, AS_BEFORE),
        *(
            migrations.RunSQL(
                f"ALTER TABLE {table} ALTER COLUMN record SET STORAGE EXTERNAL",
                f"ALTER TABLE {table} ALTER COLUMN record SET STORAGE EXTENDED",
            )
            for table in SEALED
        ),
    ]
