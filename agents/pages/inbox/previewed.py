"""A request's preview on its page: as text, folded where it is long, as an argument is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agents.pages.inbox.arguments import Argument

NAME = "the preview"


def folded(preview: Mapping[str, Any] | None) -> Argument | None:
    """What of it can be read, as a row of a table; None without one."""
    if preview is None:
        return None
    return Argument(NAME, "\n".join(_lines(preview)), is_preview=True)


def _lines(preview: Mapping[str, Any]) -> Iterator[str]:
    """As the page has it, line by line; what is a number is text here, too."""
    match preview["kind"]:
        case "email":
            yield ", ".join(map(str, [*preview["to"], *preview["cc"]]))
            yield str(preview["subject"])
            yield preview["body"]
        case "diff":
            yield str(preview["name"])
            yield from (f"{line[-2]}{line[-1]}" for line in preview["lines"])
        case "rows" | "table":
            yield f"{preview.get('count', '')} {preview.get('what', '')}".strip()
            yield " ".join(preview["columns"])
            yield from (" ".join(row) for row in preview["rows"])
