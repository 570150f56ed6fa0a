"""What an auditor makes of an effect outside who has the exported log, and nothing else.

Reads lines of JSON and imports nothing of ours. Each answer is held against another event of
the log: what a worker says of a call, against what the people who are named did themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Event = dict[str, Any]
LET_GO = ("approve", "edit", "break_glass")


@dataclass(frozen=True)
class Try:
    """One time that a call was made, and what let it."""

    approvers: frozenset[str]  # by user id; of a sticky rule: who had it remembered
    revision: int | None  # of what they approved,
    digest: str | None
    policy: tuple[str, int] | None  # that asked, or that asked nobody
    by: str  # approve, edit, break_glass, sticky, policy, code
    again: bool  # people said before that it had not happened


@dataclass(frozen=True)
class Effect:
    tries: list[Try]
    came: str  # a status; "responded" or "left" where a person said what came of it


def trace(lines: Iterable[str], key: str) -> Effect:
    """Of the call that the outside knows by this key."""
    return _Log(lines).effect(key)


class _Log:
    def __init__(self, lines: Iterable[str]) -> None:
        read = (json.loads(line)["event"] for line in lines)
        self.events: list[Event] = sorted(read, key=lambda event: event["position"])

    def of(self, *actions: str, about: str = "", **detail: Any) -> list[Event]:
        return [
            event
            for event in self.events
            if event["action"] in actions
            and about in ("", event["object_id"])
            and all(event["detail"].get(name) == it for name, it in detail.items())
        ]

    def effect(self, key: str) -> Effect:
        begun = self.of("begin", call=key)
        assert begun, f"nothing says that {key} was begun"
        return Effect([self.tried(each) for each in begun], self.came_of(key))

    def came_of(self, key: str) -> str:
        """What is known of it: by the worker that made it, or who was asked later."""
        last = self.of("begin", call=key)[-1]
        said = [
            event
            for event in self.of("execute", "respond", "reject", call=key)
            if event["position"] > last["position"]
        ]
        if not said:
            return "unknown"
        if said[0]["action"] == "respond":
            return "responded"
        if said[0]["action"] == "reject":
            return "left"
        status: str = said[0]["detail"]["status"]
        return status

    def tried(self, begun: Event) -> Try:
        why = begun["detail"]
        policy = None
        if "policy" in why:
            policy = why["policy"], why["policy_version"]
        if "approvers" in why:
            return self.approved(begun, policy)
        if "sticky" in why:
            return self.remembered(begun, policy)
        if policy:
            (let,) = self.of("auto_approve", about=why["call"])
            assert (let["detail"]["policy"], let["detail"]["policy_version"]) == policy
            return Try(frozenset(), None, None, policy, "policy", again=False)
        assert why["unasked"]
        return Try(frozenset(), None, None, None, "code", again=False)

    def approved(self, begun: Event, policy: tuple[str, int] | None) -> Try:
        why = begun["detail"]
        asked = self.asked(begun)
        assert asked.get("in_doubt") or policy == _policy_of(asked)
        said = [self.yes(begun, actor) for actor in why["approvers"]]
        closing = max(said, key=lambda event: event["position"])
        if closing["action"] != "break_glass":
            assert len(said) >= (closing["detail"].get("needed") or 1)
        return Try(
            frozenset(why["approvers"]),
            why["revision"],
            why["digest"],
            policy,
            closing["action"],
            again=bool(asked.get("in_doubt")),
        )

    def asked(self, begun: Event) -> Event:
        """What was asked last before this, of the same request."""
        why = begun["detail"]
        asked = [
            event["detail"]
            for event in self.of("ask", about=why["approval"])
            if event["position"] < begun["position"]
        ]
        found: Event = asked[-1]
        assert found["call"] == why["call"]
        assert found["revision"] <= why["revision"]
        return found

    def yes(self, begun: Event, actor: str) -> Event:
        """What this person did themselves: to the same bytes, and not taken back."""
        why = begun["detail"]
        said = [
            event
            for event in self.of(*LET_GO, about=why["approval"], digest=why["digest"])
            if str(event["actor"]) == actor and event["position"] < begun["position"]
        ]
        assert said, f"{actor} is named as an approver and approved nothing of this"
        last = said[-1]
        # An edit that approves makes a revision of its own.
        made = last["detail"]["revision"] + (last["action"] == "edit")
        assert made == why["revision"]
        back = self.of("undo", about=why["approval"])
        assert not [
            event
            for event in back
            if last["position"] < event["position"] < begun["position"]
        ]
        return last

    def remembered(self, begun: Event, policy: tuple[str, int] | None) -> Try:
        why = begun["detail"]
        (hit,) = self.of("sticky", about=why["sticky"], call=why["call"])
        (made,) = self.of("sticky_make", about=why["sticky"])
        assert str(made["actor"]) == why["made_by"] == str(hit["detail"]["made_by"])
        assert made["detail"]["approval"] == why["remembered_from"]
        assert not [
            event
            for event in self.of("sticky_revoke", about=why["sticky"])
            if event["position"] < hit["position"]
        ]
        digest, revision = made["detail"]["digest"], made["detail"]["revision"]
        yes = [
            event
            for event in self.of(*LET_GO, about=why["remembered_from"], digest=digest)
            if str(event["actor"]) == why["made_by"]
        ]
        assert yes, "nobody approved what is remembered"
        people = frozenset([why["made_by"]])
        return Try(people, revision, digest, policy, "sticky", again=False)


def _policy_of(asked: Event) -> tuple[str, int] | None:
    if asked.get("policy") is None:
        return None
    return asked["policy"], asked["policy_version"]
