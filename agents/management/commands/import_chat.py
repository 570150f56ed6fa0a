from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.debug.chatlog import import_conversations
from agents.errors import AlreadyImported, MalformedLog
from agents.management import lookups
from agents.pure.chatlog import decode, parse
from checkpoints.errors import StoreUnavailable


class Command(BaseCommand):
    help = (
        "Turn OpenAI-format chat logs (.json, .jsonl) into threads, one checkpoint per "
        "message or tool result. A file is imported whole or not at all."
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
                branches = import_conversations(
                    parse(self._read(file), lines=file.suffix == ".jsonl"),
                    workspace=workspace,
                    owner_id=owner.pk if owner else None,
                    title=file.stem,
                )
            except (MalformedLog, AlreadyImported, StoreUnavailable) as problem:
                failed += 1
                self.stderr.write(f"{file}: {problem} Nothing of it was imported.")
                continue
            for branch in branches:
                self.stdout.write(
                    f"{file.name}: {branch.thread}, {branch.head_step + 1} steps"
                )
        if failed:
            raise CommandError(f"{failed} of {len(options['files'])} files failed.")

    def _read(self, file: Path) -> str:
        try:
            return decode(file.read_bytes())
        except OSError as problem:
            raise MalformedLog(f"cannot be read ({problem.strerror}).") from problem
