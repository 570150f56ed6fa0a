"""Chat logs in OpenAI's format, read strictly: what is not understood is refused.

A file holds one conversation (`{"messages": [...]}`, or the list alone), a list of
conversations, or one conversation a line (`.jsonl`, the fine-tuning format). The
system messages at its start become the system prompt; every other message is a turn.
Providers repeat tool-call ids, so a result belongs to the first unanswered call of
that id after the reply that it follows, as OpenAI itself requires.

What is kept of a message is its role, content, refusal, calls, and for a result the
call and the tool's name; what else a client wrote beside them is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agents.errors import MalformedLog
from checkpoints.errors import NotJson, NotStorable
from checkpoints.pure import codec, refs
from checkpoints.pure.envelope import NIL
from checkpoints.pure.refs import Large
from checkpoints.pure.strict import MAX_DEPTH

ROLES = ("user", "assistant", "tool")
SYSTEM_ROLES = ("system", "developer")
STEP_DEPTH = 8  # levels that a step puts around what it stores, and some to spare
SHOWN_LENGTH = 40  # characters of what was found, in a message
ID_LENGTH = 200  # characters; what Thread.external_id holds
TOOL_LENGTH = 200  # characters; more is no tool's name
MOST_INLINE = 1024 * 1024  # bytes of a text; a longer one is a blob in any case
LARGEST = 64 * 1024 * 1024  # bytes; what a blob holds
MODEL_LENGTH = 100  # characters; what Checkpoint.model_requested holds


@dataclass(frozen=True)
class Conversation:
    """One recorded conversation; `messages` are without ids, in their order."""

    id: str
    model: str
    system: str = field(repr=False)
    messages: list[dict[str, Any]] = field(repr=False)
    facts: dict[str, Any] = field(repr=False)  # what else the file said of it
    cleaned: list[list[str]] = field(repr=False)  # by message: texts that were no text

    def text(self) -> str:
        """All that was said in it: the same for the same conversation in another file."""
        return codec.text([self.model, self.system, self.messages])


def decode(data: bytes) -> str:
    """A file's text. Raises MalformedLog."""
    try:
        return data.decode("utf-8-sig")  # some editors add a mark
    except UnicodeDecodeError as problem:
        raise MalformedLog(
            f"byte {problem.start} is not UTF-8; save it as UTF-8."
        ) from problem


def parse(text: str, *, lines: bool = False) -> list[Conversation]:
    """The conversations of a file, one at least. Raises MalformedLog."""
    conversations: list[Conversation] = []
    places: dict[str, str] = {}  # where each id, or the text of one without, was
    for value, where in _values(text, lines=lines):
        conversation = _conversation(value, where)
        name = conversation.id or conversation.text()
        if name in places:
            same = f"the id {_shown(name)}" if conversation.id else "the same messages"
            raise MalformedLog(f"{where} has {same}, as {places[name]} has.")
        places[name] = where
        conversations.append(conversation)
    if not conversations:
        raise MalformedLog("there is no conversation in it.")
    return conversations


def _values(text: str, *, lines: bool) -> Iterator[tuple[Any, str]]:
    if lines:
        # Not splitlines(): JSON text may hold U+2028 and its like as they are.
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield _load(line, f"line {number}"), f"line {number}"
        return
    value = _load(text, "it")
    if isinstance(value, list) and not (
        value and isinstance(value[0], dict) and "role" in value[0]
    ):
        for index, one in enumerate(value):
            yield one, f"conversation {index}"
    else:
        yield value, ""


def _load(text: str, where: str) -> Any:
    try:
        return codec.load_strict(text)
    except (NotJson, NotStorable) as wrong:
        raise MalformedLog(f"{where} is not JSON that we take: {wrong}") from wrong


def _conversation(value: Any, where: str) -> Conversation:
    prefix = f"{where}: " if where else ""
    value, cleaned = codec.clean(value)  # models emit lone surrogates
    if isinstance(value, list):
        value = {"messages": value}
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        raise MalformedLog(
            f'{prefix}expected an object with a list "messages", or that list alone.'
        )
    system: list[str] = []
    messages: list[dict[str, Any]] = []
    flagged: list[list[str]] = []
    open_calls: list[str] = []
    for index, raw in enumerate(value["messages"]):
        at = f"{prefix}message {index}"
        role = _role(raw, at)
        if role in SYSTEM_ROLES:
            if messages:
                raise MalformedLog(f"{at} is a {role} message after the start.")
            system.append(_text(raw.get("content"), at))
            continue
        message, open_calls = _message(raw, role, open_calls, at)
        _check_fits(message, at)
        messages.append(message)
        flagged.append(_of_message(cleaned, index))
    if not messages:
        raise MalformedLog(f"{prefix}there is no message in it.")
    facts = {
        key: fact
        for key, fact in value.items()
        if key not in ("id", "model", "messages", "tools")
    }
    _check_fits(
        {"params": system, "facts": facts}, f"{prefix}what is beside the messages"
    )
    return Conversation(
        id=_name(value, "id", ID_LENGTH, prefix),
        model=_name(value, "model", MODEL_LENGTH, prefix),
        system="\n\n".join(system),
        messages=messages,
        facts=facts,
        cleaned=flagged,
    )


