"""A call tried on the rules of a draft, before they are saved. Nothing runs or is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agents.errors import ArgumentsDoNotFit, UnknownAgent, UnknownTool
from agents.models import Agent
from agents.pages.policies.draft import Draft
from agents.pages.policies.scope import Scope
from agents.pages.registered.calls import Answer
from agents.pages.rules import Names, terms
from agents.policies.stored import DRAFT
from agents.policies.test import test_call
from agents.pure.policies import Outcome
from agents.tools import registry
from checkpoints.access import UserPrincipal
from checkpoints.errors import NotJson
from checkpoints.pure.codec import load_strict

NO_CALL = "Choose a tool of an agent."


@dataclass(frozen=True)
class Trial:
    """The box, as typed, and what came of it."""

    choices: tuple[tuple[str, str], ...]  # "agent tool" → words
    call: str = ""
    text: str = "{}"  # the arguments, as JSON
    errors: tuple[str, ...] = ()
    answer: Answer | None = field(default=None, repr=False)

    @property
    def is_tried(self) -> bool:
        return self.answer is not None or bool(self.errors)


def trial_of(scope: Scope, posted: Mapping[str, str]) -> Trial:
    """As it was typed, or empty."""
    agents = [registry.agent(scope.name)] if scope.name in registry else []
    if not scope.name:
        agents = list(registry)
    choices = tuple(
        (
            f"{agent.name} {tool.name}",
            tool.name if scope.name else f"{tool.name}, {agent.name}",
        )
        for agent in agents
        for tool in sorted(agent.tools, key=lambda each: not each.has_effects)
        if not tool.question
    )
    first = choices[0][0] if choices else ""
    return Trial(
        choices, posted.get("try_call", first), posted.get("try_arguments", "{}")
    )


def tried(
    by: UserPrincipal, scope: Scope, draft: Draft, box: Trial, groups: Names
) -> Trial:
    """What the rules of the draft would make of the call; or what is wrong with it.

    Raises InvalidPolicy, NotPermitted.
    """
    name, _, tool = box.call.partition(" ")
    if box.call not in dict(box.choices):
        return replace(box, errors=(NO_CALL,))
    known = Agent.objects.for_user(by).filter(name=name).first()
    agent = known or Agent(name=name, workspace_id=by.workspace_id)
    rules = [dict(rule) for rule in draft.rules]
    try:
        outcome = test_call(
            by, agent, tool, _arguments(box), draft=rules, everyones=not scope.name
        )
    except NotJson as error:
        return replace(box, errors=(f"This is not JSON. {error}",))
    except ArgumentsDoNotFit as error:
        wrong = (f"{path} {text}".strip() for path, text in error.fields.items())
        return replace(box, errors=tuple(wrong))
    except (UnknownAgent, UnknownTool):
        return replace(box, errors=(NO_CALL,))
    return replace(
        box,
        answer=Answer(
            outcome,
            _place(outcome, draft),
            len(draft.rules),
            terms(outcome.terms.as_json(), groups) if outcome.asks else (),
        ),
    )


def _arguments(box: Trial) -> dict[str, Any]:
    value = load_strict(box.text)
    if not isinstance(value, dict):
        raise ArgumentsDoNotFit({"": "Arguments are an object: {…}"})
    return value


def _place(outcome: Outcome, draft: Draft) -> int | None:
    """Of the rule that fired, where it is one of the draft's."""
    fired = outcome.rule
    if fired is None or fired.origin is None or fired.origin.policy != DRAFT:
        return None
    ids = [rule.get("id") for rule in draft.rules]
    return ids.index(fired.id) + 1 if fired.id in ids else None
