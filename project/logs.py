"""One line for each event, without anything that state could hide in.

What an exception says is not printed: messages repeat values (a database error
quotes the row, a KeyError the key). Its class and the places it passed are.
"""

from __future__ import annotations

import json
import logging
import time
import traceback
from types import TracebackType
from typing import TypeAlias

from checkpoints import about

ExceptionInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None]
    | tuple[None, None, None]
)


class LineFormatter(logging.Formatter):
    """`2026-11-21T22:13:00Z WARNING agents.runs run lost its branch run=… fence=3`.

    What a caller passes as `extra={"ids": {…}}` ends the line as key=value, after the
    ids of the block that it logs in (checkpoints/about.py): which run, at which step.
    """

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's name
        named = "".join(f" {key}={value}" for key, value in _ids(record).items())
        return super().formatMessage(record).replace("\n", "\\n") + named

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802  logging's name
        return "\n".join(_places(ei[1])) if ei[1] else ""


class JsonFormatter(LineFormatter):
    """The same as a JSON object a line, for programs: time, level, logger, message, ids.

    Of an exception `error` is the class, and `places` are the frames that it passed.
    """

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, object] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{key: str(value) for key, value in _ids(record).items()},
        }
        if record.exc_info and record.exc_info[1] is not None:
            first, *places = _places(record.exc_info[1])
            found |= {"error": first.strip(), "places": [p.strip() for p in places]}
        return json.dumps(found)


def _ids(record: logging.LogRecord) -> dict[str, object]:
    own: dict[str, object] = getattr(record, "ids", {})
    return {**about.ids(), **own}


def _places(error: BaseException) -> list[str]:
    """Class and frames of an exception, then of what caused it, without their texts."""
    lines: list[str] = []
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        name = f"{type(cause).__module__}.{type(cause).__qualname__}"
        lines.append(f"  {'caused by ' if lines else ''}{name}")
        for frame in traceback.extract_tb(cause.__traceback__):
            lines.append(f"    {frame.filename}:{frame.lineno} in {frame.name}")
        cause = cause.__cause__ or cause.__context__
    return lines
