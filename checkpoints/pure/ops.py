"""Operations: how a step changes state. Stored instead of the state itself.

An operation is a short JSON list. Paths are JSON Pointers (RFC 6901): "" is the
state, "/messages/0" the first message, "/facts/a~1b" the fact "a/b".

    ["append", path, value]     the list at `path` gets `value` at its end
    ["put", path, key, value]   the object at `path` gets `value` under `key`
    ["delete", path, key]       the object at `path` loses `key`, which it has
    ["set", path, value]        what is at `path` becomes `value`
    ["unset", path]             what is at `path` goes; later items of a list move up
    ["reset", value]            the whole state becomes `value`

`append` and `put` begin the list or the object when its own parent has nothing
under that name yet: a channel comes into being with its first entry. `set` may
name a new key of an object, never a new index of a list. `put` and `delete` take
the key as data, so a key that a model made up is never read as a path or an index.
Anything else that does not fit raises BadOperation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from checkpoints.errors import BadOperation
from checkpoints.pure.codec import State, depth, same, size
from checkpoints.pure.pointer import index, pointer, split
from checkpoints.pure.strict import MAX_DEPTH

Op = list[Any]

_ARITY = {"append": 3, "put": 4, "delete": 3, "set": 3, "unset": 2, "reset": 2}
_AT_PATH = {"set", "unset"}  # change what is at their path; others, what is in it
_WHOLE = "the whole state is replaced by reset only"


def append(path: str, value: object) -> Op:
    return ["append", path, value]


def put(path: str, key: str, value: object) -> Op:
    return ["put", path, key, value]


def delete(path: str, key: str) -> Op:
    return ["delete", path, key]


def set_(path: str, value: object) -> Op:
    return ["set", path, value]


def unset(path: str) -> Op:
    return ["unset", path]


def reset(value: State) -> Op:
    return ["reset", value]


def fold(state: State, ops: Iterable[Op]) -> State:
    """The state after these operations.

    Changes nothing that it was given; the result shares with it all that stayed
    the same, and shares values with the operations. Raises BadOperation.
    """
    folder = Folder(state)
    folder.fold(ops)
    return folder.state


def diff(before: State, after: State) -> list[Op]:
    """Operations that turn one state into the other, for edits whose making nobody saw.

    Law: canonical(fold(before, diff(before, after))) == canonical(after). Empty where
    the two are the same; a single `reset` where more than half of the state would
    have to be written. Appended items are appended; an item that moved within its
    list is written again.
    """
    ops = list(_diff_objects(before, after, ()))
    if ops and 2 * size(ops) > size(after):
        return [reset(after)]
    return ops


def _diff_objects(before: Any, after: Any, path: tuple[str | int, ...]) -> Iterator[Op]:
    at = pointer(*path)
    for key in before:
        if key not in after:
            yield delete(at, key)
    for key, value in after.items():
        if key not in before:
            yield put(at, key, value)
        elif not same(before[key], value):
            yield from _diff_values(before[key], value, (*path, key))


def _diff_values(before: Any, after: Any, path: tuple[str | int, ...]) -> Iterator[Op]:
    """For two values that are not the same."""
    if type(before) is dict and type(after) is dict:
        ops = list(_diff_objects(before, after, path))
    elif type(before) is list and type(after) is list:
        ops = list(_diff_lists(before, after, path))
    else:
        ops = []
    whole = set_(pointer(*path), after)
    if ops and size(ops) <= size(whole):
        yield from ops
    else:
        yield whole


def _diff_lists(before: Any, after: Any, path: tuple[str | int, ...]) -> Iterator[Op]:
    start = 0
    shorter = min(len(before), len(after))
    while start < shorter and same(before[start], after[start]):
        start += 1
    # A run of items taken out: what follows it moves up. From its end, as it shrinks.
    gone = len(before) - len(after)
    if gone > 0 and all(map(same, before[start + gone :], after[start:])):
        for position in range(start + gone - 1, start - 1, -1):
            yield unset(pointer(*path, position))
        return
    for position in range(start, shorter):
        if not same(before[position], after[position]):
            yield from _diff_values(
                before[position], after[position], (*path, position)
            )
    for position in range(len(before) - 1, shorter - 1, -1):
        yield unset(pointer(*path, position))
    for value in after[shorter:]:
        yield append(pointer(*path), value)


class Folder:
    """One fold under way: copies a container the first time that it changes it.

    `state` is what it has come to, until it is given more operations: they change it.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        # The containers that this fold has made. Held, so that no id is used twice.
        self.own: dict[int, Any] = {}
        # Those of them that are channels, and lists, by path.
        self.lists: dict[str, list[Any]] = {}

    def fold(self, ops: Iterable[Op]) -> None:
        """Go on with these operations. Raises BadOperation."""
        lists = self.lists
        for op in ops:
            # Most of a long fold is appending to a channel that is known to be a list.
            if type(op) is list and len(op) == 3 and op[0] == "append":
                channel = lists.get(op[1]) if type(op[1]) is str else None
                if channel is not None:
                    channel.append(op[2])
                    continue
            self.apply(op)

    def apply(self, op: Op) -> None:
        name = _checked_name(op)
        if name == "reset":
            if type(op[1]) is not dict:
                raise BadOperation(name, "", "state is an object")
            self.state = op[1]
            self.lists.clear()
            return
        path = op[1]
        if name != "append" and path.count("/") < (2 if name in _AT_PATH else 1):
            self.lists.clear()  # a channel may be another one now
        try:
            parts = split(path)
            match name:
                case "append":
                    found = self._container(parts, list)
                    found.append(op[2])
                    _check_depth(len(parts) + 1, op[2])
                    if len(parts) == 1:
                        self.lists[path] = found
                case "put":
                    self._container(parts, dict)[_checked_key(op[2])] = op[3]
                    _check_depth(len(parts) + 1, op[3])
                case "delete":
                    self._delete(parts, _checked_key(op[2]))
                case "set":
                    self._set(parts, op[2])
                    _check_depth(len(parts), op[2])
                case _:
                    self._unset(parts)
        except _Misfit as misfit:
            raise BadOperation(name, path, str(misfit)) from None

    def _container(self, parts: tuple[str, ...], kind: type[Any]) -> Any:
        """The list or object there, begun where there is none, ready to be changed."""
        if parts:
            parent, last = self._reach(parts[:-1]), parts[-1]
            if type(parent) is dict and last not in parent:
                parent[last] = self._owned(kind())
        node = self._reach(parts)
        if type(node) is not kind:
            raise _Misfit(f"there is {_NOUN[type(node)]}, not {_NOUN[kind]}")
        return node

    def _delete(self, parts: tuple[str, ...], key: str) -> None:
        node = self._reach(parts)
        if type(node) is not dict:
            raise _Misfit("there is a list, not an object")
        if key not in node:
            raise _Misfit(f"there is no key {key!r}")
        del node[key]

    def _set(self, parts: tuple[str, ...], value: object) -> None:
        if not parts:
            raise _Misfit(_WHOLE)
        parent, last = self._reach(parts[:-1]), parts[-1]
        parent[last if type(parent) is dict else _existing(parent, last)] = value

    def _unset(self, parts: tuple[str, ...]) -> None:
        if not parts:
            raise _Misfit(_WHOLE)
        parent = self._reach(parts[:-1])
        del parent[_existing(parent, parts[-1])]

    def _reach(self, parts: tuple[str, ...]) -> Any:
        """The container there, after making it and all above it our own."""
        node = self.state = self._owned(self.state)
        for part in parts:
            name = _existing(node, part)
            child = node[name]
            if type(child) not in _NOUN:
                raise _Misfit(f"{part!r} is neither an object nor a list")
            node[name] = mine = self._owned(child)
            node = mine
        return node

    def _owned(self, node: Any) -> Any:
        if id(node) in self.own:
            return node
        mine = node.copy()
        self.own[id(mine)] = mine
        return mine


