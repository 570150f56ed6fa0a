from __future__ import annotations

import os
from argparse import ArgumentParser
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.debug.trajectories import MOST, Report, Wanted, write
from agents.errors import AgentsError
from agents.management import lookups
from agents.models import Agent, Run
from checkpoints.errors import CheckpointsError


class Command(BaseCommand):
    help = (
        "Write conversations that went well as examples for fine-tuning, one a line"
        " (docs/trajectories.md)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--by", required=True, metavar="USER", help="whose right to read it is"
        )
        parser.add_argument(
            "--workspace", metavar="SLUG", help="which, if there are more"
        )
        parser.add_argument("--agent", default="", metavar="NAME", help="of this agent")
        parser.add_argument(
            "--agent-version", type=int, metavar="N", help="of this version of it"
        )
        parser.add_argument(
            "--outcome",
            choices=[Run.Status.SUCCEEDED.value, Run.Status.FAILED.value],
            default=Run.Status.SUCCEEDED.value,
        )
        parser.add_argument(
            "--verdict", choices=["good", "bad"], default="", help="that people gave"
        )
        parser.add_argument(
            "--max-cost", type=_dollars, metavar="USD", help="that cost at most this"
        )
        parser.add_argument(
            "--unedited",
            action="store_true",
            help="in whose threads people neither edited nor rejected anything",
        )
        parser.add_argument(
            "--cheapest",
            action="store_true",
            help="of those that began with the same message, the cheapest",
        )
        parser.add_argument(
            "--most", type=int, default=MOST, metavar="N", help="the newest N at most"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = lookups.workspace_or_only(options["workspace"])
        agents = Agent.objects.filter(workspace=workspace).order_by("name")
        known = list(agents.values_list("name", flat=True))
        if options["agent"] and options["agent"] not in known:
            raise CommandError(
                f"{workspace} knows no agent {options['agent']!r}; it has"
                f" {', '.join(known) or 'none'}."
            )
        by = lookups.member(lookups.person(options["by"]), workspace)
        wanted = Wanted(
            agent=options["agent"],
            version=options["agent_version"],
            outcome=options["outcome"],
            verdict=options["verdict"],
            most_cost=options["max_cost"],
            unedited=options["unedited"],
            cheapest=options["cheapest"],
            most=max(1, min(options["most"], MOST)),
        )
        try:
            # What people said is in it: for its owner alone.
            with open(options["file"], "x", encoding="utf-8", opener=_private) as file:
                report = write(wanted, by, file, via="command")
        except FileExistsError:
            raise CommandError(f"{options['file']} is there already.") from None
        except (AgentsError, CheckpointsError) as problem:
            raise CommandError(str(problem)) from None
        except OSError as problem:
            raise CommandError(
                f"{options['file']} cannot be written ({problem.strerror})."
            ) from None
        self._say(options["file"], report)

    def _say(self, file: Path, report: Report) -> None:
        self.stdout.write(
            f"{file}: {report.examples:,} examples, {report.characters:,} characters"
        )
        if not report.examples and not report.left_out:
            self.stdout.write("No run is what was asked for.")
        for why, count in sorted(report.left_out.items()):
            self.stdout.write(f"{count:,} left out: {why}")
        if report.secrets:
            self.stdout.write(f"Masked: {', '.join(report.secrets)}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _dollars(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None
    if not amount.is_finite() or amount < 0:
        raise ValueError(text)
    return amount
