"""What differs between the agent that took a step and the one that would run a fork.

A fork is run by the agent's code as it is now. Where that has the same keyed digest as
the version that took the step, nothing is asked and nothing opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.urls import reverse

from agents.models import AgentVersion
from agents.pages.damage import open_each
from agents.pages.registered.versions import by_name, difference
from agents.pages.thread.diff import DiffView
from agents.pages.thread.steps import Step
from agents.pages.thread.subject import Subject, newest_run
from agents.tools import Agent, registry
from agents.tools.versions import digest_of
from checkpoints.errors import FutureSchema, MigrationFailed, MissingMigration
from checkpoints.pure.codec import State
from checkpoints.pure.schema import version as schema_of

# Of a spec, in the words of the page; `params` and `tools` are told one by one.
WORDS = {
    "name": "another agent",
    "schema_version": "schema version",
    "resume": "what it goes on from",
    "resume_after": "how long a rest is",
    "busy": "messages while it works",
    "limits": "limits",
    "checkpoint": "when it is stored",
    "advance": "the code that says its next step",
}
PARAMS = {"system": "system prompt"}  # else their own names


@dataclass(frozen=True)
class ToolChange:
    """A tool that one of the two has alone, or both have and not alike."""

    name: str
    word: str  # "added", "removed", "changed"
    effect: str  # as it is now; of one that was removed, as it was
    was_effect: str = ""  # where that changed
    parts: tuple[str, ...] = ()  # what else of it differs, by the keys of its spec


@dataclass(frozen=True)
class Upgrade:
    """How the step's state becomes what the agent reads, as the fork's run begins."""

    was: int
    now: int
    migrations: tuple[tuple[int, str], ...]  # the version it starts from, its function
    problem: str = ""  # why the run would fail there


@dataclass(frozen=True)
class OtherVersion:
    """What the page says before a fork is made."""

    was: str  # trip-planner v1
    now: str
    words: tuple[str, ...] = ()  # what differs, for the line
    upgrade: Upgrade | None = None
    tools: tuple[ToolChange, ...] = ()
    diff: DiffView | None = None  # None: what took the step does not open
    page: str = ""  # of the two on the agent's page; "" where that cannot show them
    keeps: bool = False  # prompt, model or parameters differ: the fork keeps its own
    same: bool = field(default=False, kw_only=True)  # only the state is older


def other_version(subject: Subject, at: Step, state: State) -> OtherVersion | None:
    """None: nothing differs, or nobody can say who would run it.

    One statement, and the opening of one record, where something does.
    """
    last = newest_run(subject.runs)
    name = last.agent_version.agent.name if last else ""
    if name not in registry:
        return None
    agent = registry.agent(name)
    upgrade = _upgrade(agent, state)
    took = _took(subject, at)
    digest = digest_of(subject.thread.workspace_id, agent)
    known = {run.agent_version_id: run.agent_version for run in subject.runs}
    if took is None or (took in known and bytes(known[took].digest) == digest):
        if upgrade is None:
            return None
        return OtherVersion(name, name, ("schema version",), upgrade, same=True)
    return _differs(subject, took, agent, digest, upgrade)


def _differs(
    subject: Subject, took: UUID, agent: Agent, digest: bytes, upgrade: Upgrade | None
) -> OtherVersion | None:
    """`took` is the version that took the step, `digest` that of the agent as it is."""
    found = {
        bytes(version.digest): version
        for version in AgentVersion.objects.for_user(subject.principal)
        .filter(Q(pk=took) | Q(agent__name=agent.name, digest=digest))
        .select_related("agent")
    }
    now = found.pop(digest, None)
    if not found:  # the very same, or a row that is no longer there
        return None
    [was] = found.values()
    assert subject.opened is not None  # `fork` sends away who may not read
    [spec] = open_each(subject.opened, [was], "spec")
    names = str(was), str(now) if now else f"{agent.name} as it is now"
    if spec is None:
        return OtherVersion(*names, upgrade=upgrade)
    old, new = by_name(spec), by_name(agent.spec())
    tools = tuple(_tools(_part(old, "tools"), _part(new, "tools")))
    own = _differing(_part(old, "params"), _part(new, "params"))
    words = [WORDS[key] for key in WORDS if old.get(key) != new.get(key)]
    words += [PARAMS.get(key, key) for key in own]
    if tools:
        words.append(f"{len(tools)} tool{'' if len(tools) == 1 else 's'}")
    page = ""
    if now is not None and now.agent_id == was.agent_id:
        page = reverse("agents:agent_versions", args=[agent.name])
        page += f"?at={now.number}&base={was.number}"
    return OtherVersion(
        *names,
        words=tuple(words),
        upgrade=upgrade,
        tools=tools,
        diff=difference(old, new),
        page=page,
        keeps=bool(own),
    )


def _took(subject: Subject, at: Step) -> UUID | None:
    """The version that took the step; of one that a person took, which worked there last,
    else first. None: none did."""
    assert subject.history is not None  # `fork` sends away who may not read
    near = subject.near
    before = [step for step in near if step <= at.step]
    after = [step for step in near if step > at.step]
    for step in (*reversed(before), *after):
        if version := subject.history.record(step).agent_version:
            return version
    run = newest_run(subject.runs, at.branch_id) or newest_run(subject.runs)
    return run.agent_version_id if run else None


def _upgrade(agent: Agent, state: State) -> Upgrade | None:
    """None: the state is as the agent's code has it."""
    was, now = schema_of(state), agent.schema_version
    if was == now:
        return None
    known = agent.migrations.versions
    problem = ""
    try:
        agent.current(state)
    except (FutureSchema, MissingMigration, MigrationFailed) as error:
        problem = str(error)
    return Upgrade(
        was,
        now,
        tuple(
            (step, getattr(agent.migrations.get(step), "__name__", ""))
            for step in range(was, now)
            if step in known
        ),
        problem,
    )


def _tools(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[ToolChange]:
    """Added, removed, changed: each as its agent declares them."""
    for name in new:
        if name not in old:
            yield ToolChange(name, "added", new[name]["effect"])
    for name in old:
        if name not in new:
            yield ToolChange(name, "removed", old[name]["effect"])
        elif parts := _differing(old[name], new[name]):
            was, now = old[name]["effect"], new[name]["effect"]
            yield ToolChange(
                name,
                "changed",
                now,
                was if was != now else "",
                tuple(part.replace("_", " ") for part in parts if part != "effect"),
            )


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [key for key in {**old, **new} if old.get(key) != new.get(key)]


def _part(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What a version says under the name; nothing of one that says nothing."""
    found = spec.get(name)
    return found if isinstance(found, Mapping) else {}
