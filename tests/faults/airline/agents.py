"""The airline of the recorded conversations: tools that give what was recorded.

Those that change a booking tell the external ledger, and ask a person first.
"""

from __future__ import annotations

import inspect
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from agents.tools import Agent, IdempotencyKey, Rule, Tool, never, register, tool
from checkpoints.pure.codec import canonical
from tests.workers.desk.ledger import post

PARAMETERS: dict[str, dict[str, Any]] = {
    "get_user_details": {"user_id": str},
    "get_reservation_details": {"reservation_id": str},
    "search_direct_flight": {"origin": str, "destination": str, "date": str},
    "search_onestop_flight": {"origin": str, "destination": str, "date": str},
    "list_all_airports": {},
    "calculate": {"expression": str},
    "think": {"thought": str},
    "transfer_to_human_agents": {"summary": str},
    "book_reservation": {
        "user_id": str,
        "origin": str,
        "destination": str,
        "flight_type": str,
        "cabin": str,
        "flights": list[dict[str, Any]],
        "passengers": list[dict[str, Any]],
        "payment_methods": list[dict[str, Any]],
        "total_baggages": int,
        "nonfree_baggages": int,
        "insurance": str,
    },
    "update_reservation_flights": {
        "reservation_id": str,
        "cabin": str,
        "flights": list[dict[str, Any]],
        "payment_id": str,
    },
    "update_reservation_baggages": {
        "reservation_id": str,
        "total_baggages": int,
        "nonfree_baggages": int,
        "payment_id": str,
    },
    "cancel_reservation": {"reservation_id": str},
    "send_certificate": {"user_id": str, "amount": int},
}
CHANGES = {
    "book_reservation",
    "update_reservation_flights",
    "update_reservation_baggages",
    "cancel_reservation",
    "send_certificate",
}


@cache
def _recorded() -> dict[tuple[str, bytes], str]:
    """What each call gave, by its name and arguments. None gave two things."""
    found = {}
    for path in Path(os.environ["AIRLINE_RECORDINGS"]).glob("*.json"):
        messages = json.loads(path.read_text())["messages"]
        for at, message in enumerate(messages[:-1]):
            for call in message.get("tool_calls") or []:
                made = call["function"]
                arguments = canonical(json.loads(made["arguments"]))
                found[made["name"], arguments] = messages[at + 1]["content"]
    return found


def _tool(name: str, parameters: dict[str, Any]) -> Tool:
    changes = name in CHANGES

    def act(**given: Any) -> str:
        key = given.pop("key", "")
        if changes:
            post("airline", key, {"tool": name, "arguments": given})
        return _recorded()[name, canonical(given)]

    hints = {**parameters, **({"key": IdempotencyKey} if changes else {})}
    named = inspect.Parameter.KEYWORD_ONLY
    act.__name__ = name
    act.__doc__ = f"{name.replace('_', ' ').capitalize()}."
    act.__annotations__ = {**hints, "return": str}
    act.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # inspect reads it
        [inspect.Parameter(each, named, annotation=hints[each]) for each in hints]
    )
    if changes:
        declare = tool(effect="external", idempotent=True, approve=Rule("a change"))
    else:
        declare = tool(effect="read", approve=never)
    return declare(act)


airline = register(
    Agent(
        "recorded-airline",
        model="scripted",
        system="You are an airline's agent.",
        tools=[_tool(name, parameters) for name, parameters in PARAMETERS.items()],
    )
)
