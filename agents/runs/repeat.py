"""The same fork several times, to see how much comes of chance."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

from agents.runs.source import Source
from agents.runs.start import fork_run
from checkpoints.models import Branch

MOST = 10  # forks at once


def fork_runs(
    source: Source,
    *,
    times: int,
    name: str,
    request_key: UUID,
    **more: Any,
) -> list[Branch]:
    """As `fork_run` (which `more` is for), `times` times, with numbers in their names.

    Each is a transaction of its own, and has a key of its own: where one fails, sending
    the same again makes those that are missing, and none twice. Raises as `fork_run`.
    """
    return [
        fork_run(
            source.checkpoint,
            source=source,
            name=name if times == 1 else f"{name} {number}",
            request_key=request_key if number == 1 else uuid5(request_key, str(number)),
            **more,
        )
        for number in range(1, times + 1)
    ]
