"""Our functions find our tables, whatever tables of its own a role has made.

PostgreSQL looks into a session's temporary tables first, unless a function says that
it looks there last. So a role that may only add events could have put a table of its own
in the way of `checkpoints_audit_pends`, which runs as the owner: the event would have
stayed out of the chain, and a trigger on that table would have run as the owner, too.
"""

from django.db import migrations

FUNCTIONS = [
    "checkpoints_audit_pends()",
    "checkpoints_blobs_stay()",
    "checkpoints_content_stays()",
    "checkpoints_deltas_stay()",
]

LAST = """
DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION {function} SET search_path = %I, pg_temp',
                   current_schema());
END $$
"""


AS_BEFORE = {"checkpoints_audit_pends()": "SET search_path FROM CURRENT"}


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0016_branch_calls")]

    operations = [
        migrations.RunSQL(
            LAST.format(function=function),
            f"ALTER FUNCTION {function} {AS_BEFORE.get(function, 'RESET search_path')}",
        )
        for function in FUNCTIONS
    ]
