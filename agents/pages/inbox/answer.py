"""The answer to a question as a form, where its tool declares the fields of one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from agents.approvals import fields, typed
from agents.approvals.decide import misfits, response_of
from agents.models import Approval
from agents.tools import Tool
from agents.tools.schema import Schema, resolve


def read(approval: Approval, posted: Mapping[str, str]) -> str | dict[str, Any]:
    """What was answered: its values by field, or its text. Raises InvalidDecision."""
    schema = response_of(approval)
    if schema is not None:
        return typed.parse(schema, posted, {}, misfits=partial(misfits, approval))
    text = posted.get("response", "").strip()
    return text or posted.get("option", "")


def form(
    tool: Tool, posted: Mapping[str, str] | None, problems: Mapping[str, str]
) -> dict[str, Any]:
    """What the template needs: the fields, with what was typed and what is wrong."""
    assert tool.response is not None  # the caller looked
    schema = tool.response.schema
    shown = fields.describe(schema, _defaults(schema), posted=posted, problems=problems)
    wrong = [field for field in shown if field.error]
    return {
        "answer_fields": shown,
        "wrong": wrong,
        "focus": wrong[0].id if wrong else "",
        "elsewhere": fields.elsewhere(
            {path: text for path, text in problems.items() if path[:1] in ("", "/")},
            shown,
        ),
    }


def _defaults(schema: Schema) -> dict[str, Any]:
    """What an answer says where nothing else is typed: shown, and sent with the form."""
    declared = {
        name: inner.get("default", resolve(inner, schema).get("default"))
        for name, inner in schema["properties"].items()
    }
    return {name: value for name, value in declared.items() if value is not None}
