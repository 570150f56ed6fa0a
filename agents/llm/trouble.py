"""Why an attempt failed: in plain words, by a class to count, and whether to try again."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

import httpx2
import openai

from agents.pure import completion
from agents.pure.labels import first_words

QUOTED_CHARACTERS = 300  # of what a server said

_OVERFLOW = re.compile(
    r"context.{0,20}(length|window|size)|too many tokens|prompt is too long"
    r"|maximum.{0,20}tokens",
    re.IGNORECASE,
)
_REJECTED = re.compile(
    r"support|unknown|unrecogni[sz]ed|not permitted|unexpected|invalid|only the default",
    re.IGNORECASE,
)
_OTHER_FORMS = {"stream": "streaming|streamed"}  # of a parameter's name


@dataclass(eq=False)
class Trouble(Exception):
    """One attempt failed. Made anew for each: one that is kept keeps what it went through,
    with the conversation."""

    error_class: str
    text: str  # plain words, after "The model server at … "
    outcome: str  # for the record: a status or a short name
    again: bool  # whether another attempt may help
    after: float | None = None  # seconds that the server asks to wait
    without: str | None = None  # the parameter that it rejects


def garbage() -> Trouble:
    text = "answered with something that is not JSON"
    return Trouble("model_error", text, "garbage", True)


def slow() -> Trouble:
    return Trouble("model_unreachable", "answered too slowly", "slow", False)


def cut() -> Trouble:
    text = "ended the connection before its answer was complete"
    return Trouble("model_unreachable", text, "cut", True)


def too_large(most: int) -> Trouble:
    text = f"sent more than {most // 1024**2} MB"
    return Trouble("model_error", text, "too large", False)


def unusable(problem: completion.NotACompletion) -> Trouble:
    text = f"sent an answer that cannot be used: {problem}"
    return Trouble("model_error", text, "unusable", True)


def declined(refusal: str) -> Trouble:
    text = f"refused to answer: {_quoted(refusal)}"
    return Trouble("model_refused", text, "refused", False)


def unreached(error: Exception) -> Trouble:
    if isinstance(error, openai.APITimeoutError | httpx2.TimeoutException):
        return Trouble("model_unreachable", "did not answer in time", "timeout", True)
    cause = error.__cause__ or error
    if isinstance(cause, httpx2.ConnectError):
        return Trouble("model_unreachable", "cannot be reached", "no connection", True)
    return cut()


def refused(
    error: openai.APIStatusError, *, model: str, optional: list[str]
) -> Trouble:
    """An answer with an error status. `optional`: what was sent and could be left out."""
    status, said = error.status_code, _quoted(_said(error))
    outcome = str(status)
    after = _retry_after(error.response.headers.get("retry-after"))
    if status in (400, 413, 422):
        if error.code == "context_length_exceeded" or _OVERFLOW.search(said):
            return _overflow(said, outcome)
        if parameter := _rejected(error, said, optional):
            return Trouble(
                "model_error",
                f"rejects the parameter {parameter}",
                outcome,
                True,
                without=parameter,
            )
    if status == 429:
        return _limited(said, outcome, str(error.code or ""), after)
    if status in (401, 403):
        text = f"does not accept our key ({status}): check OPENAI_API_KEY. {said}"
        return Trouble("model_error", text, outcome, False)
    if status == 404:
        text = f"has no model {model!r}, or nothing at this address (404). {said}"
        return Trouble("model_error", text, outcome, False)
    if status >= 500 or status in (408, 409):
        return Trouble(
            "model_error", f"failed ({status}): {said}", outcome, True, after=after
        )
    text = f"did not take the request ({status}): {said}"
    return Trouble("model_error", text, outcome, False)


def broke_off(error: completion.ServerError) -> Trouble:
    """An error that was sent in the place of an answer, or in the middle of one."""
    said, code = _quoted(str(error)), error.code
    if code == "context_length_exceeded" or _OVERFLOW.search(said):
        return _overflow(said, "error")
    if code in ("429", "insufficient_quota") or "rate_limit" in code:
        return _limited(said, "429", code, None)
    text = f"broke its answer off with an error: {said}"
    return Trouble("model_error", text, "error", True)


def _overflow(said: str, outcome: str) -> Trouble:
    text = f"says that the conversation is too long for the model: {said}"
    return Trouble("context_overflow", text, outcome, False)


def _limited(said: str, outcome: str, code: str, after: float | None) -> Trouble:
    if code == "insufficient_quota":
        text = f"says that the account's quota is used up: {said}"
        return Trouble("model_rate_limited", text, outcome, False)
    text = "limits how often it may be asked (429)"
    return Trouble("model_rate_limited", text, outcome, True, after=after)


def _rejected(
    error: openai.APIStatusError, said: str, optional: list[str]
) -> str | None:
    """The optional parameter that this refusal is about."""
    for name in optional:
        if error.param == name:
            return name
    for name in optional:
        # Servers of other makes name it in the text only.
        names = "|".join(filter(None, (name, _OTHER_FORMS.get(name))))
        if re.search(rf"\b({names})\b", said, re.IGNORECASE) and _REJECTED.search(said):
            return name
    return None


def _said(error: openai.APIStatusError) -> str:
    """The server's own words, where it has any."""
    body = error.body
    if isinstance(body, dict):
        for key in ("message", "detail", "error"):
            if isinstance(body.get(key), str):
                return str(body[key])
        return json.dumps(body)  # such as a list of what is wrong with each parameter
    return body if isinstance(body, str) and body else error.message


def _quoted(text: str) -> str:
    return first_words(text, QUOTED_CHARACTERS)


def _retry_after(header: str | None) -> float | None:
    """Seconds; dates, which servers of models do not send, are not read."""
    try:
        seconds = float(header) if header else math.nan
    except ValueError:
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None
