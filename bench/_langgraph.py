"""LangGraph's `PostgresSaver` on the same texts: plain, encrypted, with its DeltaChannel.

One `put` a step, as its loop makes it. With a DeltaChannel a step is a `put_writes` and a
`put`: the message is in the first. Each variant has tables of its own, in a schema.
"""

from __future__ import annotations

import secrets
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any
from uuid import uuid4

import psycopg
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.pregel._checkpoint import (
    channels_from_checkpoint,
    create_checkpoint,
    delta_channels_to_snapshot,
    empty_checkpoint,
)
from psycopg.rows import dict_row

from bench import _text
from bench._server import address, bytes_of, milliseconds, seconds

STEPS = 1000
LAST = 100  # steps of which the median is taken
HISTORY = 50
CONFIG: dict[str, Any] = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}


def run(owner: psycopg.Connection[Any], variant: str) -> dict[str, float]:
    """Figures of the variant: "plain", "encrypted" or "delta"."""
    schema = f"langgraph_{variant}"
    owner.execute(f"CREATE SCHEMA {schema}")
    with psycopg.connect(
        address(), autocommit=True, prepare_threshold=0, row_factory=dict_row
    ) as connection:
        connection.execute(f"SET search_path = {schema}")
        serializer = (
            EncryptedSerializer.from_pycryptodome_aes(key=secrets.token_bytes(32))
            if variant == "encrypted"
            else None
        )
        saver = PostgresSaver(connection, serde=serializer)
        saver.setup()
        writer = _Deltas(saver) if variant == "delta" else _Snapshots(saver)
        taken = [
            seconds(partial(writer.put, step, message))
            for step, message in enumerate(_messages())
        ]
        assert len(writer.latest()) == STEPS  # PostgresSaver kept what it was given
        return {
            "put_1000_ms": statistics.median(taken[-LAST:]) * 1000,
            "bytes_total": bytes_of(owner, rf"^{schema}\."),
            "get_1000_ms": milliseconds(writer.latest, times=20),
            "history_50_ms": milliseconds(writer.history, times=5),
        }


def _messages() -> Iterator[Any]:
    for step, text in enumerate(islice(_text.messages(), STEPS)):
        yield {"id": f"m{step}", "role": "assistant", "content": text}


class _Snapshots:
    """The whole list of messages is a channel's value, stored at each step."""

    def __init__(self, saver: Any) -> None:
        self._saver = saver
        self._config = CONFIG
        self._messages: list[Any] = []
        self._version: str | None = None

    def put(self, step: int, message: Any) -> None:
        self._messages.append(message)
        self._version = self._saver.get_next_version(self._version, None)
        versions = {"messages": self._version}
        checkpoint = {
            "v": 4,
            "id": str(uuid6(clock_seq=step)),
            "ts": datetime.now(UTC).isoformat(),
            "channel_values": {"messages": self._messages},
            "channel_versions": versions,
            "versions_seen": {},
            "updated_channels": ["messages"],
        }
        metadata = {"source": "loop", "step": step, "parents": {}}
        self._config = self._saver.put(self._config, checkpoint, metadata, versions)

    def latest(self) -> Any:
        found = self._saver.get_tuple(CONFIG)
        return found.checkpoint["channel_values"]["messages"]

    def history(self) -> list[Any]:
        return list(self._saver.list(CONFIG, limit=HISTORY))


@dataclass
class _Deltas:
    """The messages are writes; every hundredth checkpoint has the whole list."""

    saver: Any

    def __post_init__(self) -> None:
        self._channel = DeltaChannel(_extend, list)
        self._channels = {"messages": self._channel}
        self._checkpoint = empty_checkpoint()
        self._counts = (0, 0)  # updates and steps since the last whole list
        metadata = {"source": "input", "step": -1, "parents": {}}
        self._config = self.saver.put(CONFIG, self._checkpoint, metadata, {})
        self._channel = self._channel.from_checkpoint([])
        self._channels = {"messages": self._channel}

    def put(self, step: int, message: Any) -> None:
        self.saver.put_writes(self._config, [("messages", [message])], str(uuid4()))
        self._channel.update([[message]])
        known = self._checkpoint["channel_versions"]
        versions = {
            "messages": self.saver.get_next_version(known.get("messages"), None)
        }
        self._checkpoint["channel_versions"] = versions
        self._counts = (self._counts[0] + 1, self._counts[1] + 1)
        whole = delta_channels_to_snapshot(
            self._channels, {"messages": self._counts}, versions
        )
        metadata: dict[str, Any] = {"source": "loop", "step": step, "parents": {}}
        if whole:
            self._counts = (0, 0)
        else:
            metadata["counters_since_delta_snapshot"] = {"messages": self._counts}
        self._checkpoint = create_checkpoint(
            self._checkpoint,
            self._channels,
            step,
            updated_channels={"messages"},
            get_next_version=self.saver.get_next_version,
            channels_to_snapshot=whole,
        )
        self._config = self.saver.put(
            self._config, self._checkpoint, metadata, versions
        )

    def latest(self) -> Any:
        return self._value(self.saver.get_tuple(CONFIG))

    def history(self) -> list[Any]:
        """With the states, as plain history has them, and as its own graphs give it."""
        # All first: the saver is locked while its list is read.
        found = list(self.saver.list(CONFIG, limit=HISTORY))
        return [self._value(one) for one in found]

    def _value(self, found: Any) -> Any:
        channels, _ = channels_from_checkpoint(
            {"messages": DeltaChannel(_extend, list)},
            found.checkpoint,
            saver=self.saver,
            config=found.config,
        )
        return channels["messages"].get()


def _extend(value: Any, writes: Sequence[Any]) -> Any:
    return [*value, *(message for write in writes for message in write)]
