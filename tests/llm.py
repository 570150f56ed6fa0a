"""The model server for tests: the scripted model, in this process, on a real port.

    def test_it(llm):
        llm.will_call("call-1", "refund", cents=500)
        llm.will_say("Refunded.")
        ...  # with OPENAI_BASE_URL=llm.base_url
        assert llm.requests[0]["messages"][-1]["content"] == "Refund it."

A queued reply is used once; a request that was answered with it gets it again when it is
repeated word for word. With nothing queued, the persona answers (the travel desk, or
a plain assistant).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.demo.model import persona, wire
from agents.demo.model.ledger import Ledger
from agents.demo.model.recorded import Recordings
from agents.demo.model.server import ScriptedServer, Services


class ScriptedModel:
    """The server and its script. `with ScriptedModel() as llm:` or start() and stop()."""

    api_key = "test"

    def __init__(self, ledger: Path | None = None) -> None:
        self.services = Services(control=True, ledger=Ledger(ledger))
        self.server = ScriptedServer(("127.0.0.1", 0), self.services)
        self._thread = threading.Thread(
            target=self.server.serve_forever,
            kwargs={"poll_interval": 0.05},
            daemon=True,
        )

    def start(self) -> ScriptedModel:
        self._thread.start()
        return self

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    def __enter__(self) -> ScriptedModel:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def base_url(self) -> str:
        """For OPENAI_BASE_URL."""
        return self.server.base_url

    @property
    def ledger_url(self) -> str:
        """For HOLDPOINT_DEMO_LEDGER."""
        return self.server.origin

    # What it will answer

    def will_say(self, text: str) -> None:
        self.will_answer(wire.say(text))

    def will_call(self, id: str, tool: str, /, **arguments: Any) -> None:
        """One turn with one call; for several in a turn, `will_call_all`."""
        self.will_call_all((id, tool, arguments))

    def will_call_all(
        self, *calls: tuple[str, str, dict[str, Any] | str], text: str | None = None
    ) -> None:
        made = [wire.call(tool, arguments, id) for id, tool, arguments in calls]
        self.will_answer(wire.use(made, text))

    def will_refuse(self, text: str = "I'm sorry, but I can't help with that.") -> None:
        self.will_answer({"role": "assistant", "content": None, "refusal": text})

    def will_answer(self, message: dict[str, Any]) -> None:
        self.services.script.load({"replies": [message]})

    def always(
        self, message: dict[str, Any] | str, *, match: str = "", turn: int | None = None
    ) -> None:
        """Answer so wherever the last user message has `match`, after `turn` replies."""
        rule = {"reply": message, "match": match, "turn": turn}
        self.services.script.load({"rules": [rule]})

    def play(self, folder: Path) -> None:
        """Answer from recorded conversations until reset."""
        self.services.answer = Recordings.load(folder).reply

    def fault(self, kind: str, times: int | None = 1, **more: Any) -> None:
        """Kinds and further fields: `agents.demo.model.faults`."""
        self.services.script.load({"faults": [{"kind": kind, "times": times, **more}]})

    def ledger_fault(self, kind: str, times: int | None = 1, **more: Any) -> None:
        """`drop` before the effect, `drop_after` it, `hang` after it, `slow`, a status."""
        self.fault(kind, times, target="ledger", **more)

    def embedding_fault(self, kind: str, times: int | None = 1, **more: Any) -> None:
        """`drop`, `hang`, `slow`, a status; `garbage`: no numbers, `cut`: one too few."""
        self.fault(kind, times, target="embeddings", **more)

    # What it saw

    @property
    def log(self) -> list[dict[str, Any]]:
        """One entry per chat request: at, body, status, fault."""
        return self.services.script.log()

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [entry["body"] for entry in self.log]

    @property
    def embedded(self) -> list[str]:
        """The texts that it was asked for vectors of, in order."""
        return [
            text for body in self.services.script.embedded() for text in body["input"]
        ]

    @property
    def pending(self) -> int:
        """Queued replies that nobody asked for yet."""
        return self.services.script.pending()

    def ledger(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Effects received outside, repeats included (`applied` is False for those)."""
        return [
            effect
            for effect in self.services.ledger.effects()
            if kind in (None, effect["kind"])
        ]

    def charge(self, fares: dict[str, Any]) -> None:
        """What the airline charges from now on (agents/demo/model/fares.py)."""
        self.services.fares.write(fares)

    def reset(self) -> None:
        self.services.script.reset()
        self.services.ledger.clear()
        self.services.fares.write({})
        self.services.answer = persona.answer


@pytest.fixture(scope="session")
def scripted_model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as server:
        yield server


@pytest.fixture
def llm(scripted_model: ScriptedModel) -> Iterator[ScriptedModel]:
    """The model server, with nothing queued, logged or booked."""
    scripted_model.reset()
    yield scripted_model
    scripted_model.reset()
