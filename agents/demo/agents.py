"""The demo's agents, found at start because `agents.demo` is an installed app."""

from __future__ import annotations

from django.conf import settings

from agents.demo.invoices import INVOICES
from agents.demo.travel import TOOLS
from agents.tools import FILES, Agent, Limits, Window, register

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

AUDIT = """\
You check the airlines' invoices against Northwind's books, every one of them.
Remember each that differs by more than is tolerated, and keep your plan up to date.
Close with the control number of the books."""

# A thousand steps. Sent whole each time, its conversation would cost about a million.
invoice_auditor = register(
    Agent(
        "invoice-auditor",
        title="Invoice auditor",
        description="Reads a year's invoices, one by one, in about a thousand steps.",
        model=settings.HOLDPOINT_MODEL,
        system=AUDIT,
        tools=INVOICES,
        temperature=0,
        seed=7,
        limits=Limits(max_tokens=400_000),
        window=Window(last=11, every=60, after=60, tokens=4_000, summary=False),
        search_fields={"control": "/facts/books/control"},
    )
)
