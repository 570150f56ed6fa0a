from __future__ import annotations

import os
from argparse import ArgumentParser
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints import audit_chain, audit_export
from checkpoints.management.slugs import workspace_named


class Command(BaseCommand):
    help = (
        "Write a workspace's audit log as JSONL or CSV, whole or from a row on. What is "
        "written is verified without Holdpoint, by the program that --verifier prints: "
        "it needs nothing but Python. The export is an event of the log itself."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument(
            "--workspace",
            metavar="SLUG",
            help="whose log; - is that of events which belong to no workspace",
        )
        what.add_argument(
            "--verifier",
            action="store_true",
            help="print the program that verifies exports, and nothing else",
        )
        parser.add_argument(
            "--format", choices=sorted(audit_export.FORMATS), default="jsonl"
        )
        parser.add_argument(
            "--after",
            type=int,
            default=0,
            metavar="NUMBER",
            help="only the rows after this one, as after an earlier export",
        )
        parser.add_argument(
            "--output",
            type=Path,
            metavar="FILE",
            help="instead of the standard output; it is there whole or not at all",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["verifier"]:
            self.stdout.write(audit_export.verifier(), ending="")
            return
        slug, output = options["workspace"], options["output"]
        workspace_id = None if slug == "-" else workspace_named(slug).pk
        if output is not None and output.exists():
            raise CommandError(f"{output} is there already; name another file.")
        head = audit_chain.head_of(workspace_id)
        if options["after"] > head.number:
            raise CommandError(f"The log's last row is {head.number:,}.")
        pieces = audit_export.begin(
            workspace_id, options["format"], after=options["after"], via="command"
        )
        if output is None:
            for piece in pieces:
                self.stdout.write(piece, ending="")
        else:
            self._to_file(output, pieces)
        self.stderr.write(f"Rows {options['after'] + 1:,} to {head.number:,} written.")

    def _to_file(self, output: Path, pieces: Any) -> None:
        unfinished = output.with_name(f".{output.name}.part")
        try:
            with unfinished.open("w", encoding="utf-8", newline="") as file:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(output)
        except OSError as problem:
            with suppress(OSError):
                unfinished.unlink()
            raise CommandError(
                f"{output} cannot be written ({problem.strerror}); nothing is left of"
                " it. Make room or name another place, and run this again."
            ) from None