class _Misfit(Exception):
    """Why an operation does not fit; becomes a BadOperation, which names the path."""


_NOUN: dict[type, str] = {dict: "an object", list: "a list"}


def _existing(node: Any, part: str) -> str | int:
    """The key or index that `part` names in a container that has it."""
    if type(node) is dict:
        if part not in node:
            raise _Misfit(f"there is no key {part!r}")
        return part
    at = index(part)
    if at is None:
        raise _Misfit(f"{part!r} is not an index of a list")
    if at >= len(node):
        raise _Misfit(f"there is no item {at}, the list has {len(node)}")
    return at


def _checked_name(op: Op) -> str:
    name = op[0] if type(op) is list and op and type(op[0]) is str else ""
    if _ARITY.get(name) != len(op):
        raise BadOperation(name or "?", "", f"not one of {', '.join(_ARITY)}, complete")
    if name != "reset" and type(op[1]) is not str:
        raise BadOperation(name, "", "its path is not text")
    return name


def _checked_key(key: object) -> str:
    if type(key) is not str:
        raise _Misfit("its key is not text")
    return key


def _check_depth(at: int, value: object) -> None:
    # Operations are stored in a list: their values are below the limit by two.
    if at > 2 and at + depth(value) > MAX_DEPTH:
        raise _Misfit(f"it would be more than {MAX_DEPTH} levels deep")
