from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.debug.replay import Outcome
from agents.debug.replay import replay as replayed
from agents.errors import BadFile, UnknownAgent
from agents.pure.bundles import file, testcase
from agents.pure.visible import flat
from agents.tools import registry

BAD_FILE = 2  # the exit code where there is nothing to compare


class Command(BaseCommand):
    help = (
        "Do a test case (docs/bundles.md) again with the code and prompts as they are"
        " now. It touches nothing outside and asks no database. Ends with 0 where every"
        " step is as it was, 1 where one is not, 2 where the file is none."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--json", action="store_true", help="the outcome as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        try:
            found = file.read(self._read(path), format=file.TEST_CASE)
            case = testcase.parse(found.content)
            agent = registry.agent(case.agent)
        except (BadFile, UnknownAgent) as problem:
            said = f"{path}: {flat(str(problem))}"
            raise CommandError(said, returncode=BAD_FILE) from None
        outcome = replayed(case, agent)
        if options["json"]:
            self.stdout.write(json.dumps(_as_json(outcome)))
        else:
            for line in _lines(path, outcome):
                self.stdout.write(line)
        if outcome.divergence is not None:
            raise SystemExit(1)

    def _read(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as problem:
            raise BadFile("It", f"cannot be read ({problem.strerror}).") from problem


def _as_json(outcome: Outcome) -> dict[str, Any]:
    found = outcome.divergence
    return {
        "agreed": found is None,
        "steps": outcome.steps,
        "divergence": None if found is None else vars(found),
        "notes": outcome.notes,
    }


def _lines(path: Path, outcome: Outcome) -> list[str]:
    """For a terminal: what the file says may hold what steers one."""
    lines = [flat(line) for note in outcome.notes for line in note.split("\n")]
    found = outcome.divergence
    if found is None:
        return [*lines, f"{path}: agreed, {outcome.steps} steps."]
    said = [
        f"{path}: step {found.step} is another one, after {outcome.steps} that agreed.",
        f"  expected: {found.expected}",
        f"  came: {found.came}",
        *(f"  {line}" for line in found.diff),
    ]
    return [*lines, *map(flat, said)]
