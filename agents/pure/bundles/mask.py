"""What is left out of a file: secrets that slipped in, and paths that somebody names.

A secret within a value is replaced where it stands, so a step's operations stay what they
were. Where a key, or a path of the state, has to go, that cannot be done: then each step's
operations are made anew, from the masked state before it to the masked state after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agents.pure.redact import redact
from checkpoints.errors import BadOperation
from checkpoints.pure import ops as operations
from checkpoints.pure import schema
from checkpoints.pure.codec import State
from checkpoints.pure.ops import Op
from checkpoints.pure.pointer import pointer, split

MASKED = "[masked]"
MOST_REMADE = 5_000  # steps whose operations are made anew: each takes its whole state
SHORTEST = 4  # characters of a masked text that is masked wherever else it stands

Capture = Callable[[Any], tuple[Any, list[str]]]


class Masks:
    """What one export masks, and what it has masked so far."""

    def __init__(self, capture: Capture, paths: Sequence[str] = ()) -> None:
        """`capture` finds secrets (`agents.tools.secrets`); `paths` are JSON Pointers.

        Raises BadOperation for what is no path, and for the version of the state: without
        it nobody could import what is left.
        """
        self._capture = capture
        self._paths = [split(path) for path in dict.fromkeys(paths) if path]
        if (schema.KEY,) in self._paths:
            raise BadOperation("mask", f"/{schema.KEY}", "a state's version stays")
        self._known: dict[str, str] = {}
        self.secrets: dict[str, None] = {}
        self.paths: dict[str, None] = {}

    @property
    def has_paths(self) -> bool:
        return bool(self._paths)

    def learn(self, states: Iterable[State]) -> None:
        """The texts at the masked paths: they are masked wherever else they stand."""
        for state in states:
            for path in self._paths:
                for text in _texts(_at(state, path)):
                    if len(text) >= SHORTEST:
                        self._known.setdefault(text, pointer(*path))

    def value(self, value: Any) -> Any:
        """Any JSON without secrets; the same object where nothing was found."""
        kept, found = self._capture(value)
        self.secrets.update(dict.fromkeys(found))
        if self._known:
            kept, found = redact(kept, self._known)
            self.paths.update(dict.fromkeys(found))
        return kept

    def ops(self, ops: list[Op]) -> list[Op] | None:
        """The operations without secrets. None: only states can say what they become."""
        kept: list[Op] = self.value(ops)
        return kept if kept is ops or _frame(kept) == _frame(ops) else None

    def state(self, state: State) -> State:
        """The state without what is masked."""
        for path in self._paths:
            masked = _without(state, path)
            if masked is not state:
                self.paths[pointer(*path)] = None
            state = masked
        kept: State = self.value(state)
        return kept

    def said(self) -> list[dict[str, str]]:
        """For the manifest."""
        secrets = [{"what": "secret", "name": name} for name in self.secrets]
        return secrets + [{"what": "path", "name": path} for path in self.paths]


def remade(before: State | None, after: State) -> list[Op]:
    """Operations from one masked state to the next; of a first step, the whole state."""
    if before is None:
        return [operations.reset(after)]
    return operations.diff(before, after)


def _frame(ops: list[Op]) -> list[Any]:
    """All that decides where operations apply: their paths, and the keys of their values."""
    found: list[Any] = []
    for op in ops:
        last = len(op) - (op[0] not in ("delete", "unset"))
        found.append(op[:last])
        found.extend(map(_keys, op[last:]))
    return found


def _keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_keys(item) for item in value]
    return None


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _without(value: Any, path: tuple[str, ...]) -> Any:
    """The value with a mark at the path; the same object where nothing is there."""
    if not path:
        return MASKED
    part, rest = path[0], path[1:]
    if isinstance(value, dict) and part in value:
        inner = _without(value[part], rest)
        return value if inner is value[part] else {**value, part: inner}
    if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
        at = int(part)
        inner = _without(value[at], rest)
        if inner is not value[at]:
            return [*value[:at], inner, *value[at + 1 :]]
    return value
