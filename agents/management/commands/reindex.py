from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.errors import UnknownAgent
from agents.management import lookups
from agents.runs.reindex import reindex
from agents.tools import registry


class Command(BaseCommand):
    help = (
        "Index again the fields of states that agents declare as `search_fields`, for the "
        "Threads list to find threads by. A run does it whenever it comes to rest: this "
        "is for what ran before a field was declared or moved, and for what people "
        "forked or brought back. Can be stopped and started again at any time; branches "
        "that a run holds are left to it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--agent", help="name; without it, every agent")
        parser.add_argument("--workspace", help="slug; without it, all of them")

    def handle(self, *args: Any, **options: Any) -> None:
        slug, name = options["workspace"], options["agent"]
        workspace = None if slug is None else lookups.workspace(slug).pk
        try:
            agents = list(registry) if name is None else [registry.agent(name)]
        except UnknownAgent as error:
            raise CommandError(str(error)) from None
        failed = 0
        for agent in agents:
            counts: Counter[str] = Counter()
            for outcome in reindex(agent, workspace_id=workspace):
                counts[outcome.status] += 1
                if outcome.problem:
                    self.stderr.write(
                        f"thread {outcome.branch.thread_id}, branch "
                        f"{outcome.branch.pk}: {outcome.problem}"
                    )
            self.stdout.write(
                f"{agent.name}: {counts['indexed']:,} indexed, {counts['held']:,} held by"
                f" a run, {counts['gone']:,} without content, {counts['failed']:,} failed"
            )
            failed += counts["failed"]
        if failed:
            raise CommandError(f"{failed} branches could not be indexed.")
