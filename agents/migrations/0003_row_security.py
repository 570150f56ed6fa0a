"""Wall 2, as in checkpoints: rows of one workspace at a time. Agents are switched off by hand."""

from django.db import migrations

from checkpoints.db.policies import tenant

OF_A_WORKSPACE = ["agentversion", "approval", "decision", "run", "toolcall"]


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0002_decision_guard"),
        ("checkpoints", "0009_row_security"),
    ]

    operations = [
        *(
            operation
            for name in OF_A_WORKSPACE
            for operation in tenant(f"agents_{name}")
        ),
        *tenant("agents_agent", operators="ALL"),
    ]
