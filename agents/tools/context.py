"""What a running tool gets from us, if it asks for it: its key, working memory, its run."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal, InvalidOperation
from typing import Any

from agents.errors import ToolError
from agents.pure.context import CHANNEL
from agents.tools import secrets
from checkpoints.access import RunPrincipal
from checkpoints.entry_vectors import Embedder
from checkpoints.errors import BadOperation, NotStorable
from checkpoints.pure import ops, refs
from checkpoints.pure.codec import State, canonical, parse
from checkpoints.pure.ops import Op, fold
from checkpoints.pure.pointer import pointer

# The transcript and the parameters are the engine's to change, how a run was resumed the
# runner's.
_CLOSED = frozenset(
    {"messages", "params", "tool_results", "environment", "_schema", CHANNEL}
)

LARGEST = 8 * 1024 * 1024  # bytes that one call may add; a step has room for twice that

MOST_QUOTED = 80  # characters of an id that is none

MOST_SPENT = 100_000  # US dollars, by one call
_SMALLEST = Decimal("0.000001")

Recall = Callable[[Any], Any]  # a value with what its references to blobs stand for


class IdempotencyKey(str):
    """The key of the call: the same each time that this one call is tried."""

    __slots__ = ()


class WorkingMemory:
    """The channels of the state, to read and to change.

    Changes are operations: they are committed with the step, or not at all.
    """

    def __init__(self, state: State, recall: Recall, *, memory: bool = True) -> None:
        self._memory = memory
        self._state = state
        self._recall = recall
        self._ops: list[Op] = []
        self._size = 0

    def get(self, channel: str, default: Any = None) -> Any:
        """A copy of a channel (`facts`, `plan`, `vars` …), with the changes made here.

        In full: with what is kept as blobs.
        """
        self._require_memory()
        if channel not in self._state:
            return default
        return deepcopy(self._recall(self._state[channel]))

    def large(self, name: str) -> str:
        """A text of this thread's state that is kept as a blob, by the blob's id.

        Raises ToolError where the state has none of this id, and where it is no text.
        """
        self._require_memory()
        for ref in refs.refs(self._state):
            if ref["$blob"] == name:
                break
        else:
            raise ToolError(
                f"Nothing that is kept apart has the id {name[:MOST_QUOTED]!r}. Give the"
                " one that stands in the result's line."
            )
        if not ref["media_type"].startswith("text/"):
            raise ToolError(f"It is no text: it is {ref['media_type']}.")
        text = self._recall(ref)
        if not isinstance(text, str):  # it only looked like one of ours
            raise ToolError("Nothing is kept under that id any more.")
        return text

    def set(self, channel: str, value: Any) -> None:
        """Replace a channel."""
        self._change(channel, ops.set_(pointer(channel), value))

    def put(self, channel: str, key: str, value: Any) -> None:
        """Put a value under a key of a channel that is an object: facts, vars."""
        self._change(channel, ops.put(pointer(channel), key, value))

    def remove(self, channel: str, key: str) -> None:
        """Take the value under a key away from a channel that is an object."""
        self._change(channel, ops.delete(pointer(channel), key))

    def append(self, channel: str, value: Any) -> None:
        """Add to the end of a channel that is a list: plan, decisions, todos."""
        self._change(channel, ops.append(pointer(channel), value))

    @property
    def ops(self) -> tuple[Op, ...]:
        return tuple(self._ops)

    def _require_memory(self) -> None:
        if not self._memory:
            raise ToolError(
                "Results of this tool are cached, so it can neither read nor change "
                "working memory."
            )

    def _change(self, channel: str, op: Op) -> None:
        self._require_memory()
        if channel in _CLOSED:
            raise ToolError(f"The channel {channel!r} is not a tool's to change.")
        try:
            text = canonical(op, most=LARGEST)
            copy: Op = parse(text)  # type: ignore[assignment]  # a list
            self._state = fold(self._state, [copy])
        except (BadOperation, NotStorable) as error:
            raise ToolError(f"Working memory was not changed: {error}") from error
        self._size += len(text)
        if self._size > LARGEST:
            raise ToolError(
                f"Working memory was not changed: one call may add {LARGEST // 1024**2}"
                " MB at most."
            )
        self._ops.append(copy)


class ToolContext(WorkingMemory):
    """Working memory, as the tool sees and changes it.

    Changes are operations: they are committed with the call's result, or not at all
    when the tool fails.
    """

    def __init__(
        self,
        state: State,
        recall: Recall = lambda value: value,
        *,
        memory: bool = True,
        run: RunPrincipal | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        """Without `memory`, there is none to read or change: a result that is given
        again for the same arguments must not depend on anything else. Without `run`,
        the tool is tried out, and has no long-term memory."""
        super().__init__(state, recall, memory=memory)
        self._run = run
        self.embedder = embedder  # None: memory is searched by words
        self.cost: Decimal | None = None  # US dollars; None: nothing was said of it

    @property
    def run(self) -> RunPrincipal:
        """The run, acting for whoever started it: what long-term memory is asked with."""
        if self._run is None or not self._memory:
            raise ToolError(
                "This call has no long-term memory: it is tried out, or its results are"
                " cached."
            )
        return self._run

    def secret(self, name: str) -> str:
        """The secret of this name, as it is now (`agents/tools/secrets.py`).

        Use it; never return or remember it. Raises SecretUnusable.
        """
        return secrets.resolve(name)

    def spent(self, amount: Decimal | str | int, currency: str = "USD") -> None:
        """Say what this call cost, in US dollars. Said several times, it adds up.

        It counts for the step and the run, also where the tool then fails. Of a call
        that is made again with its key, what the try that ended it said counts.
        """
        if currency != "USD":
            raise ToolError(
                f"Costs are counted in USD; this one was given in {currency!r}."
            )
        try:
            dollars = Decimal(amount) if not isinstance(amount, float) else None
        except (InvalidOperation, TypeError, ValueError):
            dollars = None
        spent = self.cost or Decimal(0)
        if (
            dollars is None
            or not dollars.is_finite()
            or not 0 <= dollars <= MOST_SPENT - spent
        ):
            raise ToolError(
                f"The cost of a call is 0 to {MOST_SPENT:,} US dollars, as a Decimal, a"
                f' text such as "0.25" or a whole number; a {type(amount).__name__} was'
                " given that is none."
            )
        self.cost = spent + dollars.quantize(_SMALLEST)
