from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from agents.debug.bundles.export import What, export
from agents.debug.testcase import save
from agents.errors import AgentsError
from agents.management import lookups
from checkpoints.errors import CheckpointsError
from checkpoints.models import Branch, Thread


class Command(BaseCommand):
    help = "Write a thread, one branch of it, or one step, into a bundle (docs/bundles.md)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("thread", type=UUID)
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--by", required=True, metavar="USER", help="whose right to read it is"
        )
        parser.add_argument(
            "--branch", type=UUID, help="this branch only; its id, as an address has it"
        )
        parser.add_argument("--step", type=int, help="this step of the branch only")
        parser.add_argument(
            "--mask",
            action="append",
            default=[],
            metavar="PATH",
            help="a path of the state to mask, such as /vars/passport; may be repeated",
        )

        parser.add_argument(
            "--test-case",
            action="store_true",
            help="instead of a bundle, what follows the step, for `replay`",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        thread = lookups.thread(options["thread"])
        by = lookups.member(lookups.person(options["by"]), thread.workspace)
        step = options["step"]
        whole: What = "branch" if options["branch"] else "thread"
        if step is not None:
            whole = "step"
        if options["test_case"] and (step is None or options["mask"]):
            raise CommandError("--test-case needs --step, and its state unmasked.")
        what: str = whole
        try:
            branch = self._branch(thread, options["branch"])
            if options["test_case"]:
                what = "test case"
                text = save(branch, step=step, by=by, via="command")
            else:
                text = export(
                    thread,
                    what=whole,
                    branch=branch,
                    step=step,
                    by=by,
                    masked=options["mask"],
                    via="command",
                )
            with options["file"].open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise CommandError(f"{options['file']} is there already.") from None
        except (AgentsError, CheckpointsError) as problem:
            raise CommandError(f"Nothing was written. {problem}") from None
        except OSError as problem:
            raise CommandError(
                f"{options['file']} cannot be written ({problem.strerror})."
            ) from None
        self.stdout.write(
            f"{options['file']}: the {what}, {len(text.encode()):,} bytes"
        )

    def _branch(self, thread: Thread, wanted: UUID | None) -> Branch:
        branches = thread.branches.order_by("created_at", "pk")
        found = (branches if wanted is None else branches.filter(pk=wanted)).first()
        if found is None:
            raise CommandError(f"{thread} has no branch {wanted}.")
        return found
