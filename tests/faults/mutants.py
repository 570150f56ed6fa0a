"""Copies of this tree with one protection taken out, for workers and people to run.

A suite that such a copy passes does not look where it should.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.workers.conftest import ROOT

# The desk has agents of the docs, too.
PARTS = ("agents", "checkpoints", "docs", "project", "templates", "tests")


@dataclass(frozen=True)
class Change:
    """`was` becomes `becomes`, `times` times, in one file."""

    path: str
    was: str
    becomes: str
    times: int = 1


@dataclass(frozen=True)
class Mutant:
    breaks: str
    changes: tuple[Change, ...]

    def grow(self, folder: Path) -> Path:
        """The root of the copy."""
        ignored = shutil.ignore_patterns("__pycache__", "golden", "browser", "pages")
        shutil.copy(ROOT / "manage.py", folder)
        for part in PARTS:
            ignore = ignored if part == "tests" else None
            shutil.copytree(ROOT / part, folder / part, ignore=ignore)
        for change in self.changes:
            file = folder / change.path
            text = file.read_text()
            found = text.count(change.was)
            assert found == change.times, f"{change} is not for {found} times"
            file.write_text(text.replace(change.was, change.becomes))
        return folder


FENCE = Mutant(
    "the fence",
    (Change("checkpoints/log/append.py", "      AND fence = %(fence)s\n", ""),),
)
CLAIM = Mutant(
    "the claim's compare-and-set",
    (
        Change(
            "agents/runs/claim.py",
            "status IN ('ready', 'running')",
            "status IS NOT NULL",
        ),
    ),
)
_LOCKED = "agents/approvals/lock.py"
_LOCK = "FOR NO KEY UPDATE OF branch, run, asked"
# What is missing shows when two meet, so each takes its time.
_SLOWLY = "import time\n{0}time.sleep(1.5)\n{0}"
ORDER = Mutant(
    "the order of the locks",
    (
        Change(
            _LOCKED,
            "    found = _LOCK.execute(",
            "    own = Approval.objects.for_user(by).select_for_update(of=('self',))\n"
            f"    own.get(pk=approval.pk)\n    {_SLOWLY.format('    ')}"
            "found = _LOCK.execute(",
        ),
    ),
)
_WAKE = "    woken = _WAKE.row("
LOCKS = Mutant(
    "the locks of a decision",
    (
        Change(_LOCKED, _LOCK, "FOR NO KEY UPDATE OF asked", times=2),
        Change(
            "agents/wake.py",
            'Run.objects.select_for_update(no_key=True, of=("self",))',
            "Run.objects.all()",
        ),
        Change(
            "agents/wake.py", _WAKE, f"    {_SLOWLY.format('    ')}{_WAKE.lstrip(' ')}"
        ),
    ),
)

_EFFECTS = "agents/runs/effects.py"
INTENT = Mutant(
    "the intent before the effect",
    (Change(_EFFECTS, "            self._ledger.intend(row)\n", ""),),
)
RECHECK = Mutant(
    "the look at what was approved, just before it is done",
    (
        Change(
            _EFFECTS, "return self._verified(row, tool, call, title)", "return RunIt()"
        ),
    ),
)
FROZEN = Mutant(  # whoever is not heard of is believed to be dead
    "the doubt of a call whose worker may be alive",
    (Change("agents/runs/ledger.py", "if row.worker:", "if not row.status:"),),
)
HANGING = Mutant(  # the mark is believed, which a dead worker did not leave
    "the doubt of a call whose time was over",
    (
        Change(
            _EFFECTS,
            "found is None and at_work:",
            "found is None and row.error_class:",
        ),
    ),
)
