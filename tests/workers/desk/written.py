"""The agents of docs/agents.md, as its code has them, for worker processes, too.

Their shop's money goes out through the external ledger.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from types import ModuleType
from typing import Any

from agents.tools import registry
from tests.pages_code import run_page
from tests.workers.desk.ledger import post

PAID = {
    "2026-11": [
        ("A-1", "20"),
        ("A-2", "250"),
        ("A-1", "20"),
        ("A-3", "30"),
        ("A-2", "250"),
        ("A-3", "30"),
    ],
    "2026-12": [("A-4", "10")],
}


class Shop(ModuleType):
    """Stands for the reader's own module."""

    def order(self, order: str) -> dict[str, str]:
        return {"order": order, "paid": "20"}

    def payments(self, month: str) -> list[tuple[str, str]]:
        if month not in PAID:
            raise LookupError(f"there are no books of {month}")
        return PAID[month]

    def pay_back(self, order: str, amount: Decimal, *, key: str) -> dict[str, Any]:
        return post("refunds", key, {"order": order, "amount": str(amount)})


sys.modules.setdefault("shop", Shop("shop"))
page = run_page("agents.md")
reconciler = registry.agent("reconciler")
support = registry.agent("support")
