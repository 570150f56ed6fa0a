"""State of an older schema version, shown as the agent's code has it now."""

from __future__ import annotations

from dataclasses import dataclass

from agents.tools import Agent
from checkpoints.errors import FutureSchema, MigrationFailed, MissingMigration
from checkpoints.pure.codec import State
from checkpoints.pure.schema import version


@dataclass(frozen=True)
class View:
    """What is shown, and a word about it where that is not what is stored."""

    states: tuple[State, ...]
    note: str = ""


def shown(agent: Agent | None, *stored: State) -> View:
    """These states, brought up to date where the agent's code can; else as stored."""
    if agent is None:
        return View(stored)
    try:
        states = tuple(agent.current(state) for state in stored)
    except (FutureSchema, MissingMigration, MigrationFailed) as problem:
        return View(stored, f"Shown as it is stored. {problem}")
    old = {version(s) for s, new in zip(stored, states, strict=True) if new is not s}
    if not old:
        return View(stored)
    return View(
        states,
        f"Stored as schema version {_listed(old)}; shown as version "
        f"{agent.schema_version}, which is what the agent reads.",
    )


def neighbours(agent: Agent | None, before: State, after: State) -> View:
    """As `shown`; where the step itself changed the version, that is what it did."""
    if not before:  # the first step: there was no state
        view = shown(agent, after)
        return View((before, *view.states), view.note)
    if version(before) != version(after):
        return View((before, after))
    return shown(agent, before, after)


def _listed(versions: set[int]) -> str:
    return " and ".join(map(str, sorted(versions)))
