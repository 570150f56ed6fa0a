"""The agents that this process knows, by name: what installed apps registered."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings

from agents.errors import BadDeclaration, UnknownAgent
from agents.tools.agent import Agent
from agents.tools.declared import Tool


class Registry:
    """Filled once, at start, from each installed app's `agents.py`."""

    def __init__(self) -> None:
        self._agents: dict[str, Agent] = {}

    def register(self, agent: Agent) -> Agent:
        known = self._agents.get(agent.name)
        if known is not None and known is not agent:
            raise BadDeclaration(f"Two agents are called {agent.name!r}.")
        if agent.queue not in settings.QUEUES:
            raise BadDeclaration(
                f"Agent {agent.name!r}: its queue {agent.queue!r} is not in QUEUES, which"
                f" has {', '.join(settings.QUEUES)}. Without it no worker could take its"
                " runs."
            )
        if (path := self._circle(agent)) is not None:
            raise BadDeclaration(
                f"Agent {agent.name!r}: it would wait for itself: {' → '.join(path)}."
            )
        self._agents[agent.name] = agent
        return agent

    def _circle(self, agent: Agent) -> list[str] | None:
        """How the agent comes to be its own sub-agent, by those that are known so far."""
        known = {**self._agents, agent.name: agent}
        met: set[str] = set()
        open_ = [[agent.name]]
        while open_:
            path = open_.pop()
            there = known.get(path[-1])
            for to in (tool.delegates for tool in there.tools) if there else ():
                if to == agent.name:
                    return [*path, to]
                if to and to not in met:
                    met.add(to)
                    open_.append([*path, to])
        return None

    def agent(self, name: str) -> Agent:
        """Raises UnknownAgent."""
        try:
            return self._agents[name]
        except KeyError:
            raise UnknownAgent(name, sorted(self._agents)) from None

    def tool(self, agent: Agent | str, name: str) -> Tool:
        """Raises UnknownAgent, UnknownTool."""
        return (self.agent(agent) if isinstance(agent, str) else agent).tool(name)

    def __iter__(self) -> Iterator[Agent]:
        return iter(sorted(self._agents.values(), key=lambda agent: agent.name))

    def as_registered(self) -> tuple[Agent, ...]:
        """In the order of their declarations: who writes them says which one is first."""
        return tuple(self._agents.values())

    def __contains__(self, name: str) -> bool:
        return name in self._agents


registry = Registry()


def register(agent: Agent) -> Agent:
    """Offer an agent to every workspace."""
    return registry.register(agent)
