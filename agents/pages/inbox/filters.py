"""What the Inbox's address says: tab, filters, and where the page begins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.http import QueryDict

from agents.models import Approval
from agents.pages.principal import MemberRequest
from checkpoints.access import UserPrincipal

TABS = ("mine", "team", "snoozed", "decided")
AGES = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
}
AGE_WORDS = {
    "": "Any age",
    "hour": "Older than an hour",
    "day": "Older than a day",
    "week": "Older than a week",
}
CLAIMED_WORDS = {
    "": "Claimed or not",
    "me": "Claimed by me",
    "others": "Claimed by others",
    "nobody": "Claimed by nobody",
}
NAMES = ("agent", "tool", "risk", "group", "claimed", "age", "q")
LARGEST = 2**31 - 1  # of a request's number, in PostgreSQL


@dataclass(frozen=True)
class Filters:
    """One tab of the queue, and what it is narrowed to. `after` is a number; 0: none."""

    show: str
    agent: str = ""
    tool: str = ""
    risk: str = ""
    group: UUID | None = None
    claimed: str = ""
    age: str = ""
    text: str = ""
    after: int = 0  # the page begins after this request
    usual: str = ""  # the tab that an address without one has

    @classmethod
    def of(cls, query: QueryDict, principal: UserPrincipal) -> Filters:
        """What is not understood is left out."""
        show = query.get("show", "")
        risk, claimed = query.get("risk", ""), query.get("claimed", "")
        age, usual = query.get("age", ""), usual_tab(principal)
        return cls(
            show=show if show in TABS else usual,
            usual=usual,
            agent=_clean(query.get("agent", "")),
            tool=_clean(query.get("tool", "")),
            risk=risk if risk in Approval.Risk.values else "",
            group=_uuid(query.get("group", "")),
            claimed=claimed if claimed in CLAIMED_WORDS else "",
            age=age if age in AGES else "",
            text=_clean(query.get("q", "")).strip(),
            after=number(query.get("after", "")),
        )

    @property
    def values(self) -> dict[str, str]:
        """As the address has them, without the tab and the page."""
        return {
            "agent": self.agent,
            "tool": self.tool,
            "risk": self.risk,
            "group": str(self.group or ""),
            "claimed": self.claimed,
            "age": self.age,
            "q": self.text,
        }

    @property
    def chosen(self) -> dict[str, str]:
        return {name: value for name, value in self.values.items() if value}

    def address(self, **changes: Any) -> str:
        """The query of this tab with these filters, and others in their place."""
        values = {"show": self.show, **self.values, **changes}
        if values["show"] == self.usual:
            del values["show"]
        query = QueryDict(mutable=True)
        query.update({name: str(value) for name, value in values.items() if value})
        return f"?{query.urlencode()}" if query else ""

    @property
    def cleared(self) -> str:
        """The query of this tab without filters."""
        return self.address(**dict.fromkeys(NAMES, ""))

    @property
    def of_tabs(self) -> dict[str, str]:
        """The query of each tab; the filters stay."""
        return {show: self.address(show=show) for show in TABS}

    @property
    def here(self) -> str:
        """The query of the very page that is shown."""
        return self.address(after=self.after or "")

    @property
    def said(self) -> list[str]:
        """What is filtered by, in words."""
        found = [self.agent, self.tool, self.risk and f"{self.risk} risk"]
        found += ["one group"] if self.group else []
        found += [CLAIMED_WORDS[self.claimed].lower()] if self.claimed else []
        found += [AGE_WORDS[self.age].lower()] if self.age else []
        found += [f"“{self.text}”"] if self.text else []
        return [words for words in found if words]


def usual_tab(principal: UserPrincipal) -> str:
    """Who decides begins with what waits for them; others with what waits."""
    return "mine" if principal.can_approve and principal.may_read else "team"


def filters_of(request: MemberRequest) -> Filters:
    """Of the page that the person looks at: its parts and forms do not repeat its query."""
    if request.method == "GET" and not request.path.startswith("/f/inbox/"):
        return Filters.of(request.GET, request.principal)
    page = str(getattr(request.htmx, "current_url", "") or "")
    page = page or request.headers.get("Referer", "")
    return Filters.of(QueryDict(urlsplit(page).query), request.principal)


def number(text: str) -> int:
    """A request's number from an address; 0 for anything else."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(LARGEST)):
        return 0
    return min(int(text), LARGEST)


def numbers(text: str, *, most: int) -> list[int]:
    """Numbers with dots between them, as a list tells what it shows."""
    found = (number(part) for part in text.split(".")[:most])
    return [one for one in found if one]


def _clean(text: str) -> str:
    return text.replace("\0", "")  # PostgreSQL takes none


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
