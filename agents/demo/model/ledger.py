"""The external ledger: the world outside, as the demo's tools see it.

It records every effect it receives, repeats included; tests judge "exactly once" by it.
A repeated Idempotency-Key gets the first answer again and has no second effect.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from pathlib import Path
from typing import Any

from agents.demo.model.errors import ApiError, invalid

PREFIXES = {"bookings": "PNR", "refunds": "RFD", "holds": "H", "emails": "MSG"}
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # no I, O, 0, 1: people read these aloud


def confirmation(kind: str, key: str) -> str:
    """A booking code that the same key always gets."""
    digest = hashlib.sha256(f"{kind}/{key}".encode()).digest()
    code = "".join(LETTERS[byte % len(LETTERS)] for byte in digest[:6])
    return f"{PREFIXES.get(kind, 'REF')}-{code}"


class Ledger:
    """In memory; with a `path`, also a file of one JSON line per effect received."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._path = path
        self._effects: list[dict[str, Any]] = []
        if path and path.exists():
            with path.open(encoding="utf-8") as lines:
                self._effects = [json.loads(line) for line in lines if line.strip()]

    def receive(self, kind: str, key: str | None, body: Any) -> tuple[int, Any]:
        """Status and answer. Raises ApiError: 400 without a key, 409 for a key reused."""
        if not key:
            raise invalid("An Idempotency-Key header is required.", "Idempotency-Key")
        with self._lock:
            first = self._first(kind, key)
            if first is not None and first["body"] != body:
                self._write(kind, key, body, applied=False)
                raise ApiError(
                    409,
                    f"Idempotency-Key '{key}' was used for another request.",
                    code="idempotency_key_reused",
                )
            self._write(kind, key, body, applied=first is None)
        answer = {
            "confirmation": confirmation(kind, key),
            "kind": kind,
            "replayed": first is not None,
        }
        return (201 if first is None else 200), answer

    def effects(self) -> list[dict[str, Any]]:
        """Everything received, in order; `applied` is False for a repeat."""
        with self._lock:
            return [dict(effect) for effect in self._effects]

    def find(self, kind: str, key: str) -> dict[str, Any] | None:
        with self._lock:
            return self._first(kind, key)

    def clear(self) -> None:
        with self._lock:
            self._effects.clear()
            if self._path:
                self._path.unlink(missing_ok=True)

    def _first(self, kind: str, key: str) -> dict[str, Any] | None:
        for effect in self._effects:
            if (effect["kind"], effect["key"]) == (kind, key) and effect["applied"]:
                return effect
        return None

    def _write(self, kind: str, key: str, body: Any, *, applied: bool) -> None:
        effect = {
            "at": time.time(),
            "kind": kind,
            "key": key,
            "body": body,
            "applied": applied,
        }
        self._effects.append(effect)
        if self._path:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(effect, ensure_ascii=False) + "\n")
                file.flush()
