"""What the Memory page shows: the entries below a prefix, and one of them with its history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db.models import F
from django.http import QueryDict
from django.urls import reverse
from django.utils.http import urlencode

from agents.llm import Embeddings
from agents.models import ToolCall
from agents.pages.memory.form import as_typed
from checkpoints import entries
from checkpoints.access import UserPrincipal
from checkpoints.entries import Found, Scope
from checkpoints.errors import InvalidEntry
from checkpoints.ids import short
from checkpoints.models import Entry, EntryVersion
from checkpoints.pure import codec, names

PREVIEW = 60  # characters of a value in the list
MATCHES = 50  # entries that a search shows
SCOPES = {Scope.USER: "Mine", Scope.WORKSPACE: "Workspace"}
LONGEST = 1_000  # characters of a prefix or of words that are looked for


@dataclass(frozen=True)
class Filters:
    """What the list is narrowed to, as the address says."""

    scope: str = Scope.USER
    prefix: str = field(default="", repr=False)
    words: str = field(default="", repr=False)
    gone: bool = False

    @property
    def query(self) -> str:
        said = {
            "scope": self.scope if self.scope != Scope.USER else "",
            "in": self.prefix,
            "q": self.words,
            "gone": "1" if self.gone else "",
        }
        told = {name: value for name, value in said.items() if value}
        return f"?{urlencode(told)}" if told else ""

    def of(self, entry: Entry) -> str:
        return reverse("agents:memory_entry", args=[entry.pk]) + self.query

    def to(self, **changes: Any) -> str:
        return reverse("agents:memory") + replace(self, **changes).query


@dataclass(frozen=True)
class Row:
    """A line of the list, or a version in a history."""

    found: Found
    href: str
    who: str
    source: (
        str  # the address of the step that wrote it; "" for a person, or out of sight
    )
    preview: str = field(repr=False)


def filters_of(sent: QueryDict, *, scope: str = "") -> Filters:
    scope = scope or sent.get("scope", "")
    return Filters(
        scope=scope if scope in SCOPES else Scope.USER,
        prefix=sent.get("in", "").strip()[:LONGEST],
        words=sent.get("q", "").strip()[:LONGEST],
        gone=bool(sent.get("gone")),
    )


def context_of(
    by: UserPrincipal, filters: Filters, entry: Entry | None = None, **more: Any
) -> dict[str, Any]:
    """The list, and of an `entry` its newest version and history. Opening is recorded."""
    context: dict[str, Any] = {
        "filters": filters,
        "scopes": list(SCOPES.items()),
        "scope_said": SCOPES[Scope(filters.scope)],
        "entry": entry,
        "everything": filters.to(prefix="", words="", gone=False),
        "turned": filters.to(gone=not filters.gone),
    }
    if not by.may_read:
        return context | more
    shown, wrong = _listed(by, filters)
    context |= {
        "wrong": wrong,
        "rows": rows_of(by, shown.found, filters.of),
        "total": shown.total,
        "meaning": shown.meaning,
        "is_whole": shown.is_whole or bool(filters.words),
        "below": _below(filters, shown.found),
        "up": _up(filters),
    }
    if entry is not None:
        context |= _detail(by, entry, filters)
    return context | more


def _listed(by: UserPrincipal, filters: Filters) -> tuple[entries.Listed, str]:
    """What is there, and what is wrong with what was asked for."""
    try:
        prefix = names.parts(filters.prefix)
    except InvalidEntry as wrong:
        return entries.Listed([], 0), str(wrong)
    if filters.words:
        found = entries.search(
            by,
            filters.scope,
            filters.words,
            prefix,
            most=MATCHES,
            embedder=Embeddings.from_settings(),
        )
        return found, ""
    return entries.listed(by, filters.scope, prefix, gone=filters.gone), ""


def _detail(by: UserPrincipal, entry: Entry, filters: Filters) -> dict[str, Any]:
    versions = entries.history(by, entry)
    newest = versions[0]
    return {
        "newest": newest,
        "versions": rows_of(by, versions, filters.of),
        "entry_address": filters.of(entry),
        "typed": as_typed(newest.value, newest.row.expires_at, newest.row.version),
        "is_gone": not entries.seen(by).live().filter(pk=entry.pk).exists(),
    }


def rows_of(
    by: UserPrincipal, found: Iterable[Found], address: Callable[[Entry], str]
) -> list[Row]:
    """As lines of a list, each with the address of its entry."""
    found = list(found)
    sources = _sources(by, [one.row for one in found])
    return [
        Row(
            found=one,
            href=address(one.entry),
            preview="" if one.row.deleted else _preview(one.value),
            **sources.get(one.row.pk, {"who": entries.who(one.row), "source": ""}),
        )
        for one in found
    ]


def _sources(
    by: UserPrincipal, rows: Iterable[EntryVersion]
) -> dict[UUID, dict[str, str]]:
    """Of versions that a run wrote which this person may see: its agent, run and step, and
    the step's address.

    The step is the one that holds the call's result: while the run is at it, its thread.
    """
    made = {row.request_key: row.pk for row in rows if row.run and row.request_key}
    if not made:
        return {}
    calls = ToolCall.objects.for_user(by).filter(pk__in=list(made))
    found: dict[UUID, dict[str, str]] = {}
    named = calls.annotate(agent=F("run__agent_version__agent__name"))
    for call in named.select_related("result_checkpoint"):
        said = f"{call.agent}, run {short(call.run_id)}"
        address = reverse("agents:thread", args=[call.thread_id])
        if step := call.result_checkpoint:
            said = f"{said}, step {step.step}"
            address = reverse("agents:step", args=[call.thread_id, step.pk])
        found[made[call.pk]] = {"who": said, "source": address}
    return found


def _preview(value: Any) -> str:
    said = codec.text(value)
    return said if len(said) <= PREVIEW else f"{said[:PREVIEW]}…"


def _below(filters: Filters, found: Iterable[Found]) -> list[tuple[str, str, int]]:
    """The namespaces one part further down: address, name, and entries that are shown."""
    if filters.words or filters.gone:
        return []
    prefix = names.parts(filters.prefix) if found else ()
    counts: dict[str, int] = {}
    for one in found:
        if one.name and len(one.name.namespace) > len(prefix):
            part = one.name.namespace[len(prefix)]
            counts[part] = counts.get(part, 0) + 1
    return [
        (filters.to(prefix=names.path(*prefix, part)), names.path(part), count)
        for part, count in sorted(counts.items())
    ]


def _up(filters: Filters) -> str:
    """The address of the namespace around this one; "" at the top."""
    if not filters.prefix:
        return ""
    return filters.to(prefix=filters.prefix.rstrip("/").rpartition("/")[0])
