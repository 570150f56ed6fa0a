"""Secrets that slipped into a value, found and replaced by their names.

Two kinds are found: the exact texts of secrets that are known by name, and what has the
form of a provider's key or token. Forms have telling prefixes, so a text without any is
passed at the speed of a search; scanning for entropy would flag every id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson

DEEPEST = 100  # levels; deeper values are refused where they are stored

_WORD = r"(?<![A-Za-z0-9_-])"  # a token begins where a word does

# A name, what must be there for a closer look, and the form.
FORMS = [
    (name, hint, re.compile(form))
    for name, hint, form in (
        (
            "private-key",
            "PRIVATE KEY-----",
            r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----"
            r"[\s\S]*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----|\Z)",
        ),
        ("api-key", "sk-", _WORD + r"sk-[A-Za-z0-9_-]{20,}"),
        ("payment-key", "_live_", _WORD + r"[rs]k_live_[A-Za-z0-9]{16,}"),
        ("payment-key", "_test_", _WORD + r"[rs]k_test_[A-Za-z0-9]{16,}"),
        ("aws-access-key", "AKIA", _WORD + r"AKIA[0-9A-Z]{16}(?![0-9A-Za-z])"),
        ("aws-access-key", "ASIA", _WORD + r"ASIA[0-9A-Z]{16}(?![0-9A-Za-z])"),
        ("google-key", "AIza", _WORD + r"AIza[0-9A-Za-z_-]{35}"),
        ("github-token", "gh", _WORD + r"gh[oprsu]_[A-Za-z0-9]{36,}"),
        ("github-token", "github_pat_", _WORD + r"github_pat_[A-Za-z0-9_]{22,}"),
        ("gitlab-token", "glpat-", _WORD + r"glpat-[A-Za-z0-9_-]{20,}"),
        ("slack-token", "xox", _WORD + r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
        ("npm-token", "npm_", _WORD + r"npm_[A-Za-z0-9]{36}"),
        ("pypi-token", "pypi-", _WORD + r"pypi-[A-Za-z0-9_-]{50,}"),
        (
            "jwt",
            "eyJ",
            _WORD + r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
        ),
    )
]


# What GitHub's tokens begin with: "gh" alone is in every second sentence.
_HINTS = [
    mark.encode()
    for _, hint, _ in FORMS
    for mark in ([f"gh{kind}_" for kind in "oprsu"] if hint == "gh" else [hint])
]


def redact(value: Any, known: Mapping[str, str]) -> tuple[Any, list[str]]:
    """The JSON value without secrets, and their names; the same object when it had none.

    `known`: text → name. Each is replaced by `[secret NAME]`.
    """
    exact = dict(known)
    for text, name in known.items():  # as it stands within JSON that is text
        exact.setdefault(json.dumps(text, ensure_ascii=False)[1:-1], name)
        exact.setdefault(json.dumps(text)[1:-1], name)
    if _is_free(value, exact):
        return value, []
    # The longest first: one may contain another.
    ordered = sorted(exact.items(), key=lambda item: -len(item[0]))
    found: dict[str, None] = {}
    return _walk(value, ordered, found, 0), list(found)


def _is_free(value: Any, exact: Mapping[str, str]) -> bool:
    """Whether nothing in it even looks like a secret: searched for in one text of all.

    Most steps are; to walk through each of their texts would take as long as to seal them.
    """
    try:
        whole = orjson.dumps(value)
        # As they stand within the text that is made of them.
        wanted = [orjson.dumps(text)[1:-1] for text in exact]
    except TypeError:  # lone surrogates, which orjson refuses
        return False
    return not any(mark in whole for mark in _HINTS) and not any(
        secret in whole for secret in wanted
    )


def _walk(
    value: Any, known: list[tuple[str, str]], found: dict[str, None], depth: int
) -> Any:
    if isinstance(value, str):
        return _text(value, known, found)
    if depth > DEEPEST:
        return value
    if isinstance(value, dict):
        items: list[tuple[Any, Any]] = [
            (
                _text(key, known, found) if isinstance(key, str) else key,
                _walk(item, known, found, depth + 1),
            )
            for key, item in value.items()
        ]
        if all(
            one is key and other is item
            for (one, other), (key, item) in zip(items, value.items(), strict=True)
        ):
            return value
        made: dict[Any, Any] = {}
        for key, item in items:
            while key in made:  # two secrets of one name as keys: both stay
                key = f"{key} again"
            made[key] = item
        return made
    if isinstance(value, list | tuple):
        walked = [_walk(item, known, found, depth + 1) for item in value]
        same = all(one is other for one, other in zip(walked, value, strict=True))
        return value if same else type(value)(walked)
    return value


def _text(text: str, known: list[tuple[str, str]], found: dict[str, None]) -> str:
    for secret, name in known:
        if secret in text:
            found[name] = None
            text = text.replace(secret, f"[secret {name}]")
    for name, hint, form in FORMS:
        if hint in text:
            text, times = form.subn(f"[secret {name}]", text)
            if times:
                found[name] = None
    return text
