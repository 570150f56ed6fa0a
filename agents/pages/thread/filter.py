"""Which steps of a branch the list shows, as the page's address says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from django.db.models import Q
from django.http import QueryDict

from agents.pages.signs import KIND
from checkpoints.models import Checkpoint

LONGEST = 200  # characters of a filter
OUTCOMES = {
    "failed": "failed",
    "waiting": "waits for a person, an agent or a lock",
    "ok": "done",
}


@dataclass(frozen=True)
class StepFilter:
    """Each narrows the list; an empty one does not.

    Kind, outcome and tool are stored in clear, so SQL answers them. Labels are sealed:
    see `matches`. What no step is, such as a kind that there is not, is no error: nothing
    matches it.
    """

    kind: str = ""
    status: str = ""
    tool: str = ""  # or the node
    label: str = ""  # some of it, in any case

    @classmethod
    def of(cls, query: QueryDict) -> StepFilter:
        # PostgreSQL takes no NUL.
        return cls(
            **{
                each.name: query.get(each.name, "").replace("\0", "").strip()[:LONGEST]
                for each in fields(cls)
            }
        )

    def __bool__(self) -> bool:
        return bool(self.chosen)

    @property
    def chosen(self) -> Mapping[str, str]:
        """As the address has them."""
        values = {each.name: str(getattr(self, each.name)) for each in fields(self)}
        return {name: value for name, value in values.items() if value}

    def without(self, name: str) -> StepFilter:
        return replace(self, **{name: ""})

    @property
    def condition(self) -> Q:
        """Of a checkpoint; what is asked of its label is not in it."""
        wanted = Q()
        if self.kind:
            wanted &= Q(kind=self.kind)
        if self.status == Checkpoint.Status.FAILED:
            wanted &= FAILED
        elif self.status == Checkpoint.Status.OK:
            wanted &= Q(status=self.status) & ~FAILED
        elif self.status:
            wanted &= Q(status=self.status)
        if self.tool:
            wanted &= Q(name=self.tool)
        return wanted

    def said(self, name: str) -> str:
        value = str(getattr(self, name))
        if name == "status":
            return OUTCOMES.get(value, f"outcome {value}")
        if name == "kind":
            return f"kind: {kind_word(value)}"
        return f"tool {value}" if name == "tool" else f"label “{value}”"


EVERY = StepFilter()
# As `steps.has_failed`, asked of the database.
FAILED = Q(status=Checkpoint.Status.FAILED) | Q(kind=Checkpoint.Kind.ERROR)


def kind_word(kind: str) -> str:
    """What a kind is called apart from its letter: a failed step may be of any kind."""
    if kind == Checkpoint.Kind.ERROR:
        return "failure"
    return KIND[kind].word if kind in KIND else kind
