from __future__ import annotations

import time
from argparse import ArgumentParser
from collections import Counter
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from agents.errors import UnknownAgent
from agents.management import lookups
from agents.runs.migrate import migrate_heads, standings
from agents.tools import Agent, registry

EVERY = 5.0  # seconds between two lines of progress
LINE = "{:<20} {:<28} {:>8} {:>9} {:>6}  {}"


class Command(BaseCommand):
    help = (
        "Which schema versions the heads of branches have, by agent; and with "
        "`migrate`, bring those that are behind up to date, each by a step that keeps "
        "what its migrations changed. Without it the same happens one by one, when a "
        "run next takes the branch. Can be stopped and started again at any time; "
        "branches that a run holds are left to it. History is never rewritten."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "action",
            nargs="?",
            choices=["status", "migrate"],
            default="status",
            help="status: count, open nothing (the default)",
        )
        parser.add_argument("--agent", help="name; without it, every agent")
        parser.add_argument("--workspace", help="slug; without it, all of them")
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="run the migrations, and store nothing of what they give",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        slug = options["workspace"]
        workspace = None if slug is None else lookups.workspace(slug).pk
        agents = self._agents(options["agent"])
        if options["action"] == "status":
            self._status(workspace, options["agent"])
            return
        failed = sum(
            self._migrate(agent, workspace, dry_run=options["dry_run"])
            for agent in agents
        )
        if failed:
            raise CommandError(
                f"{failed} branches could not be migrated; they are as they were."
            )

    def _status(self, workspace: UUID | None, only: str | None) -> None:
        self.stdout.write(
            LINE.format("workspace", "agent", "version", "branches", "held", "")
        )
        for standing in standings(workspace):
            if only is not None and standing.agent != only:
                continue
            self.stdout.write(
                LINE.format(
                    standing.workspace,
                    standing.agent or "none yet",
                    standing.version,
                    standing.branches,
                    standing.held,
                    _said(standing.agent, standing.version),
                ).rstrip()
            )

    def _migrate(self, agent: Agent, workspace: UUID | None, *, dry_run: bool) -> int:
        counts: Counter[str] = Counter()
        due = time.monotonic() + EVERY
        for outcome in migrate_heads(agent, workspace_id=workspace, dry_run=dry_run):
            counts[outcome.status] += 1
            if outcome.problem:
                self.stderr.write(
                    f"thread {outcome.branch.thread_id}, branch {outcome.branch.pk}: "
                    f"{outcome.problem}"
                )
            if time.monotonic() >= due:
                due = time.monotonic() + EVERY
                self.stderr.write(f"… {agent.name}: {counts['migrated']:,} migrated")
        would = "would be migrated" if dry_run else "migrated"
        self.stdout.write(
            f"{agent.name}, version {agent.schema_version}: {counts['migrated']:,} "
            f"{would}, {counts['held']:,} held by a run, {counts['shredded']:,} "
            f"shredded, {counts['failed']:,} failed"
        )
        return counts["failed"]

    def _agents(self, name: str | None) -> list[Agent]:
        if name is None:
            return list(registry)
        try:
            return [registry.agent(name)]
        except UnknownAgent as error:
            raise CommandError(str(error)) from None


def _said(agent: str, version: int) -> str:
    if not agent:
        return ""
    if agent not in registry:
        return "its code is not installed here"
    now = registry.agent(agent).schema_version
    if version == now:
        return "current"
    if version > now:
        return f"from the future: the code here reads up to {now}"
    return f"behind: the code here has {now}"
