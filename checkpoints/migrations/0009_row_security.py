"""Wall 2: whoever does not own the tables sees the rows of one workspace at a time.

A person who signs in is of no workspace yet, and sees their own memberships. What is
recorded of no workspace is seen while it is recorded: PostgreSQL returns no row from an
INSERT that the role may not see.
"""

from django.db import migrations

from checkpoints.db.policies import (
    FUNCTIONS,
    NO_FUNCTIONS,
    PERSON,
    SCOPE,
    policy,
    tenant,
)

OF_A_WORKSPACE = [
    "archive",
    "auditevent",
    "auditlink",
    "auditpending",
    "blob",
    "branch",
    "checkpoint",
    "checkpointdelta",
    "deletion",
    "grant",
    "segment",
    "thread",
    "threadinput",
]
# What staff set by hand in the admin; a new workspace gets its keys there.
SET_BY_OPERATORS = ["datakey", "group", "membership", "retentionpolicy", "workspacekey"]

OF_A_GROUP_SEEN = """
EXISTS (SELECT FROM checkpoints_group of WHERE of.id = group_id)
AND EXISTS (SELECT FROM checkpoints_membership of WHERE of.id = membership_id)
"""
OWN = f"user_id = {PERSON}"
OF_AN_OWN_MEMBERSHIP = f"""
EXISTS (SELECT FROM checkpoints_membership of
        WHERE of.workspace_id = checkpoints_workspace.id AND of.{OWN})
"""


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0008_audit_pending_fill")]

    operations = [
        migrations.RunSQL(FUNCTIONS, NO_FUNCTIONS),
        *(
            operation
            for name in OF_A_WORKSPACE
            for operation in tenant(f"checkpoints_{name}")
        ),
        *(
            operation
            for name in SET_BY_OPERATORS
            for operation in tenant(f"checkpoints_{name}", operators="ALL")
        ),
        *tenant("checkpoints_workspace", column="id", operators="ALL"),
        migrations.RunSQL(
            "ALTER TABLE checkpoints_group_members ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE checkpoints_group_members DISABLE ROW LEVEL SECURITY",
        ),
        policy("checkpoints_group_members", "tenant", OF_A_GROUP_SEEN),
        policy("checkpoints_membership", "signing_in", OWN, "SELECT"),
        policy("checkpoints_workspace", "signing_in", OF_AN_OWN_MEMBERSHIP, "SELECT"),
        policy(
            "checkpoints_auditevent",
            "recording",
            f"workspace_id IS NULL AND {SCOPE} = 'recording'",
        ),
    ]
