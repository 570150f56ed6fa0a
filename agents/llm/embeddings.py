"""The embedding model, over OpenAI's API: vectors of texts, soon or not at all.

Nothing is tried again: who searches by words meanwhile waits for it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
import openai
from django.conf import settings

from agents.errors import ModelFailed
from agents.llm.server import Server, line
from checkpoints.errors import NoVectors
from checkpoints.pure.vectors import NotAVector, Vector, unit

BODY_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Embeddings:
    """A model that gives vectors, and the server that has it."""

    server: Server
    model: str

    @classmethod
    def from_settings(cls) -> Embeddings | None:
        """None: none is configured, and searches go by words."""
        if not settings.EMBEDDING_MODEL:
            return None
        server = Server(settings.OPENAI_BASE_URL, settings.OPENAI_API_KEY)
        if settings.EMBEDDING_BASE_URL:  # a key is for one server and no other
            server = Server(settings.EMBEDDING_BASE_URL, settings.EMBEDDING_API_KEY)
        return cls(server, settings.EMBEDDING_MODEL)

    def embed(self, texts: Sequence[str], *, seconds: float) -> list[Vector]:
        """A vector for each text, within this time. Raises NoVectors."""
        try:
            body = self._ask(texts, time.monotonic() + seconds)
            return _vectors(body, len(texts))
        except ModelFailed as none:
            raise NoVectors(str(none)) from None
        except openai.APIStatusError as error:
            raise self._trouble(f"answered with {error.status_code}") from None
        except (openai.APITimeoutError, httpx2.TimeoutException):
            raise self._trouble("did not answer in time") from None
        except (openai.OpenAIError, httpx2.HTTPError):
            raise self._trouble("cannot be reached") from None
        except (ValueError, RecursionError) as wrong:
            said = str(wrong) if isinstance(wrong, NotAVector) else "no JSON"
            raise self._trouble(f"gave vectors that are none: {said}") from None

    def _ask(self, texts: Sequence[str], until: float) -> Any:
        left = max(until - time.monotonic(), 0.001)
        client = line(self.server.base_url, self.server.api_key).client
        with client.embeddings.with_streaming_response.create(
            model=self.model,
            input=list(texts),
            encoding_format="float",
            timeout=httpx2.Timeout(left),
        ) as response:
            body = bytearray()
            for data in response.iter_bytes():
                body += data
                if len(body) > BODY_BYTES:
                    raise NotAVector(f"more than {BODY_BYTES // 1024**2} MB")
                if time.monotonic() > until:  # the timeout is for each read
                    raise self._trouble("answered too slowly")
        return json.loads(body)

    def _trouble(self, what: str) -> NoVectors:
        return NoVectors(f"The embedding model at {self.server.name} {what}.")


def _vectors(body: Any, count: int) -> list[Vector]:
    """In the order of the texts, whatever theirs is. Raises NotAVector."""
    given = body.get("data") if isinstance(body, dict) else None
    if not isinstance(given, list) or len(given) != count:
        raise NotAVector(f"there are not {count} of them")
    found: dict[int, Vector] = {}
    for one in given:
        if not isinstance(one, dict) or type(one.get("index")) is not int:
            raise NotAVector("one does not say which text it is of")
        numbers = one.get("embedding")
        if not isinstance(numbers, list):
            raise NotAVector("one has no numbers")
        found[one["index"]] = unit(numbers)
    if sorted(found) != list(range(count)):
        raise NotAVector("they are of other texts")
    return [found[place] for place in range(count)]
