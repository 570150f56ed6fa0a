"""The request of a model call as `curl` and as Python, for the Context tab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agents.pages.damage import GONE
from agents.pages.thread.subject import Subject
from agents.pure.as_code import as_curl, as_python, body, offered
from agents.pure.context import request_of
from checkpoints.blobs import Contents
from checkpoints.pure import codec, refs
from checkpoints.pure.codec import State

MOST = 60_000  # characters of a request that is shown: a shell's argument has 128 KiB


@dataclass(frozen=True)
class Code:
    curl: str
    python: str
    missing: list[str]  # tools whose schemas no code here has any more
    problem: str = ""  # why there is neither


def code_of(subject: Subject, context: Mapping[str, Any], before: State) -> Code | None:
    """Of a step that records a request; `before` is the state that it was made from."""
    sent = context.get("request")
    if not isinstance(sent, dict):
        return None
    names = [name for name in sent.get("tools", ()) if isinstance(name, str)]
    schemas = subject.agent.schemas if subject.agent else []
    tools, missing = offered(names, schemas)
    request = request_of(sent, before, tools)
    apart = sum(ref["size"] for ref in refs.refs(request.messages))
    if apart + codec.size(request.messages) + codec.size(tools) > MOST:
        return Code(
            "", "", [], f"It has more than {MOST:,} characters. Export the step."
        )
    if apart:
        assert subject.opened is not None  # as for the tab
        contents = Contents(subject.opened, subject.thread.pk)
        try:
            messages = [contents.restore(message) for message in request.messages]
        except GONE:
            return Code("", "", [], "A long text of it is not in the blob store now.")
        request = replace(request, messages=messages)
    left_out = {str(name) for name in context.get("left_out", ())}
    made = body(request, left_out=left_out)
    return Code(as_curl(made), as_python(made), missing)
