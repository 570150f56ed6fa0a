"""A model call as something to paste: a `curl` command, and a Python program.

What messages say is hostile: pasted into a shell or a file it must stay data. Both texts
are ASCII alone. In the command the body is JSON between single quotes, in which nothing
means anything to a shell, and no single quote is left within: JSON writes it as \\u0027.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from typing import Any

from agents.pure.context import Request

# Of what is sent: all but `stream`, which changes how the answer comes, not what it says.
_PARAMS = ("temperature", "top_p", "seed")


def body(request: Request, *, left_out: Container[str] = ()) -> dict[str, Any]:
    """The JSON of the call. `left_out`: parameters that the model rejected."""
    params = {name: getattr(request, name) for name in _PARAMS}
    given = {
        "model": request.model,
        "messages": request.messages,
        "tools": request.tools or None,
        **params,
    }
    return {
        name: value
        for name, value in given.items()
        if value is not None and name not in left_out
    }


def offered(
    names: Iterable[str], schemas: Iterable[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The schemas of these tools, in their order; and names of which there is none."""
    known = {schema["function"]["name"]: dict(schema) for schema in schemas}
    wanted = list(names)
    found = [known[name] for name in wanted if name in known]
    return found, [name for name in wanted if name not in known]


def as_curl(body: Mapping[str, Any]) -> str:
    """For a POSIX shell, with the server and the key from its environment."""
    text = json.dumps(body, indent=1, ensure_ascii=True).replace("'", "\\u0027")
    # Pasted, it takes back what stands before it.
    text = text.replace("\x7f", "\\u007f")
    return (
        'curl "$OPENAI_BASE_URL/chat/completions" \\\n'
        '  -H "Authorization: Bearer $OPENAI_API_KEY" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  --data-raw '{text}'\n"
    )


def as_python(body: Mapping[str, Any]) -> str:
    """For the `openai` package, with the server and the key from the environment."""
    arguments = "".join(
        f"    {name}={_literal(value, 1)},\n" for name, value in body.items()
    )
    return (
        "import os\n\n"
        "from openai import OpenAI\n\n"
        "client = OpenAI(\n"
        '    base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"]\n'
        ")\n"
        f"completion = client.chat.completions.create(\n{arguments})\n"
        "print(completion.choices[0].message)\n"
    )


def _literal(value: Any, level: int) -> str:
    """JSON as Python writes it, a line for each item."""
    inner = "    " * (level + 1)
    match value:
        case dict() if value:
            items = [
                f"{key!a}: {_literal(item, level + 1)}" for key, item in value.items()
            ]
            ends = "{}"
        case list() if value:
            items = [_literal(item, level + 1) for item in value]
            ends = "[]"
        case _:
            return ascii(value)
    lines = "".join(f"{inner}{item},\n" for item in items)
    return f"{ends[0]}\n{lines}{'    ' * level}{ends[1]}"
