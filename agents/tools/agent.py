"""Agents, as code declares them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, get_args

from agents.errors import BadDeclaration, UnknownTool
from agents.pure import searched
from agents.pure.context import Window
from agents.pure.own import Next
from agents.pure.queues import PRIORITIES, QUEUE, Priority, is_name
from agents.tools.declared import Tool, source_version
from agents.tools.limits import DEFAULT, Limits
from agents.tools.turn import Turn
from checkpoints.pure.codec import State
from checkpoints.pure.pointer import is_path
from checkpoints.pure.schema import (
    MAX_VERSION,
    NONE,
    SCHEMA_VERSION,
    Migrations,
    migrate,
)

Busy = Literal["enqueue", "reject", "interrupt"]
Checkpoints = Literal["step", "exit"]
Resume = Literal["factual", "as_is"]


@dataclass(frozen=True)
class Agent:
    """An agent that code offers: prompt, model, parameters and tools."""

    name: str
    model: str = ""  # needed, unless it brings an `advance` that asks none
    system: str = field(default="", repr=False)
    tools: Sequence[Tool] = ()
    temperature: float | None = 0
    top_p: float | None = None
    seed: int | None = None
    title: str = ""
    description: str = ""
    schema_version: int = SCHEMA_VERSION  # of the state that its code reads and writes
    migrations: Migrations = NONE  # how older state comes to be of that version
    busy: Busy = "enqueue"  # what a message does to a run that is not over
    limits: Limits = DEFAULT  # what one run of it may use
    queue: str = QUEUE  # whose workers take its runs: one of the setting QUEUES
    priority: Priority = "normal"  # of its runs, where nobody says another
    checkpoint: Checkpoints = "step"  # or one when the run is let go: "exit"
    # What it goes on from after a long rest, or as another version; how long that is.
    resume: Resume = "factual"
    resume_after: timedelta = timedelta(hours=1)
    window: Window | None = None  # how much of a long conversation it is sent
    # What its threads are found by: names, and paths of the state. No part of its spec:
    # it does the same with them.
    search_fields: Mapping[str, str] = field(default_factory=dict, hash=False)
    # What says its next step, in place of the chat loop (own.py).
    advance: Callable[[Turn], Next] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,59}", self.name):
            raise BadDeclaration(
                f"Agent {self.name!r}: a name is up to 60 small letters, digits and -."
            )
        if self.advance is not None:
            self._check_advance(self.advance)
        elif not self.model:
            raise BadDeclaration(
                f"Agent {self.name!r} has neither a model nor an advance of its own."
            )
        names = [tool.name for tool in self.tools]
        if twice := {name for name in names if names.count(name) > 1}:
            raise BadDeclaration(f"Agent {self.name!r} has two tools {sorted(twice)}.")
        if self.busy not in get_args(Busy):
            raise BadDeclaration(
                f"Agent {self.name!r}: busy={self.busy!r} is none of "
                f"{', '.join(get_args(Busy))}."
            )
        if self.checkpoint not in get_args(Checkpoints):
            raise BadDeclaration(
                f"Agent {self.name!r}: checkpoint={self.checkpoint!r} is none of "
                f"{', '.join(get_args(Checkpoints))}."
            )
        lasting = [t.name for t in self.tools if t.has_effects or t.rule is not None]
        if self.checkpoint == "exit" and lasting:
            raise BadDeclaration(
                f"Agent {self.name!r}: with checkpoint='exit' a run that stops starts "
                "over, so its tools may have no effects and ask nobody; these do: "
                f"{', '.join(lasting)}."
            )
        if self.resume not in get_args(Resume):
            raise BadDeclaration(
                f"Agent {self.name!r}: resume={self.resume!r} is none of "
                f"{', '.join(get_args(Resume))}."
            )
        if self.resume_after <= timedelta(0):
            raise BadDeclaration(
                f"Agent {self.name!r}: resume_after={self.resume_after!r} is no length "
                "of time."
            )
        if not is_name(self.queue):
            raise BadDeclaration(
                f"Agent {self.name!r}: queue={self.queue!r} is not up to 60 small letters,"
                " digits and -."
            )
        if self.priority not in PRIORITIES:
            raise BadDeclaration(
                f"Agent {self.name!r}: priority={self.priority!r} is none of "
                f"{', '.join(PRIORITIES)}."
            )
        self._check_search_fields()
        if not 1 <= self.schema_version <= MAX_VERSION:
            raise BadDeclaration(
                f"Agent {self.name!r}: schema version {self.schema_version} is not "
                f"from 1 to {MAX_VERSION}."
            )
        known = self.migrations.versions
        # The oldest may be given up; in between there is no gap.
        if known and known != list(range(known[0], self.schema_version)):
            raise BadDeclaration(
                f"Agent {self.name!r} has schema version {self.schema_version} and "
                f"migrations from {known}: one from each up to "
                f"{self.schema_version - 1} is needed, and none from later ones."
            )

    def _check_advance(self, advance: Callable[[Turn], Next]) -> None:
        if not inspect.isfunction(advance):
            raise BadDeclaration(
                f"Agent {self.name!r}: advance is a {type(advance).__name__}, not a"
                " function of a Turn."
            )
        try:
            inspect.signature(advance).bind(None)
        except TypeError as wrong:
            raise BadDeclaration(
                f"Agent {self.name!r}: advance is called with a Turn alone: {wrong}."
            ) from None

    def _check_search_fields(self) -> None:
        if len(self.search_fields) > searched.MOST:
            raise BadDeclaration(
                f"Agent {self.name!r} has {len(self.search_fields)} search fields; it may"
                f" have {searched.MOST}."
            )
        for name, path in self.search_fields.items():
            if not searched.is_name(name):
                raise BadDeclaration(
                    f"Agent {self.name!r}: search field {name!r} is not up to 40 small"
                    " letters, digits and _, beginning with a letter."
                )
            if not is_path(path):
                raise BadDeclaration(
                    f"Agent {self.name!r}: search field {name!r} is at {path!r}, which is"
                    " no path of a state, such as '/vars/order'."
                )

    def tool(self, name: str) -> Tool:
        """Raises UnknownTool."""
        for tool in self.tools:
            if tool.name == name:
                return tool
        raise UnknownTool(name, [tool.name for tool in self.tools])

    @property
    def schemas(self) -> list[dict[str, Any]]:
        return [tool.offered for tool in self.tools]

    @property
    def advances_by(self) -> str:
        """The name of its own `advance`; empty: the chat loop."""
        own = self.advance
        return "" if own is None else f"{own.__module__}.{own.__qualname__}"

    def current(self, state: State) -> State:
        """The state as this agent has it now; the same object where it is that already.

        Raises FutureSchema, MissingMigration and MigrationFailed.
        """
        return migrate(state, to=self.schema_version, migrations=self.migrations)

    def params(self) -> dict[str, Any]:
        """The `params` channel that a run of it starts with."""
        return {
            "system": self.system,
            "model": self.model,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
        }

    def spec(self) -> dict[str, Any]:
        """All that makes it this version of the agent."""
        return {
            "name": self.name,
            "params": self.params(),
            "tools": [tool.spec() for tool in self.tools],
            "schema_version": self.schema_version,
            "busy": self.busy,
            "limits": self.limits.spec(),
            **self._said_of_late(),
        }

    def _said_of_late(self) -> dict[str, Any]:
        """What of it could be declared later: what says nothing stays the same version."""
        declared: dict[str, Any] = {}
        if self.checkpoint != Agent.checkpoint:
            declared["checkpoint"] = self.checkpoint
        if self.resume != Agent.resume:
            declared["resume"] = self.resume
        if self.resume_after != Agent.resume_after:
            declared["resume_after"] = self.resume_after.total_seconds()
        if self.window is not None:
            declared["window"] = self.window.spec()
        if self.advance is not None:
            declared["advance"] = source_version(self.advance, {}, with_helpers=True)
        return declared
