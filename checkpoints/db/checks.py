"""Whether a process is held to its database role: asked when it starts, and by `check`."""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from checkpoints.db import session
from checkpoints.db.session import DatabaseRole

logger = logging.getLogger(__name__)

VARIABLES = {"web": "DATABASE_WEB_URL", "worker": "DATABASE_WORKER_URL"}

_WHO = """
SELECT current_user, CASE WHEN to_regclass('checkpoints_thread') IS NOT NULL
                          THEN row_security_active('checkpoints_thread') END
"""


def require_role() -> None:
    """Raises ImproperlyConfigured for a web or worker process that is somebody else.

    One that signs in as the owner, or as the other one, and cannot take its own role,
    would see rows of every workspace. A local installation (the demo) is only told so.
    """
    role = session.current().role
    if role is DatabaseRole.OWNER:
        return
    with connection.cursor() as cursor:
        cursor.execute(_WHO)
        who, is_held = cursor.fetchone()
    if is_held is None:
        return  # no tables yet: nothing to see
    if who == role.in_postgres and is_held:
        return
    problem = (
        f"the {role} process is {who!r} to PostgreSQL, and cannot be {role.in_postgres!r}"
        if who != role.in_postgres
        else f"row security does not hold {who!r}"
    )
    wrong = (
        f"{problem}: rows of one workspace would not be kept from another. Run `manage.py"
        " migrate` as the owner of the tables, or have an administrator of the server run"
        " what `manage.py roles --sql` prints; docs/database-roles.md says more."
    )
    if not settings.LOCAL:
        raise ImproperlyConfigured(wrong[0].upper() + wrong[1:])
    logger.warning(wrong)


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
