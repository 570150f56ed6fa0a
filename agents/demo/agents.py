"""The demo's agents, found at start because `agents.demo` is an installed app."""

from __future__ import annotations

from django.conf import settings

from agents.demo.travel import TOOLS
from agents.tools import FILES, Agent, register

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

HANDBOOKS = """\
You keep Northwind's handbooks for travellers, as Markdown files that are yours alone.
Look at what is there before you change it, and change as little as the work needs.
One page for one subject; index.md leads to every page."""

handbook_editor = register(
    Agent(
        "handbook-editor",
        title="Handbook editor",
        description="Writes and keeps handbooks, as files.",
        model=settings.HOLDPOINT_MODEL,
        system=HANDBOOKS,
        tools=FILES,
        temperature=0,
        seed=7,
    )
)
