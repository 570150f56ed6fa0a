"""The attempts at one reply: what each met, what was waited, what was left out."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import httpx2
import openai

from agents.errors import ModelFailed
from agents.llm import trouble
from agents.llm.reading import Answer, Broken
from agents.llm.server import Server, line
from agents.llm.trouble import Trouble
from agents.pure import completion
from agents.pure.context import Request
from agents.pure.step import Reply, ReplyMeta

CONNECT_SECONDS = 10.0
BACKOFF_SECONDS = 0.5  # before the second attempt; doubles, with jitter
BACKOFF_MOST_SECONDS = 8.0
BODY_BYTES = 16 * 1024 * 1024
LINGER_SECONDS = 1.0  # for the end of an answer that is complete

# What a server may do without. It is left out when the server says that it must be.
OPTIONAL = ("temperature", "top_p", "seed", "stream_options", "stream")


class Attempts:
    """Asks until there is a reply, or no point in going on."""

    def __init__(self, server: Server, request: Request, left_out: set[str]) -> None:
        """`left_out`: what the model rejects, as it is known; more may be added."""
        self.server = server
        self.request = request
        self.left_out = left_out
        self.began = time.monotonic()
        self.made: list[dict[str, Any]] = []
        self.given_up = threading.Event()
        # For whoever looks on from another thread.
        self.number = 1  # of the attempt that is being made, but for repeated ones
        self.waits: tuple[str, float] | None = None  # outcome, and seconds after it
        self._answer = Answer()
        self._complete_at: float | None = None

    @property
    def characters(self) -> int:
        return self._answer.characters

    @property
    def is_late(self) -> bool:
        """Whether there is nothing more to wait for."""
        complete = self._complete_at
        lingers = complete is not None and _since(complete) >= LINGER_SECONDS
        return lingers or _since(self.began) >= self.server.seconds

    def take(self) -> Reply:
        """Raises ModelFailed."""
        client = line(self.server.base_url, self.server.api_key).client
        while True:
            started = time.monotonic()
            try:
                found = self._ask(client)
            except Trouble as met:
                self._note(started, met.outcome)
                self._wait_or_fail(met)
                continue
            self._note(started, "ok")
            return self._reply(found)

    def _ask(self, client: openai.OpenAI) -> completion.Completion:
        try:
            found = completion.read(self._send(client))
        except openai.APIStatusError as error:
            optional = [name for name in OPTIONAL if name in self._arguments()]
            raise trouble.refused(
                error, model=self.request.model, optional=optional
            ) from None
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            raise trouble.unreached(error) from None
        except (ValueError, RecursionError):
            raise trouble.garbage() from None
        except completion.NotACompletion as problem:
            raise trouble.unusable(problem) from None
        except completion.ServerError as error:
            raise trouble.broke_off(error) from None
        except Broken:
            raise trouble.cut() from None
        if found.refusal:
            raise trouble.declined(found.refusal)
        return found

    def _send(self, client: openai.OpenAI) -> Any:
        left = self._left()
        timeout = httpx2.Timeout(left, connect=min(left, CONNECT_SECONDS))
        self._answer = answer = Answer()
        self._complete_at = None
        size = 0
        with client.chat.completions.with_streaming_response.create(
            **self._arguments(), timeout=timeout
        ) as response:
            try:
                for data in response.iter_bytes():
                    size += len(data)
                    if size > BODY_BYTES:
                        raise trouble.too_large(BODY_BYTES)
                    answer.feed(data)
                    if answer.is_complete and self._complete_at is None:
                        self._complete_at = time.monotonic()
                    if self._is_over():
                        raise trouble.slow()
            except (httpx2.HTTPError, Trouble):
                if not answer.is_complete:
                    raise
        return answer.body()

    def _arguments(self) -> dict[str, Any]:
        request = self.request
        given = {
            "model": request.model,
            "messages": request.messages,
            "tools": request.tools or None,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": request.seed,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        left_out = self.left_out
        if "stream" in left_out:
            left_out = left_out | {"stream_options"}
        return {
            name: value
            for name, value in given.items()
            if value is not None and name not in left_out
        }

    def _wait_or_fail(self, met: Trouble) -> None:
        if met.without:
            self.left_out.add(met.without)
            self.made[-1]["left_out"] = met.without
            return  # at once: each parameter is left out once, so this ends
        pause = met.after
        if pause is None:
            most = min(BACKOFF_SECONDS * 2 ** (self.number - 1), BACKOFF_MOST_SECONDS)
            pause = most * random.uniform(0.5, 1)  # noqa: S311  # to spread clients
        last = self.number >= self.server.attempts or pause >= self._left()
        if met.again and not last:
            self.made[-1]["wait_ms"] = round(pause * 1000)
            self.waits = met.outcome, pause
            if not self.given_up.wait(pause):
                self.number, self.waits = self.number + 1, None
                return
        raise ModelFailed(met.error_class, self._plain(met), attempts=self.made)

    def _plain(self, met: Trouble) -> str:
        text = f"The model server at {self.server.name} {met.text}"
        if met.text[-1] not in ".!?":
            text += "."
        if met.again:
            tries = f"{len(self.made)} attempts in" if self.made[1:] else "After"
            text += f" {tries} {_since(self.began):.0f} s."
            if met.after:
                text += f" It asks to wait {met.after:.0f} s."
        return text

    def _note(self, started: float, outcome: str) -> None:
        self.made.append(
            {
                "outcome": outcome,
                "after_ms": round((started - self.began) * 1000),
                "took_ms": round(_since(started) * 1000),
            }
        )

    def _left(self) -> float:
        """Seconds of this step that are left; a moment, when it is over."""
        return max(self.server.seconds - _since(self.began), 0.001)

    def _is_over(self) -> bool:
        return self.given_up.is_set() or _since(self.began) >= self.server.seconds

    def _reply(self, found: completion.Completion) -> Reply:
        request, sent = self.request, self._arguments()
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
                latency_ms=round(_since(self.began) * 1000),
            ),
            attempts=tuple(self.made),
            left_out=tuple(name for name in OPTIONAL if name in self.left_out),
            finish_reason=found.finish_reason,
        )


def _since(moment: float) -> float:
    return time.monotonic() - moment
