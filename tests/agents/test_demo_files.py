"""The demo's handbook: an agent at work on files, and a fork that begins with those of a step."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command

from agents.demo import stories
from agents.demo.model import writer
from checkpoints import gate
from checkpoints.log import hydrate
from checkpoints.models import Branch
from tests.agents.test_seed import main_run, principal

# `seed_demo` is a command of the server's: it makes a workspace and people.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.owner]

ARRIVING = writer.ARRIVING.replace(
    "take the bus to Marquês de Pombal, then walk",
    "take the metro to Marquês de Pombal: 25 minutes, one change",
)
AT_8 = {
    "index.md": writer.INDEX,
    "arriving.md": ARRIVING,
    "drafts/costs.md": writer.COSTS.format(**writer.PRICES["$"]),
}


def lines() -> dict[str, hydrate.History]:
    """The branches of the seeded handbook by name, opened."""
    mira = principal("mira")
    run = main_run(stories.HANDBOOK)
    opener = gate.admit(mira, purpose="test", threads=[run.thread])
    branches = list(Branch.objects.for_user(mira).filter(thread=run.thread))
    names = opener.open_all(branches, "name")
    return {
        name: hydrate.read(opener, branch)
        for name, branch in zip(names, branches, strict=True)
    }


def files(history: hydrate.History, step: int) -> dict[str, Any]:
    found: dict[str, Any] = history.state_at(step).get("files", {})
    return found


def test_its_fork_has_the_files_of_step_8_exactly_and_then_its_own():
    call_command("seed_demo")
    found = lines()
    main, fork = found["main"], found["euros"]
    assert len(main.records) == 16  # the message, and 15 steps
    assert "".join(record.kind[0] for record in main.records) == "i" + "mt" * 7 + "m"
    changes = [n for n in range(1, 16) if files(main, n) != files(main, n - 1)]
    assert changes == [2, 4, 6, 8, 10, 12, 14]

    assert stories.FILES_AT == 8
    assert files(main, 8) == files(fork, 8) == files(fork, 9) == AT_8
    assert fork.record(9).kind == "edit"

    assert {record.status for record in fork.records} == {"ok"}
    last, other = files(main, 15), files(fork, len(fork.records) - 1)
    assert set(last) == set(other) == {"index.md", "arriving.md", "costs.md"}
    assert last["arriving.md"] == other["arriving.md"]
    assert "$210" in last["costs.md"]
    assert "€" not in "".join(last.values())
    assert "€195" in other["costs.md"]
    assert "$" not in "".join(other.values())
