"""The "test a call" box: which rule would fire for these arguments, and why.

Nothing runs, and nothing is kept: arguments come in the body of a POST, and go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.approvals.fields import Field, describe, elsewhere
from agents.approvals.typed import parse
from agents.errors import ArgumentsDoNotFit, InvalidDecision
from agents.models import Agent, Policy
from agents.pages.registered.find import Row
from agents.pages.registered.tools import in_order
from agents.pages.rules import OUTCOMES, Names, terms
from agents.policies.test import test_call
from agents.pure.policies import Outcome
from agents.tools.declared import Tool
from checkpoints.access import UserPrincipal
from checkpoints.errors import NotJson
from checkpoints.pure.codec import load_strict


@dataclass(frozen=True)
class Answer:
    """What would become of the call."""

    outcome: Outcome
    place: int | None  # of the rule, among those of policies
    of: int
    terms: tuple[str, ...]

    @property
    def look(self) -> tuple[str, str, str]:
        """Colour, icon, words."""
        colour, icon, word = OUTCOMES[self.outcome.kind]
        words = {
            "runs": "would run",
            "asks": "would ask",
            "refused": "would be refused",
        }
        if self.outcome.kind == "require":
            people = self.outcome.terms.approvers
            return (
                colour,
                icon,
                f"would ask {people} {'people' if people > 1 else 'person'}",
            )
        return colour, icon, words.get(word, f"would be: {word}")


@dataclass(frozen=True)
class TestBox:
    """The form, and what came of it."""

    tool: Tool
    tools: tuple[str, ...]
    as_json: bool = False
    text: str = "{}"  # the arguments as JSON
    fields: tuple[Field, ...] = ()
    errors: list[str] = field(default_factory=list)
    answer: Answer | None = None

    @property
    def shown(self) -> list[tuple[Field, None]]:
        """Fields as `inbox/_field.html` takes them; nothing was there before."""
        return [(one, None) for one in self.fields]


def box(row: Row, query: Mapping[str, str]) -> TestBox | None:
    """The form for the tool that the address names; None where there are no tools."""
    tools = {tool.name: tool for tool in row.tools}
    if not tools:
        return None
    first = next((tool for tool in row.tools if tool.has_effects), row.tools[0])
    tool = tools.get(query.get("tool", ""), first)
    return TestBox(
        tool,
        tuple(tools),
        as_json=query.get("as") == "json",
        text=query.get("json", "{}"),
        fields=tuple(describe(tool.schema, {})),
    )


def tested(
    by: UserPrincipal,
    row: Row,
    post: Mapping[str, str],
    policies: Iterable[Policy],
    groups: Names,
) -> TestBox | None:
    """What would become of the call that was posted; or what is wrong with it."""
    found = box(row, post)
    if found is None:
        return None
    tool = found.tool
    # Where it never ran here, the workspace's rules count alone.
    agent = row.known or Agent(name=row.name, workspace_id=by.workspace_id)
    try:
        outcome = test_call(by, agent, tool.name, _arguments(found, post))
    except NotJson as error:
        return _wrong(found, post, {"": f"This is not JSON. {error}"})
    except (InvalidDecision, ArgumentsDoNotFit) as error:
        return _wrong(found, post, dict(error.fields))
    ordered = [(policy.pk, rule.id) for policy, rule in in_order(policies, groups)]
    fired = outcome.rule
    key = (fired.origin.policy, fired.id) if fired and fired.origin else None
    return TestBox(
        tool,
        found.tools,
        as_json=found.as_json,
        text=found.text,
        fields=tuple(describe(tool.schema, {}, posted=post)),
        answer=Answer(
            outcome,
            ordered.index(key) + 1 if key in ordered else None,
            len(ordered),
            terms(outcome.terms.as_json(), groups) if outcome.asks else (),
        ),
    )


def _arguments(found: TestBox, post: Mapping[str, str]) -> dict[str, Any]:
    """Raises NotJson, InvalidDecision, ArgumentsDoNotFit."""
    if not found.as_json:
        return parse(found.tool.schema, post, {})
    value = load_strict(found.text)
    if not isinstance(value, dict):
        raise ArgumentsDoNotFit({"": "Arguments are an object: {…}"})
    return value


def _wrong(found: TestBox, post: Mapping[str, str], wrong: dict[str, str]) -> TestBox:
    fields = describe(found.tool.schema, {}, posted=post, problems=wrong)
    if found.as_json:
        errors = [f"{path} {text}".strip() for path, text in wrong.items()]
    else:
        errors = elsewhere(wrong, fields)
    return TestBox(
        found.tool,
        found.tools,
        as_json=found.as_json,
        text=found.text,
        fields=tuple(fields),
        errors=errors or ["See the fields."],
    )
