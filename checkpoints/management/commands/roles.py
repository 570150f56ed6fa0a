from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from checkpoints.db import roles

PASSWORDS = f"""\
-- Then give each a way to sign in, for DATABASE_WEB_URL and DATABASE_WORKER_URL:
-- ALTER ROLE {roles.WEB} PASSWORD '…';
-- ALTER ROLE {roles.WORKER} PASSWORD '…';"""


class Command(BaseCommand):
    help = (
        "Make the database roles of web and workers, and their rights, as far as they"
        " are missing. `migrate` ends with this; repeat it as you like."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--sql",
            action="store_true",
            help="print what makes the roles, for the server's administrator",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="print what would be run"
        )

    def handle(self, *, sql: bool, dry_run: bool, **options: Any) -> None:
        if sql or dry_run:
            statements = roles.missing_roles(connection)
            if not sql:
                statements += roles.missing_rights(connection)
            for statement in statements:
                self.stdout.write(f"{statement};")
            self.stdout.write(PASSWORDS if sql else f"-- {len(statements)} statements")
            return
        ran, refused = roles.apply(connection)
        for statement in ran:
            self.stdout.write(f"{statement};")
        if refused:
            raise CommandError(
                "This user may not make roles. Have an administrator of the server run"
                " what `manage.py roles --sql` prints, then repeat this."
            )
        self.stdout.write("Roles and rights are as they should be.")
