"""What `manage.py check --deploy` says of database roles."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Warning

VARIABLES = {"web": "DATABASE_WEB_URL", "worker": "DATABASE_WORKER_URL"}


def own_credentials(app_configs: Any, **options: Any) -> list[CheckMessage]:
    """Web and workers should not hold the password of who owns the tables."""
    return [
        Warning(
            f"{VARIABLES[role]} is not set: the {role} process signs in to the database"
            " as the owner of its tables.",
            hint="It takes its role in each transaction, but who gets to run SQL there"
            " can leave that role. docs/database-roles.md says how to give it its own.",
            id="checkpoints.W001",
        )
        for role, has_its_own in settings.DATABASE_ROLE_URLS.items()
        if not has_its_own
    ]
