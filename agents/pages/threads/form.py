"""The filters as a form: each field with what was typed, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import User

from agents.models import Agent, Run
from agents.pages.text import name_of
from agents.pages.threads.filters import FORKS, KINDS, PERIODS, PROGRAM, Filters
from agents.tools import registry
from checkpoints.access import UserPrincipal
from checkpoints.compiled import Compiled

FAILURES = 1_000  # newest runs that failed, whose error classes are suggested
_HINTS = {
    "version": "such as 3",
    "step": "such as 5",
    "cost": "US dollars: 0.10",
    "tokens": "such as 38k",
    "time": "90s, 5m, 2h",
    "label": "its words, whole",
    "field": "such as order=4711",
}
OF_SEALED = ("label", "field")  # what they find tells what is sealed


@dataclass(frozen=True)
class Field:
    """One field. With `choices` it is a menu; `suggested` are what it may well be."""

    name: str
    label: str
    typed: str
    wrong: str
    hint: str = ""
    kind: str = "text"
    choices: tuple[tuple[str, str], ...] = ()
    suggested: tuple[str, ...] = ()


def fields(principal: UserPrincipal, filters: Filters) -> list[Field]:
    """In the order in which the form shows them."""
    agents: list[str] = _AGENTS.rows(principal)
    choices = {
        "agent": _menu("Any agent", [(name, name) for name in agents]),
        "by": _menu("Anyone", [*_people(principal), (PROGRAM, "A program")]),
        "forks": _menu("With or without", FORKS.items()),
        "since": _menu("Any time", PERIODS.items()),
    }
    suggested = {
        "tool": _tools(agents),
        "error": sorted(set(_ERRORS.rows(principal))),
        "field": _declared(agents),
    }
    made = []
    for name, kind in KINDS.items():
        if name in OF_SEALED and not principal.may_read:
            continue
        typed = filters.typed.get(name, "")
        menu = choices.get(name, ())
        if menu and typed and name not in filters.wrong:
            # An agent or a person who is gone is asked for all the same.
            menu += () if typed in dict(menu) else ((typed, typed),)
        wrong, is_day = filters.wrong.get(name, ""), name in ("from", "to")
        made.append(
            Field(
                name=name,
                label=kind.label,
                # A browser shows no other text in a field for a day, and complains.
                typed="" if wrong and is_day else typed,
                wrong=wrong,
                hint=_HINTS.get(name, ""),
                kind="date" if is_day else "text",
                choices=menu,
                suggested=tuple(suggested.get(name, ())),
            )
        )
    return made


def first_agent(principal: UserPrincipal) -> str:
    """The name of one, for an example."""
    name: str = _AGENTS.first(principal) or "my-agent"
    return name


def _menu(
    anything: str, choices: Iterable[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    return (("", anything), *choices)


def _people(principal: UserPrincipal) -> list[tuple[str, str]]:
    people = [(one.get_username(), name_of(one)) for one in _MEMBERS.rows(principal)]
    return sorted(people, key=lambda person: person[1].casefold())


def _tools(agents: Iterable[str]) -> list[str]:
    """Those of agents that this process knows; what others called can be typed."""
    known = [registry.agent(name) for name in agents if name in registry]
    return sorted({tool.name for agent in known for tool in agent.tools})


def _declared(agents: Iterable[str]) -> list[str]:
    """Beginnings of what can be typed, of agents that this process knows."""
    known = [registry.agent(name) for name in agents if name in registry]
    return sorted({f"{name}=" for agent in known for name in agent.search_fields})


_AGENTS = Compiled(
    lambda by: (
        Agent.objects.for_user(by).order_by("name").values_list("name", flat=True)
    )
)
_MEMBERS = Compiled(
    lambda by: User.objects.filter(memberships__workspace_id=by.workspace_id)
)
# As the index has them.
_ERRORS = Compiled(
    lambda by: (
        Run.objects.for_user(by)
        .filter(status=Run.Status.FAILED)
        .order_by("-finished_at")
        .values_list("error_class", flat=True)[:FAILURES]
    )
)
