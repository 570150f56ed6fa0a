"""What workers told before they died: which runs they took, which steps they stored.

A line is written when the commit has returned: from then on the step is acknowledged.
Each line is one write(2) to a file that is opened for appending, so a kill loses lines
and tears none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

_LINE = re.compile(
    r"(took a run|stored a step)"
    r" run=(?P<run>\S{36}) branch=(?P<branch>\S{36}) fence=(?P<fence>\d+)"
    r" step=(?P<step>-?\d+) checkpoint=(?P<checkpoint>\S{36})$"
)


@dataclass(frozen=True)
class Told:
    """`step` and `checkpoint` are the branch's head: as taken, or as stored."""

    run: UUID
    branch: UUID
    fence: int
    step: int
    checkpoint: UUID


def read(log: Path) -> tuple[list[Told], list[Told]]:
    """What was taken, and what was stored, in the order in which it was told."""
    taken: list[Told] = []
    stored: list[Told] = []
    for line in log.read_text(errors="replace").splitlines():
        if found := _LINE.search(line):
            (taken if found[1] == "took a run" else stored).append(
                Told(
                    run=UUID(found["run"]),
                    branch=UUID(found["branch"]),
                    fence=int(found["fence"]),
                    step=int(found["step"]),
                    checkpoint=UUID(found["checkpoint"]),
                )
            )
    return taken, stored
