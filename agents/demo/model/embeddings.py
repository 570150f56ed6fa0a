"""Vectors that stand in for an embedding model's: words that mean the same count as one.

Each word, without its ending, or what it is a synonym of, has a direction of its own, made
from its hash; a text points where its words do, together. So a paraphrase in words that the
table knows lies near, and what has nothing in common lies far, the same each time.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache
from math import sqrt
from typing import Any

from agents.demo.model.errors import invalid, no_model

MODEL = "scripted-embedding-1"
DIMENSIONS = 256
MOST_TEXTS = 2_048  # of one request, as OpenAI's
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ers", "er", "ed", "es", "s", "e")
_EMPTY = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "do",
        "does",
        "for",
        "from",
        "has",
        "have",
        "how",
        "i",
        "in",
        "is",
        "it",
        "its",
        "may",
        "me",
        "my",
        'of"',
        '"',
        "on",
        "or",
        "our",
        "please",
        "s",
        "she",
        "he",
        "they",
        "should",
        "that",
        "the",
        "their",
        "there",
        "these",
        "this",
        "to",
        "was",
        "we",
        'what"',
        '"',
        "when",
        "where",
        "which",
        "who",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)
_SAME = (
    "allergy allergic intolerance intolerant",
    "peanut nut nuts",
    "plane flight fly airline aircraft",
    "hotel lodging accommodation stay room",
    "seat place chair sit",
    "invoice bill billing",
    "send mail post deliver",
    "password passphrase code",
    "wifi internet network wireless",
    "insurance policy cover coverage insured",
    "passport document papers",
    "expire expiry end lapse valid validity",
    "layover stopover transfer connection stop",
    "budget spend limit afford money",
    "dinner supper meal eat food",
    "phone telephone call number ring",
    "car vehicle automobile drive rental rent",
    "electric battery ev",
    "luggage baggage suitcase bag",
    "discount rebate reduction voucher",
    "start begin opening commence",
    "conference congress summit",
    "taxi cab",
    "refund reimbursement repay",
    "contact reach person",
    "emergency urgent accident",
    "ticket admission entry",
    "return back",
    "doctor physician medical",
    "quiet silent calm noise",
    "train rail railway",
    "boss manager supervisor",
    "vegetarian meatless vegan meat",
    "birthday born birth",
    "prefer preference like favourite want",
)


def answer(body: dict[str, Any]) -> dict[str, Any]:
    """OpenAI's answer to POST /v1/embeddings. Raises ApiError."""
    texts = body.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not 0 < len(texts) <= MOST_TEXTS:
        raise invalid("'input' is a text, or a list of texts.", "input")
    if not all(isinstance(text, str) and text for text in texts):
        raise invalid("'input' holds something that is no text, or is empty.", "input")
    model = body.get("model")
    if not isinstance(model, str) or not model.startswith("scripted-embedding-"):
        raise no_model(str(model))
    if body.get("encoding_format", "float") != "float":
        raise invalid("'encoding_format' is 'float'.", "encoding_format")
    data = [
        {"object": "embedding", "index": place, "embedding": vector(model, text)}
        for place, text in enumerate(texts)
    ]
    used = sum(map(len, texts)) // 4
    usage = {"prompt_tokens": used, "total_tokens": used}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def vector(model: str, text: str) -> list[float]:
    """Of length 1. Another model has other directions, and another number of them."""
    size = DIMENSIONS // 2 if model.endswith("-small") else DIMENSIONS
    total = [1e-3] + [0.0] * (size - 1)  # a text without words points somewhere, too
    for word in set(_words(text)):
        for place, number in enumerate(_direction(model, word, size)):
            total[place] += number
    length = sqrt(sum(number * number for number in total))
    return [number / length for number in total]


def _words(text: str) -> list[str]:
    found = re.findall(r"[^\W_]+", text.casefold().replace("wi-fi", "wifi"))
    return [_meaning(word) for word in found if word not in _EMPTY]


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


_MEANINGS = {
    _stem(word): line.split()[0] for line in reversed(_SAME) for word in line.split()
}


def _meaning(word: str) -> str:
    stem = _stem(word)
    return _MEANINGS.get(stem, stem)


@lru_cache(maxsize=20_000)
def _direction(model: str, word: str, size: int) -> tuple[float, ...]:
    made = random.Random(f"{model} {word}")  # noqa: S311  # the same each time
    return tuple(made.choice((-1.0, 1.0)) for _ in range(size))
