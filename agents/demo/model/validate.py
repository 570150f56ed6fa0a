"""What OpenAI would refuse, this server refuses, so that a bad resume fails loudly.

The messages quote the real API's as far as they are known; clients match on status and
`code`, people read the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agents.demo.model.errors import ApiError, invalid

ROLES = ("system", "assistant", "user", "function", "tool", "developer")
MESSAGE_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "function": {"role", "content", "name"},
    "tool": {"role", "content", "tool_call_id", "name"},
    "assistant": {
        "role",
        "content",
        "name",
        "tool_calls",
        "function_call",
        "refusal",
        "audio",
        "annotations",
    },
}
PARAMETERS = {
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "modalities",
    "model",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
}
RANGES = {"temperature": (0, 2), "top_p": (0, 1)}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID_LIMIT = 40  # characters; the real API refuses longer tool call ids


def check_key(authorization: str | None) -> None:
    """Any bearer key will do, except `invalid`, which tests a rejected one."""
    scheme, _, key = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise ApiError(
            401,
            "You didn't provide an API key. You need to provide your API key in an"
            " Authorization header using Bearer auth.",
        )
    if key.strip() == "invalid":
        raise ApiError(
            401, "Incorrect API key provided: invalid.", code="invalid_api_key"
        )


def check_request(body: Any) -> None:
    """Raise `ApiError` as OpenAI would; return when the request is one to answer."""
    if not isinstance(body, dict):
        raise invalid("The JSON body of your request must be an object.", None)
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise invalid("you must provide a model parameter", None)
    if "messages" not in body:
        raise invalid(
            "Missing required parameter: 'messages'.",
            "messages",
            "missing_required_parameter",
        )
    for name in body:
        if name not in PARAMETERS:
            raise invalid(
                f"Unknown parameter: '{name}'.",
                name,
                "unknown_parameter",
            )
    for name, (low, high) in RANGES.items():
        value = body.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong_type(name, "a decimal", value)
        if not low <= value <= high:
            raise invalid(
                f"Invalid '{name}': decimal out of range. Expected a value between"
                f" {low} and {high}, but got {value} instead.",
                name,
                "decimal_out_of_range",
            )
    if body.get("seed") is not None and (
        isinstance(body["seed"], bool) or not isinstance(body["seed"], int)
    ):
        raise _wrong_type("seed", "an integer", body["seed"])
    if body.get("n") not in (None, 1):
        raise invalid(
            "The scripted model gives one choice (n=1).", "n", "invalid_value"
        )
    _check_tools(body)
    _check_messages(body["messages"])


def _check_tools(body: Mapping[str, Any]) -> None:
    tools = body.get("tools")
    if tools is None:
        for name in ("tool_choice", "parallel_tool_calls"):
            if body.get(name) is not None:
                raise invalid(
                    f"Invalid value for '{name}': '{name}' is only allowed when"
                    " 'tools' are specified.",
                    name,
                )
        return
    if not isinstance(tools, list):
        raise _wrong_type("tools", "an array of objects", tools)
    if not tools:
        raise _empty("tools")
    for at, tool in enumerate(tools):
        where = f"tools[{at}]"
        if not isinstance(tool, dict):
            raise _wrong_type(where, "an object", tool)
        if tool.get("type") != "function":
            raise invalid(
                f"Invalid value: '{tool.get('type')}'. Supported values are:"
                " 'function'.",
                f"{where}.type",
                "invalid_value",
            )
        function = tool.get("function")
        if not isinstance(function, dict):
            raise _wrong_type(f"{where}.function", "an object", function)
        _check_name(function.get("name"), f"{where}.function.name")
        schema = function.get("parameters", {"type": "object"})
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise invalid(
                f"Invalid schema for function '{function['name']}': schema must be a"
                " JSON Schema of 'type: \"object\"'.",
                f"{where}.function.parameters",
                "invalid_function_parameters",
            )


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list):
        raise _wrong_type("messages", "an array of objects", messages)
    if not messages:
        raise _empty("messages")
    asked: set[str] = set()  # calls of the latest assistant message
    answered: set[str] = set()
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        role = _check_message(message, where)
        if role == "tool":
            call = message.get("tool_call_id")
            if not isinstance(call, str):
                raise invalid(
                    f"Missing required parameter: '{where}.tool_call_id'.",
                    f"{where}.tool_call_id",
                    "missing_required_parameter",
                )
            if call not in asked:
                raise invalid(
                    "Invalid parameter: messages with role 'tool' must be a response"
                    " to a preceding message with 'tool_calls'.",
                    f"messages.[{at}].role",
                )
            answered.add(call)
            continue
        _check_answered(asked, answered, at)
        asked, answered = set(), set()
        if role == "assistant":
            asked = _check_calls(message, where)
    _check_answered(asked, answered, len(messages))


def _check_answered(asked: set[str], answered: set[str], at: int) -> None:
    missing = sorted(asked - answered)
    if missing:
        raise invalid(
            "An assistant message with 'tool_calls' must be followed by tool messages"
            " responding to each 'tool_call_id'. The following tool_call_ids did not"
            f" have response messages: {', '.join(missing)}",
            f"messages.[{at}].role",
        )


def _check_message(message: Any, where: str) -> str:
    if not isinstance(message, dict):
        raise _wrong_type(where, "an object", message)
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise invalid(
            f"Invalid value: '{role}'. Supported values are: "
            + ", ".join(f"'{known}'" for known in ROLES)
            + ".",
            f"{where}.role",
            "invalid_value",
        )
    for field in message:
        if field not in MESSAGE_FIELDS[role]:
            raise invalid(
                f"Unknown parameter: '{where}.{field}'.",
                f"{where}.{field}",
                "unknown_parameter",
            )
    content = message.get("content")
    if content is None:
        silent = role == "assistant" and (
            "tool_calls" in message or message.get("refusal")
        )
        if not silent:
            raise invalid(
                "Invalid value for 'content': expected a string, got null.",
                f"{where}.content",
            )
    elif isinstance(content, list):
        for number, part in enumerate(content):
            if not isinstance(part, dict) or not isinstance(part.get("type"), str):
                raise _wrong_type(f"{where}.content[{number}]", "an object", part)
    elif not isinstance(content, str):
        raise _wrong_type(f"{where}.content", "one of a string or array", content)
    return role


def _check_calls(message: Mapping[str, Any], where: str) -> set[str]:
    calls = message.get("tool_calls")
    if calls is None:
        return set()
    if not isinstance(calls, list):
        raise _wrong_type(f"{where}.tool_calls", "an array of objects", calls)
    if not calls:
        raise _empty(f"{where}.tool_calls")
    for number, call in enumerate(calls):
        at = f"{where}.tool_calls[{number}]"
        if not isinstance(call, dict) or not isinstance(call.get("id"), str):
            raise invalid(
                f"Missing required parameter: '{at}.id'.",
                f"{at}.id",
                "missing_required_parameter",
            )
        if len(call["id"]) > ID_LIMIT:
            raise invalid(
                f"Invalid '{at}.id': string too long. Expected a string with maximum"
                f" length {ID_LIMIT}, but got a string with length {len(call['id'])}"
                " instead.",
                f"{at}.id",
                "string_above_max_length",
            )
        function = call.get("function")
        if call.get("type") != "function" or not isinstance(function, dict):
            raise invalid(
                f"Invalid value for '{at}.type'. Supported values are: 'function'.",
                f"{at}.type",
                "invalid_value",
            )
        _check_name(function.get("name"), f"{at}.function.name")
        if not isinstance(function.get("arguments"), str):
            raise _wrong_type(
                f"{at}.function.arguments", "a string", function.get("arguments")
            )
    return {call["id"] for call in calls}


def _check_name(name: Any, param: str) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise invalid(
            f"Invalid '{param}': string does not match pattern. Expected a string that"
            " matches the pattern '^[a-zA-Z0-9_-]+$'.",
            param,
            "invalid_value",
        )


def _empty(param: str) -> ApiError:
    return invalid(
        f"Invalid '{param}': empty array. Expected an array with minimum length 1, but"
        " got an empty array instead.",
        param,
        "empty_array",
    )


def _wrong_type(param: str, expected: str, found: Any) -> ApiError:
    names = {str: "a string", bool: "a boolean", int: "an integer", float: "a decimal"}
    names |= {list: "an array", dict: "an object", type(None): "null"}
    return invalid(
        f"Invalid type for '{param}': expected {expected}, but got"
        f" {names.get(type(found), 'something else')} instead.",
        param,
        "invalid_type",
    )
