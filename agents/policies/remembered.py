"""What a sticky rule holds: when it matches, and for what it was made.

Sealed as one, so that whoever can write the table cannot make one up, nor give one to
another tool, person or thread, nor a longer life.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

from agents.errors import InvalidSticky
from agents.models import StickyRule
from agents.pure import policy
from checkpoints.pure.codec import same
from checkpoints.pure.pointer import pointer

# What an argument may be widened to. No patterns: they match more than they seem to.
OPS = ("eq", "gt", "gte", "lt", "lte", "in", "starts_with", "contains")


def leaves(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Each argument by its path: of objects what is in them, lists as a whole."""
    return dict(_leaves(dict(arguments), ()))


def _leaves(value: Any, parts: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    # No function within the other, which would hold on to what it found until the garbage
    # is collected: a look back reads thousands of calls.
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*parts, name))
    elif parts:
        yield pointer(*parts), value


def exact(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The narrowest predicate: exactly these arguments."""
    return {
        "all": [
            {"path": path, "op": "eq", "value": value}
            for path, value in leaves(arguments).items()
        ]
    }


def require_narrow(predicate: object, arguments: Mapping[str, Any]) -> None:
    """Raises InvalidSticky where it is none that `exact` could be widened to."""
    wrong = policy.problem(predicate)
    if wrong is not None or not isinstance(predicate, Mapping):
        raise InvalidSticky({"predicate": wrong or "a rule is an object"})
    conditions = predicate.get("all")
    if not isinstance(conditions, list) or len(predicate) != 1:
        raise InvalidSticky({"predicate": "It is a list of conditions: all."})
    paths = leaves(arguments)
    for condition in conditions:
        path, op = condition.get("path"), condition.get("op")
        if path not in paths or op not in OPS:
            name = path if isinstance(path, str) else "predicate"
            raise InvalidSticky({name: f"One of the arguments, by {', '.join(OPS)}."})
    if paths and not conditions:
        raise InvalidSticky({"predicate": "Keep one argument, at least."})
    if policy.answer(predicate, arguments) is not True:
        raise InvalidSticky({"predicate": "This call itself would not match."})


def bound(rule: StickyRule, when: Mapping[str, Any], more: Mapping[str, Any]) -> Any:
    """What is sealed: the predicate, what else tells, and the row's own columns."""
    return {
        "when": dict(when),
        **more,
        "row": {
            "agent": str(rule.agent_id),
            "thread": str(rule.thread_id),
            "run": str(rule.run_id),
            "approval": str(rule.approval_id),
            "tool": rule.tool,
            "scope": str(rule.scope),
            "by": rule.made_by_id,
            "expires_at": rule.expires_at.astimezone(UTC).isoformat(),
        },
    }


def matches(
    rule: StickyRule, kept: Any, *, version: str, arguments: Mapping[str, Any]
) -> bool:
    """Whether what was sealed is about this row, this tool and these arguments."""
    if not isinstance(kept, dict):
        return False
    more = {name: kept.get(name) for name in ("paths", "version")}
    if not same(kept, bound(rule, kept.get("when") or {}, more)):
        return False  # the row was altered
    if kept.get("version") != version:
        return False  # the tool is another by now
    if not set(leaves(arguments)) <= set(kept.get("paths") or ()):
        return False  # it has arguments that nobody saw
    return policy.answer(kept["when"], arguments) is True
