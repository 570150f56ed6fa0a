"""The model, over OpenAI's chat completions: what vLLM, Ollama, llama.cpp and the
vendors share. The only module that knows the client.

One reply is one step. Within it a call is tried again when that may help, until the
attempts or the time for the step are used up; each attempt is recorded. The client
retries nothing itself, and its timeout is for each read, so that the time for the
step is watched here, too: while the answer arrives.
"""

from __future__ import annotations

import json
import random
import re
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpx2  # the client's own transport: its errors come through while reading
import openai
from django.conf import settings

from agents.errors import ModelFailed
from agents.pure import completion
from agents.pure.context import Request
from agents.pure.engine import Reply, ReplyMeta
from agents.pure.labels import first_words

CONNECT_SECONDS = 10.0
BACKOFF_SECONDS = 0.5  # before the second attempt; doubles, with jitter
BACKOFF_MOST_SECONDS = 8.0
BODY_BYTES = 16 * 1024 * 1024
QUOTED_CHARACTERS = 300  # of what a server said

# What a server may do without. It is left out when the server says that it must be.
_OPTIONAL = ("temperature", "top_p", "seed")
_OVERFLOW = re.compile(
    r"context.{0,20}(length|window|size)|too many tokens|prompt is too long"
    r"|maximum.{0,20}tokens",
    re.IGNORECASE,
)
_REJECTED = re.compile(
    r"support|unknown|unrecogni[sz]ed|not permitted|unexpected|invalid|only the default",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Server:
    """Where the model is, and how long a step may try."""

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    attempts: int = 4
    seconds: float = 120.0

    @classmethod
    def from_settings(cls) -> Server:
        return cls(
            settings.OPENAI_BASE_URL,
            settings.OPENAI_API_KEY,
            settings.MODEL_ATTEMPTS,
            settings.MODEL_DEADLINE_SECONDS,
        )

    @property
    def name(self) -> str:
        return urlsplit(self.base_url or "https://api.openai.com").netloc


class OpenAIModel:
    """The model that a request names, on one server. Kept for the steps of a run."""

    def __init__(self, server: Server | None = None) -> None:
        self.server = server or Server.from_settings()
        self._left_out: dict[str, set[str]] = {}  # model → parameters it rejects

    def reply(self, request: Request) -> Reply:
        """Raises ModelFailed when no usable reply came in time."""
        return _Step(self, request).take()

    def left_out(self, model: str) -> set[str]:
        return self._left_out.setdefault(model, set())


@dataclass(frozen=True)
class _Trouble(Exception):
    """One attempt failed."""

    error_class: str
    text: str  # plain words, after "The model server at … "
    outcome: str  # for the record: a status or a short name
    again: bool  # whether another attempt may help
    after: float | None = None  # seconds that the server asks to wait
    without: str | None = None  # the parameter that it rejects


class _Step:
    """The attempts at one reply."""

    def __init__(self, model: OpenAIModel, request: Request) -> None:
        self.model = model
        self.server = model.server
        self.request = request
        self.began = time.monotonic()
        self.attempts: list[dict[str, Any]] = []

    def take(self) -> Reply:
        client = _client(self.server.base_url, self.server.api_key)
        while True:
            started = time.monotonic()
            try:
                found = self._ask(client)
            except _Trouble as trouble:
                self._note(started, trouble.outcome)
                self._wait_or_fail(trouble)
                continue
            self._note(started, "ok")
            return self._reply(found)

    def _ask(self, client: openai.OpenAI) -> completion.Completion:
        try:
            body = json.loads(self._send(client))
            found = completion.read(body)
        except openai.APIStatusError as error:
            raise self._refused(error) from None
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            raise _unreached(error) from None
        except (ValueError, RecursionError):
            raise _Trouble(
                "model_error",
                "answered with something that is not JSON",
                "garbage",
                True,
            ) from None
        except completion.NotACompletion as problem:
            text = f"sent an answer that cannot be used: {problem}"
            raise _Trouble("model_error", text, "unusable", True) from None
        if found.refusal:
            text = f"refused to answer: {_quoted(found.refusal)}"
            raise _Trouble("model_refused", text, "refused", False)
        return found

    def _send(self, client: openai.OpenAI) -> bytes:
        left = self._left()
        timeout = httpx2.Timeout(left, connect=min(left, CONNECT_SECONDS))
        body = bytearray()
        with client.chat.completions.with_streaming_response.create(
            **self._arguments(), timeout=timeout
        ) as response:
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > BODY_BYTES:
                    text = f"sent more than {BODY_BYTES // 1024**2} MB"
                    raise _Trouble("model_error", text, "too large", False)
                if self._is_over():
                    raise _Trouble(
                        "model_unreachable", "answered too slowly", "slow", False
                    )
        return bytes(body)

    def _arguments(self) -> dict[str, Any]:
        request = self.request
        given = {
            "model": request.model,
            "messages": request.messages,
            "tools": request.tools or None,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": request.seed,
        }
        left_out = self.model.left_out(request.model)
        return {
            name: value
            for name, value in given.items()
            if value is not None and name not in left_out
        }

    def _refused(self, error: openai.APIStatusError) -> _Trouble:
        status, said = error.status_code, _quoted(_said(error))
        outcome = str(status)
        if status in (400, 413, 422):
            if error.code == "context_length_exceeded" or _OVERFLOW.search(said):
                text = f"says that the conversation is too long for the model: {said}"
                return _Trouble("context_overflow", text, outcome, False)
            if parameter := self._rejected(error, said):
                return _Trouble(
                    "model_error",
                    f"rejects the parameter {parameter}",
                    outcome,
                    True,
                    without=parameter,
                )
        if status == 429:
            if error.code == "insufficient_quota":
                text = f"says that the account's quota is used up: {said}"
                return _Trouble("model_rate_limited", text, outcome, False)
            after = _retry_after(error.response.headers.get("retry-after"))
            text = "limits how often it may be asked (429)"
            return _Trouble("model_rate_limited", text, outcome, True, after=after)
        if status in (401, 403):
            text = f"does not accept our key ({status}): check OPENAI_API_KEY. {said}"
            return _Trouble("model_error", text, outcome, False)
        if status == 404:
            name = self.request.model
            text = f"has no model {name!r}, or nothing at this address (404). {said}"
            return _Trouble("model_error", text, outcome, False)
        if status >= 500 or status in (408, 409):
            after = _retry_after(error.response.headers.get("retry-after"))
            text = f"failed ({status}): {said}"
            return _Trouble("model_error", text, outcome, True, after=after)
        text = f"did not take the request ({status}): {said}"
        return _Trouble("model_error", text, outcome, False)

    def _rejected(self, error: openai.APIStatusError, said: str) -> str | None:
        """The optional parameter that this refusal is about, if it was sent."""
        sent = self._arguments()
        for name in _OPTIONAL:
            if name not in sent:
                continue
            if error.param == name:
                return name
            # Servers of other makes name it in the text only.
            if re.search(rf"\b{name}\b", said) and _REJECTED.search(said):
                return name
        return None

    def _wait_or_fail(self, trouble: _Trouble) -> None:
        if trouble.without:
            self.model.left_out(self.request.model).add(trouble.without)
            self.attempts[-1]["left_out"] = trouble.without
            return  # at once: each parameter is left out once, so this ends
        tries = sum("left_out" not in attempt for attempt in self.attempts)
        pause = trouble.after
        if pause is None:
            most = min(BACKOFF_SECONDS * 2 ** (tries - 1), BACKOFF_MOST_SECONDS)
            pause = most * random.uniform(0.5, 1)  # noqa: S311  # to spread clients
        if not trouble.again or tries >= self.server.attempts or pause >= self._left():
            raise ModelFailed(
                trouble.error_class, self._plain(trouble), attempts=self.attempts
            )
        self.attempts[-1]["wait_ms"] = round(pause * 1000)
        time.sleep(pause)

    def _plain(self, trouble: _Trouble) -> str:
        text = f"The model server at {self.server.name} {trouble.text}"
        if trouble.text[-1] not in ".!?":
            text += "."
        if trouble.again:
            seconds = time.monotonic() - self.began
            tries = (
                f"{len(self.attempts)} attempts in" if self.attempts[1:] else "After"
            )
            text += f" {tries} {seconds:.0f} s."
            if trouble.after:
                text += f" It asks to wait {trouble.after:.0f} s."
        return text

    def _note(self, started: float, outcome: str) -> None:
        self.attempts.append(
            {
                "outcome": outcome,
                "after_ms": round((started - self.began) * 1000),
                "took_ms": round((time.monotonic() - started) * 1000),
            }
        )

    def _left(self) -> float:
        """Seconds of this step that are left; a moment, when it is over."""
        return max(self.began + self.server.seconds - time.monotonic(), 0.001)

    def _is_over(self) -> bool:
        return time.monotonic() - self.began >= self.server.seconds

    def _reply(self, found: completion.Completion) -> Reply:
        request, left_out = self.request, self.model.left_out(self.request.model)
        sent = self._arguments()
        return Reply(
            message=found.message,
            meta=ReplyMeta(
                model_requested=request.model[:100],
                model_returned=found.model[:100],
                temperature=sent.get("temperature"),
                top_p=sent.get("top_p"),
                seed=sent.get("seed"),
                fingerprint=found.fingerprint[:100],
                tokens_in=found.tokens_in,
                tokens_out=found.tokens_out,
                tokens_cached=found.tokens_cached,
                latency_ms=round((time.monotonic() - self.began) * 1000),
            ),
            attempts=tuple(self.attempts),
            left_out=tuple(name for name in _OPTIONAL if name in left_out),
            finish_reason=found.finish_reason,
        )


@lru_cache(maxsize=8)
def _client(base_url: str | None, api_key: str | None) -> openai.OpenAI:
    """One client, so one pool of connections, a server and process."""
    if not api_key and not base_url:
        raise ModelFailed(
            "model_unreachable",
            "No model server is configured: set OPENAI_API_KEY, or OPENAI_BASE_URL for "
            "a server of your own.",
        )
    # Servers of one's own often need no key; the client insists on one.
    return openai.OpenAI(api_key=api_key or "none", base_url=base_url, max_retries=0)


def _unreached(error: Exception) -> _Trouble:
    if isinstance(error, openai.APITimeoutError | httpx2.TimeoutException):
        return _Trouble("model_unreachable", "did not answer in time", "timeout", True)
    cause = error.__cause__ or error
    if isinstance(cause, httpx2.ConnectError):
        return _Trouble("model_unreachable", "cannot be reached", "no connection", True)
    text = "ended the connection before its answer was complete"
    return _Trouble("model_unreachable", text, "cut", True)


def _said(error: openai.APIStatusError) -> str:
    """The server's own words, where it has any."""
    body = error.body
    if isinstance(body, dict):
        for key in ("message", "detail", "error"):
            if isinstance(body.get(key), str):
                return str(body[key])
    return error.message


def _quoted(text: str) -> str:
    return first_words(text, QUOTED_CHARACTERS)


def _retry_after(header: str | None) -> float | None:
    """Seconds; dates, which servers of models do not send, are not read."""
    try:
        return max(float(header), 0.0) if header else None
    except ValueError:
        return None
