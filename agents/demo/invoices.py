"""The invoice auditor's tools: they open the books, and read one invoice at a time.

An invoice is a small thing to read, and there are hundreds: the agent takes about a
thousand steps, and what it found in the third it needs in the last.
"""

from __future__ import annotations

from typing import Any

from agents.demo.world import invoices
from agents.tools import WORKING_MEMORY, ToolContext, ToolError, tool


@tool(effect="read", title="Open the books of {year}")
def open_books(year: int, *, ctx: ToolContext) -> dict[str, Any]:
    """How many invoices there are, by how much one may differ, and the control number
    that a report has to name. Needed once."""
    if year != invoices.FIRST_DAY.year:
        raise ToolError(f"There are books of {invoices.FIRST_DAY.year} only.")
    books = {
        "year": year,
        "invoices": invoices.COUNT,
        "quarters": invoices.QUARTERS,
        "tolerance": f"{invoices.TOLERANCE}",
        "control": invoices.CONTROL,
    }
    ctx.put("facts", "books", books)
    return books


@tool(effect="read", title="Read {number}")
def read_invoice(number: str) -> dict[str, Any]:
    """An invoice, by its number (INV-0001 and so on): what the airline billed, and what
    our books say."""
    found = invoices.find(number)
    if found is None:
        raise ToolError(f"There is no invoice {number!r}.")
    return {
        "invoice": found.number,
        "airline": found.airline,
        "date": found.day.isoformat(),
        "billed": f"{found.billed:.2f}",
        "booked": f"{found.booked:.2f}",
    }


# Of working memory what it needs: each tool that is offered is paid for in every call.
_KEPT = ("update_plan", "remember_fact")

INVOICES = (
    open_books,
    read_invoice,
    *(each for each in WORKING_MEMORY if each.name in _KEPT),
)
