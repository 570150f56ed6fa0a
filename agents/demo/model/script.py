"""What a test puts into the server: replies, rules and faults; and what it reads back.

Precedence for a request: a fault that matches; the reply this very request got before
(a worker that was killed and asks again hears the same); the next queued reply; the first
rule that matches; else the server's own answer (a recording, or the persona).
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from agents.demo.model import wire
from agents.demo.model.errors import invalid
from agents.demo.model.faults import Fault, model_fault


@dataclass(frozen=True)
class Rule:
    """Answer `reply` wherever it matches; unlike a queued reply it is not used up."""

    reply: wire.Message
    match: str = ""
    turn: int | None = None


def last_user_text(body: Mapping[str, Any]) -> str:
    for message in reversed(body["messages"]):
        if message["role"] == "user":
            return wire.text_of(message)
    return ""


def turns(body: Mapping[str, Any]) -> int:
    return sum(message["role"] == "assistant" for message in body["messages"])


class Script:
    """Shared by the server's threads; every method takes the lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._replies: deque[wire.Message] = deque()
        self._given: dict[str, wire.Message] = {}  # request hash → queued reply
        self._rules: list[Rule] = []
        self._faults: list[Fault] = []
        self._log: list[dict[str, Any]] = []
        self._embedded: list[dict[str, Any]] = []

    def reset(self) -> None:
        with self._lock:
            self._replies.clear()
            self._given.clear()
            self._rules.clear()
            self._faults.clear()
            self._log.clear()
            self._embedded.clear()

    def load(self, orders: Mapping[str, Any]) -> None:
        """`{"reset": true, "replies": […], "rules": […], "faults": […]}`, any of them."""
        if orders.get("reset"):
            self.reset()
        replies = [_message(reply) for reply in orders.get("replies", ())]
        rules = [
            Rule(_message(rule["reply"]), rule.get("match", ""), rule.get("turn"))
            for rule in orders.get("rules", ())
        ]
        allowed = {field.name for field in fields(Fault)}
        for fault in orders.get("faults", ()):
            if not isinstance(fault, dict) or not set(fault) <= allowed:
                raise invalid(f"A fault has {', '.join(sorted(allowed))}.", "faults")
        faults = [Fault(**fault) for fault in orders.get("faults", ())]
        with self._lock:
            self._replies.extend(replies)
            self._rules.extend(rules)
            self._faults.extend(faults)

    def note(self, entry: dict[str, Any]) -> None:
        with self._lock:
            self._log.append(entry)

    def log(self) -> list[dict[str, Any]]:
        with self._lock:
            return copy.deepcopy(self._log)

    def forget_log(self) -> None:
        with self._lock:
            self._log.clear()

    def note_embedded(self, body: dict[str, Any]) -> None:
        with self._lock:
            self._embedded.append(body)

    def embedded(self) -> list[dict[str, Any]]:
        """Requests for vectors."""
        with self._lock:
            return copy.deepcopy(self._embedded)

    def pending(self) -> int:
        with self._lock:
            return len(self._replies)

    def fault(self, body: Mapping[str, Any]) -> Fault | None:
        text, turn = last_user_text(body), turns(body)
        return self._take("model", text, turn) or model_fault(body["model"])

    def embedding_fault(self, text: str) -> Fault | None:
        return self._take("embeddings", text, None)

    def ledger_fault(self, text: str) -> Fault | None:
        return self._take("ledger", text, None)

    def _take(self, target: str, text: str, turn: int | None) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.target != target or fault.match not in text:
                    continue
                if fault.turn is not None and fault.turn != turn:
                    continue
                if fault.times is not None:
                    fault.times -= 1
                    if not fault.times:
                        self._faults.remove(fault)
                return fault
        return None

    def reply(self, body: Mapping[str, Any]) -> wire.Message | None:
        name = wire.request_hash(body)
        text, turn = last_user_text(body), turns(body)
        with self._lock:
            if name in self._given:
                return copy.deepcopy(self._given[name])
            if self._replies:
                self._given[name] = self._replies.popleft()
                return copy.deepcopy(self._given[name])
            for rule in self._rules:
                if rule.match in text and rule.turn in (None, turn):
                    return copy.deepcopy(rule.reply)
        return None


def _message(reply: Any) -> wire.Message:
    if isinstance(reply, str):
        return wire.say(reply)
    if not isinstance(reply, dict):
        raise invalid("A reply is a text or an assistant message.", "replies")
    return {"role": "assistant", "content": None, **reply}
