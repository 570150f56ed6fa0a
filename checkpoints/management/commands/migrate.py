from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate
from django.db import connections

from checkpoints.db import roles


class Command(migrate.Command):
    """Django's, which ends with the rights of web and workers on what it made."""

    def handle(self, *args: Any, **options: Any) -> None:
        super().handle(*args, **options)
        if options["plan"] or options["check_unapplied"]:
            return
        _, refused = roles.apply(connections[options["database"]])
        if refused:
            self.stderr.write(
                self.style.WARNING(
                    "Row security waits for database roles, which this user may not"
                    " make. `manage.py roles --sql` prints what an administrator of the"
                    " server runs; `manage.py roles` goes on from there."
                )
            )
