"""Where on a thread's page somebody is, and the addresses of all that is one click away."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from urllib.parse import urlencode
from uuid import UUID

from django.http import QueryDict
from django.urls import get_script_prefix, reverse

from agents.pages.thread.filter import EVERY, StepFilter

LONGEST = 2_000  # characters of a path
TABS = ("diff", "state", "messages", "context", "effects", "raw", "files")


@dataclass(frozen=True)
class Place:
    """A page's address says everything: branch, checkpoint, tab, and what it is compared to.

    Without a checkpoint the page stands at the branch's tip and follows it. A checkpoint
    alone says its branch as well; `branch` is given when the step belongs to an ancestor
    of the branch that is being looked at.
    """

    thread: UUID
    branch: UUID | None = None
    checkpoint: UUID | None = None
    tab: str = TABS[0]
    base: UUID | None = None
    split: bool = False
    path: str = ""  # a JSON Pointer that is watched
    filter: StepFilter = EVERY  # of the list of steps

    def at(self, checkpoint: UUID, *, own: bool) -> Place:
        """The same page at another step; `own` when the branch took it itself."""
        return replace(self, checkpoint=checkpoint, branch=None if own else self.branch)

    def tip(self, branch: UUID | None) -> Place:
        return replace(self, checkpoint=None, branch=branch)

    def on(self, tab: str) -> Place:
        return replace(self, tab=tab)

    def against(self, base: UUID | None) -> Place:
        return replace(self, base=base, tab="files" if self.tab == "files" else "diff")

    def side_by_side(self, split: bool) -> Place:
        return replace(self, split=split)

    def watching(self, path: str) -> Place:
        return replace(self, path=path)

    def listing(self, filter: StepFilter) -> Place:
        return replace(self, filter=filter)

    def asking(self, **more: str) -> str:
        """The address's query, with more; nothing is left out for being a default."""
        values = QueryDict(self.query.removeprefix("?"), mutable=True)
        for name, value in more.items():
            if value:
                values[name] = value
        return f"?{values.urlencode()}" if values else ""

    @property
    def fields(self) -> dict[str, str]:
        """What the query says by name: a form that leads here hides these in it."""
        values = {}
        if self.branch:
            values["branch"] = str(self.branch)
        if self.tab != TABS[0]:
            values["tab"] = self.tab
        if self.base:
            values["base"] = str(self.base)
        if self.split:
            values["split"] = "1"
        if self.path:
            values["path"] = self.path
        return {**values, **self.filter.chosen}

    @property
    def query(self) -> str:
        values = self.fields
        return f"?{urlencode(values)}" if values else ""

    @property
    def bare(self) -> Place:
        """The same step, with nothing that the query says: where a form is sent to."""
        return Place(self.thread, checkpoint=self.checkpoint)

    @property
    def page(self) -> str:
        """The address for the bar, for links without script, and to send to others."""
        return self._address("agents:thread", "agents:step")

    @property
    def fragment(self) -> str:
        """The same place as the parts of a page that changed."""
        return self._address("agents:thread_parts", "agents:step_parts")

    @property
    def live(self) -> str:
        """Where the page asks whether something happened."""
        return self._address("agents:thread_live", "agents:step_live")

    def showing(self, pane: str) -> str:
        """The page with this pane in sight, where a screen has room for one."""
        return f"{self.page}{'&' if self.query else '?'}pane={pane}"

    def step(self, branch: UUID, step: int | None) -> tuple[str, str]:
        """Page and fragment of a step known by its number: dots of the branch map."""
        place = self.tip(branch)
        if step is None:
            return place.page, place.fragment
        more = f"{'&' if place.query else '?'}step={step}"
        return place.page + more, place.fragment + more

    def _address(self, name: str, name_at: str) -> str:
        if self.checkpoint:
            path = _path(name_at, 2, get_script_prefix())
            path = path.replace(_HERE[1], str(self.checkpoint))
        else:
            path = _path(name, 1, get_script_prefix())
        return path.replace(_HERE[0], str(self.thread)) + self.query


# A page has a thousand addresses of the same few kinds, and `reverse` takes its time.
_HERE = (str(UUID(int=1)), str(UUID(int=2)))


@cache
def _path(name: str, ids: int, prefix: str) -> str:
    """The path with `_HERE` in the place of its ids; `prefix`: what it depends on."""
    return reverse(name, args=_HERE[:ids])


def asked_path(text: str) -> str:
    """The JSON Pointer that somebody means: the slash before it may be left out."""
    text = re.sub(r"~(?![01])", "~0", text[:LONGEST])
    return text if not text or text[0] == "/" else f"/{text}"


def number(text: str) -> int | None:
    """A number of the address, such as a step's; None for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
