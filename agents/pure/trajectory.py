"""A conversation as an example to learn from: one line of JSON in the chat format.

    {"messages": [{"role": "system", …}, {"role": "user", …}, …], "tools": […],
     "parallel_tool_calls": …}

The format that OpenAI's fine-tuning takes for chat models, and others after it: messages as
they are sent, every call followed by its results, the agent's answer at the end. So what
becomes an example is the conversation as a provider takes it, whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from agents.pure.context import CHANNEL, calls_of, compose, messages_of
from checkpoints.pure import codec
from checkpoints.pure.codec import State

Example = dict[str, Any]

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
LARGEST = 8 * 1024 * 1024  # bytes of one example


def example(state: State, tools: Sequence[dict[str, Any]]) -> Example | None:
    """The example that this state's conversation is, up to its last answer.

    None where the agent gave none. What a window or a resume leaves out is in it: it was
    said. References to blobs are for the caller to fill in.
    """
    messages = messages_of(state)
    while messages and not _is_answer(messages[-1]):
        messages.pop()
    if not messages:
        return None
    whole = {**state, "messages": messages, CHANNEL: None}
    sent = compose(whole, tools).messages
    made: Example = {"messages": sent}
    if tools:
        made["tools"] = list(tools)
        made["parallel_tool_calls"] = any(
            len(message.get("tool_calls", ())) > 1 for message in sent
        )
    return made


def task(state: State) -> bytes:
    """What two conversations have in common that are about the same: the first message of
    a person, without the blanks around it."""
    said = next((m for m in messages_of(state) if m["role"] == "user"), None)
    content = said.get("content") if said else None
    return codec.canonical(content.strip() if isinstance(content, str) else content)


def problems(made: Any) -> Iterator[str]:
    """Why a provider would refuse the example; nothing where it would not."""
    if not isinstance(made, dict) or not isinstance(made.get("messages"), list):
        yield 'it is no object with "messages"'
        return
    if unknown := sorted(set(made) - {"messages", "tools", "parallel_tool_calls"}):
        yield f"it has {unknown[0]!r}, which the format does not know"
    offered = set()
    for number, tool in enumerate(made.get("tools", ())):
        function = tool.get("function") if isinstance(tool, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str) or not NAME.match(name):
            yield f"tools[{number}] has no name that can be one"
        else:
            offered.add(name)
    yield from _of_messages(made["messages"], offered)
    if codec.size(made) > LARGEST:
        yield f"it has more than {LARGEST // 1024**2} MB"


def _of_messages(messages: list[Any], offered: set[str]) -> Iterator[str]:
    waiting: list[str] = []  # ids of calls whose results have to follow
    for number, message in enumerate(messages):
        at = f"messages[{number}]"
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            yield f"{at} has no role that is one"
            return
        if message["role"] == "tool":
            if not waiting or message.get("tool_call_id") != waiting.pop(0):
                yield f"{at} answers no call before it"
                return
        elif waiting:
            yield f"{at} comes before the results of the calls before it"
            return
        calls = calls_of(message)
        if not calls and not isinstance(message.get("content"), str | list):
            yield f"{at} says nothing"
        for call in calls:
            name = call["function"].get("name")
            if name not in offered:
                yield f"{at} calls {str(name)[:64]!r}, which is not among the tools"
            waiting.append(str(call.get("id")))
    if not messages or not _is_answer(messages[-1]):
        yield "it does not end with an answer"


def _is_answer(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and message.get("role") == "assistant"
        and not calls_of(message)
        and bool(message.get("content"))
    )
