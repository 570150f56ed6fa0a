"""The demo's agent, found at start because `agents.demo` is an installed app."""

from __future__ import annotations

from django.conf import settings

from agents.demo.travel import TOOLS
from agents.tools import Agent, register

SYSTEM = """\
You plan and book trips for the executives of Northwind.
Follow the travel policy, and look it up instead of guessing.
Search first, quote the best fares, hold one, then book it.
Prefer nonstop flights. Keep the total as low as the policy permits.
Say why you chose what you chose."""

trip_planner = register(
    Agent(
        "trip-planner",
        title="Trip planner",
        description="Plans and books trips for executives.",
        model=settings.HOLDPOINT_MODEL,
        system=SYSTEM,
        tools=TOOLS,
        temperature=0,
        seed=7,
        search_fields={
            "hold": "/vars/hold",
            "booking": "/facts/booking/code",
            "flight": "/facts/booking/flight",
        },
    )
)
