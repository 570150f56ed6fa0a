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

_LINE = re.compile(r"(took a run|stored a step)((?: \w+=\S+)+)$")
_IDS = {"run": 36, "branch": 36, "fence": 1, "step": 1, "checkpoint": 36}  # lengths


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
        if (found := _LINE.search(line)) is None:
            continue
        ids = dict(pair.split("=", 1) for pair in found[2].split())
        if any(len(ids.get(name, "")) < length for name, length in _IDS.items()):
            continue  # the line was cut short
        (taken if found[1] == "took a run" else stored).append(
            Told(
                run=UUID(ids["run"]),
                branch=UUID(ids["branch"]),
                fence=int(ids["fence"]),
                step=int(ids["step"]),
                checkpoint=UUID(ids["checkpoint"]),
            )
        )
    return taken, stored
