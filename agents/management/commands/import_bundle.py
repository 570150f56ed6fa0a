from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.debug.bundles.importing import import_bundle
from agents.errors import AlreadyImported, BadFile
from agents.management import lookups
from agents.pure.visible import flat
from checkpoints.access import SystemPrincipal
from checkpoints.errors import StoreUnavailable


class Command(BaseCommand):
    help = (
        "Turn bundles (docs/bundles.md) into threads that can be read, compared and"
        " forked. A file is imported whole or not at all."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument("--workspace", help="slug; needed where there are several")
        parser.add_argument("--owner", help="user name of the person who owns them")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = lookups.workspace_or_only(options["workspace"])
        owner = lookups.owner(options["owner"])
        failed = 0
        for file in options["files"]:
            try:
                thread = import_bundle(
                    self._read(file),
                    workspace=workspace,
                    by=SystemPrincipal("import_bundle", workspace.pk),
                    owner_id=owner.pk if owner else None,
                )
            except (BadFile, AlreadyImported, StoreUnavailable) as problem:
                failed += 1
                # It may quote the file, which may hold what steers a terminal.
                said = flat(f"{problem} Nothing of it was imported.")
                self.stderr.write(f"{file}: {said}")
                continue
            self.stdout.write(f"{file.name}: {thread}, {thread.pk}")
        if failed:
            raise CommandError(f"{failed} of {len(options['files'])} files failed.")

    def _read(self, file: Path) -> bytes:
        try:
            return file.read_bytes()
        except OSError as problem:
            raise BadFile("It", f"cannot be read ({problem.strerror}).") from problem
