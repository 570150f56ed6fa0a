"""What would become of a call: for a page, before anybody asks for it."""

from __future__ import annotations

from typing import Any

from agents import models
from agents.policies import windows
from agents.policies.judge import proposal
from agents.policies.stored import drafted, in_force
from agents.pure.policies import Outcome, decide
from agents.tools import registry
from checkpoints import gate
from checkpoints.access import UserPrincipal


def test_call(
    by: UserPrincipal,
    agent: models.Agent,
    tool: str,
    arguments: dict[str, Any],
    *,
    draft: list[dict[str, Any]] | None = None,  # noqa: PT028  # no test of pytest's
    everyones: bool = False,  # noqa: PT028
) -> Outcome:
    """What would become of this call now, by the policies in force. Nothing is written
    but that `by` asked.

    `draft`: by these rules in the place of the agent's, or of everyone's. Raises
    UnknownAgent, UnknownTool, ArgumentsDoNotFit, InvalidPolicy, and NotPermitted.
    """
    declared = registry.tool(agent.name, tool)
    kept, _ = declared.validate(arguments)
    rules = in_force(by.workspace_id, agent).rules
    if draft is not None:
        rules = drafted(by, None if everyones else agent, draft, of=agent)
    opener = gate.admit(by, purpose="test a call")
    concerned = [rule for rule in rules if rule.concerns(tool=tool, risk=declared.risk)]
    totals = windows.Totals(by.workspace_id, opener)
    return decide(concerned, proposal(declared, kept), totals)


test_call.__test__ = False  # type: ignore[attr-defined]  # no test of pytest's
