"""`read_result`: an agent reads on in a result that was too large to be sent to it.

    register(Agent("clerk", model="gpt-4o", system="…", tools=[fetch_report, read_result]))

Of such a result the model is sent one line, which gives its id, its size and its first
words (`agents/pure/context/transcript.py`). The whole is a blob of the thread.
"""

from __future__ import annotations

from django.conf import settings

from agents.errors import ToolError
from agents.tools.context import ToolContext
from agents.tools.declare import tool

MOST = 12_000  # characters of one part
_BEFORE = 200  # characters before the words that were looked for


@tool(effect="none", title="Read on in a large result")
def read_result(
    result: str, start: int = 0, most: int = 4_000, find: str = "", *, ctx: ToolContext
) -> str:
    """Read a part of a result that is kept apart from this conversation.

    `result` is the id that its line gives. Characters are counted from 0; at most 12,000
    come at once, and fewer where they would be kept apart again. `find` gives the part around the next place, from `start` on, where
    these words stand.
    """
    text = ctx.large(result)
    if start < 0 or not 0 < most <= MOST:
        raise ToolError(
            f"start is 0 or more, and most is 1 to {MOST:,}: {start:,} and {most:,}"
            " were given."
        )
    if find:
        place = text.find(find, start)
        if place < 0:
            raise ToolError(
                f"From character {start:,} on, those words do not stand in the result."
                " Upper and lower case count."
            )
        start = max(start, place - _BEFORE)
    if start >= len(text):
        raise ToolError(
            f"The result has {len(text):,} characters; {start:,} is past its end."
        )
    room = max(500, settings.BLOB_BYTES - 1_000)  # bytes; some is put around it
    part = text[start : start + most].encode()[:room].decode(errors="ignore")
    end = start + len(part)
    more = f"; go on with start={end}" if end < len(text) else ", its end"
    return f"[Characters {start:,} to {end:,} of {len(text):,}{more}.]\n{part}"