def _of_message(paths: list[str], index: int) -> list[str]:
    """Paths below one message, from there on; the file's list of messages may be bare."""
    starts = (f"$.messages[{index}]", f"$[{index}]")
    return [
        "$" + path.removeprefix(start)
        for path in paths
        for start in starts
        if path.startswith(start)
    ]


def _role(raw: Any, at: str) -> str:
    if not isinstance(raw, dict):
        raise MalformedLog(f"{at} is {_kind(raw)}, expected an object.")
    role = raw.get("role")
    if role not in (*ROLES, *SYSTEM_ROLES):
        raise MalformedLog(
            f"{at} has the role {_shown(role)}, expected one of "
            f"{', '.join((*SYSTEM_ROLES, *ROLES))}."
        )
    return str(role)


def _message(
    raw: dict[str, Any], role: str, open_calls: list[str], at: str
) -> tuple[dict[str, Any], list[str]]:
    if role == "tool":
        call = raw.get("tool_call_id")
        if call not in open_calls:
            raise MalformedLog(
                f"{at} answers the tool call {_shown(call)}, which the reply "
                "before it did not make or which was answered already."
            )
        left = list(open_calls)
        left.remove(call)
        message = {
            "role": "tool",
            "tool_call_id": call,
            "name": _name(raw, "name", TOOL_LENGTH, f"{at}: "),
            "content": _text(raw.get("content"), at),
        }
        return message, left
    if open_calls:
        raise MalformedLog(
            f"{at} is a {role} message, but {len(open_calls)} tool call(s) before it "
            "have no result."
        )
    if role == "user":
        return {"role": "user", "content": _content(raw.get("content"), at)}, []
    message = {"role": "assistant", "content": _content(raw.get("content"), at)}
    if isinstance(refusal := raw.get("refusal"), str) and refusal:
        message["refusal"] = refusal
    calls = raw.get("tool_calls")
    if calls:
        message["tool_calls"] = _calls(calls, at)
    elif message["content"] is None and "refusal" not in message:
        raise MalformedLog(f"{at} has neither content nor tool calls.")
    return message, [call["id"] for call in message.get("tool_calls", [])]


def _calls(calls: Any, at: str) -> list[dict[str, Any]]:
    if not isinstance(calls, list):
        raise MalformedLog(f'{at} has "tool_calls" of {_kind(calls)}, expected a list.')
    taken = []
    for index, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if (
            not isinstance(function, dict)
            or not isinstance(call.get("id"), str)
            or not isinstance(function.get("name"), str)
            or not isinstance(function.get("arguments"), str)
        ):
            raise MalformedLog(
                f"{at}, tool call {index}: expected an id and a function with a name "
                "and arguments, the arguments as a JSON string."
            )
        taken.append(
            {
                "id": call["id"],
                "type": "function",
                "function": {
                    "name": function["name"],
                    "arguments": function["arguments"],
                },
            }
        )
    return taken


def _content(content: Any, at: str) -> str | list[Any] | None:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        return content
    raise MalformedLog(f"{at} has content of {_kind(content)}, expected text or parts.")


def _text(content: Any, at: str) -> str:
    """Content that must be text; parts are joined."""
    content = _content(content, at)
    if not isinstance(content, list):
        return content or ""
    texts = [part.get("text") for part in content]
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise MalformedLog(f"{at}, part {index}: expected a text.")
    return "\n".join(texts)


def _name(value: dict[str, Any], key: str, length: int, prefix: str) -> str:
    """A name that a file gives, or "". Kept in clear, so nothing else passes for one."""
    name = value.get(key)
    if name is None:
        return ""
    if type(name) is int:
        name = str(name)
    if not isinstance(name, str):
        raise MalformedLog(f"{prefix}its {key} is {_kind(name)}, expected a string.")
    if len(name) > length or not name.isprintable():
        raise MalformedLog(
            f"{prefix}its {key} is not a name: {length} printable characters at most."
        )
    return name


def _check_fits(value: Any, at: str) -> None:
    """One step holds a message, or the first one and what is beside the messages."""
    if codec.depth(value) > MAX_DEPTH - STEP_DEPTH:
        raise MalformedLog(
            f"{at} is nested more than {MAX_DEPTH - STEP_DEPTH} levels deep."
        )
    try:
        codec.check_structure(value)
        size = len(codec.canonical(refs.extract(value, MOST_INLINE, _put_away(at))))
    except NotStorable as wrong:
        raise MalformedLog(f"{at} cannot be stored: {wrong}") from wrong
    if size > codec.MAX_BYTES // 3:
        raise MalformedLog(f"{at} is larger than {codec.MAX_BYTES // 3} bytes.")


def _put_away(at: str) -> Callable[[Large], refs.Ref]:
    """What is large goes into the blob store: it counts for nothing here."""

    def take(large: Large) -> refs.Ref:
        if len(large.content) > LARGEST:
            raise MalformedLog(
                f"{at} holds a value of {len(large.content):,} bytes; {LARGEST:,} are"
                " allowed."
            )
        return refs.ref(NIL, len(large.content), large.media_type, large.words)

    return take


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return "a string"
        case bool():
            return "a boolean"
    return "a number"
