"""The arguments while they are edited: as a form, as JSON, as what changes.

One form, three views of it. Going from one to another is a POST that decides nothing
(`deciding.edit_as`): what was typed is carried over, and back when it cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from agents.approvals import decide as decisions
from agents.approvals import fields, typed
from agents.errors import ArgumentsDoNotFit, InvalidDecision
from agents.models import Approval
from agents.pages.inbox import pane
from agents.pages.inbox.arguments import as_json
from agents.pages.inbox.detail import Detail
from agents.pages.thread.diff import DiffLine, text_lines
from agents.tools import Tool
from checkpoints.errors import NotJson
from checkpoints.pure.codec import load_strict, same
from checkpoints.pure.text import hunks

VIEWS = ("form", "json", "diff")
MOST_COMPARED = (
    100_000  # characters of what is edited; more is compared by argument only
)


def read(
    approval: Approval, posted: Mapping[str, str], proposed: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments as edited, in whichever view. Raises InvalidDecision."""
    if "json" not in posted:
        return typed.parse(
            pane.schema_of(approval),
            posted,
            proposed,
            misfits=partial(decisions.misfits, approval),
        )
    try:
        arguments = load_strict(posted["json"])
    except NotJson as error:
        raise InvalidDecision({"json": str(error)}) from None
    if not isinstance(arguments, dict):
        raise InvalidDecision({"json": "Arguments are an object: { … }."})
    return arguments


def shown(
    detail: Detail, arguments: dict[str, Any], view: str = "form"
) -> dict[str, Any]:
    """What the templates need to show these arguments in this view."""
    context: dict[str, Any] = {"view": view}
    if view == "json":
        return context | {"json_text": as_json(arguments)}
    if view == "diff":
        return context | {
            "json_text": as_json(arguments),
            "lines": _diff(detail.proposed, arguments),
        }
    schema = decisions.schema_of(detail.approval)
    return context | _form(detail, fields.describe(schema, arguments))


def form(
    detail: Detail, posted: Mapping[str, str], problems: dict[str, str]
) -> dict[str, Any]:
    """What was typed, and what is wrong with it, in the view that it was typed in."""
    if "json" in posted:
        return {
            "view": "json",
            "json_text": posted["json"],
            "json_problem": problems.get("json", ""),
            "elsewhere": fields.elsewhere(
                {path: text for path, text in problems.items() if path != "json"}, []
            ),
        }
    schema = decisions.schema_of(detail.approval)
    described = fields.describe(
        schema, detail.proposed, posted=posted, problems=problems
    )
    return {
        "view": "form",
        **_form(detail, described),
        "elsewhere": fields.elsewhere(problems, described),
    }


def _form(detail: Detail, described: list[fields.Field]) -> dict[str, Any]:
    """The fields, each with what the agent had proposed, where that is something else."""
    schema = decisions.schema_of(detail.approval)
    before = {old.path: old.value for old in fields.describe(schema, detail.proposed)}
    wrong = [field for field in described if field.error]
    first = (field.id for field in (*wrong, *described) if not field.locked)
    return {
        "fields": [
            (field, old if (old := before.get(field.path, "")) != field.value else None)
            for field in described
        ],
        "wrong": wrong,
        "focus": next(first, ""),
    }


def fitting(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """A form has no place for what the tool does not take. Raises InvalidDecision."""
    try:
        kept, _ = tool.validate(arguments)
    except ArgumentsDoNotFit as wrong:
        raise InvalidDecision(wrong.fields) from None
    return kept


def _diff(proposed: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[DiffLine]:
    old, new = as_json(dict(proposed)), as_json(dict(arguments))
    if len(old) + len(new) > MOST_COMPARED:
        names = dict.fromkeys([*proposed, *arguments])
        changed = [
            name for name in names if not same(proposed.get(name), arguments.get(name))
        ]
        old = as_json({name: as_json(proposed.get(name))[:500] for name in changed})
        new = as_json({name: as_json(arguments.get(name))[:500] for name in changed})
    return text_lines(hunks(old, new))
