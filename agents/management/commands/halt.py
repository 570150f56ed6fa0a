from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.runs import control
from checkpoints.models import Workspace


class Command(BaseCommand):
    help = (
        "The kill switch: stop every run of a workspace between two steps and start "
        "none, until it is lifted. Nothing is lost."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="slug")
        parser.add_argument("--lift", action="store_true", help="let runs go on")

    def handle(self, *args: Any, workspace: str, lift: bool, **options: Any) -> None:
        known = {one.slug: one for one in Workspace.objects.order_by("slug")}
        if workspace not in known:
            raise CommandError(
                f"No workspace is called {workspace!r}; there are:"
                f" {', '.join(known) or 'none yet'}."
            )
        pk = known[workspace].pk
        if lift:
            done = control.lift(pk, by=None)
            said = "go on" if done else "were not stopped"
            self.stdout.write(f"Runs of {workspace} {said}.")
        else:
            done = control.halt(pk, by=None)
            said = (
                "stop after their step, and none starts, until --lift"
                if done
                else "are stopped already"
            )
            self.stdout.write(f"All runs of {workspace} {said}.")
