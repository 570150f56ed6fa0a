"""The model that a request names, and what can be seen of a call while it lasts."""

from __future__ import annotations

from dataclasses import dataclass

from agents.llm.attempts import Attempts
from agents.llm.server import Server, line
from agents.pure.context import Request
from agents.pure.step import Reply


@dataclass(frozen=True)
class Sign:
    """How far a call has come."""

    attempt: int  # from 1
    attempts: int  # at most
    characters: int = 0  # of the reply, of this attempt
    outcome: str = ""  # of the attempt before this one, while this one is waited for
    wait: float = 0.0  # seconds from one to the other


class OpenAIModel:
    """One server's models. Kept for the steps of a run.

    `reply` may run beside whoever waits for it: everything else here is for them.
    """

    def __init__(self, server: Server | None = None) -> None:
        self.server = server or Server.from_settings()
        self._left_out: dict[str, set[str]] = {}  # model → parameters it rejects
        self._at: Attempts | None = None

    def reply(self, request: Request) -> Reply:
        """Raises ModelFailed when no usable reply came in time."""
        left_out = self._left_out.setdefault(request.model, set())
        self._at = at = Attempts(self.server, request, left_out)
        try:
            return at.take()
        finally:
            self._at = None

    def sign(self) -> Sign | None:
        """None: nothing is being asked."""
        if (at := self._at) is None:
            return None
        most = self.server.attempts
        if waits := at.waits:
            return Sign(at.number + 1, most, outcome=waits[0], wait=waits[1])
        return Sign(at.number, most, characters=at.characters)

    def end_late(self) -> None:
        """End a call that is past its time: its timeout is for each read, so a server
        that says a little and then nothing would have the time twice."""
        if (at := self._at) is not None and at.is_late:
            self._hang_up()

    def give_up(self) -> None:
        """Nobody waits any more: the server is told so, and the call ends soon."""
        if (at := self._at) is not None:
            at.given_up.set()
            self._hang_up()

    def _hang_up(self) -> None:
        line(self.server.base_url, self.server.api_key).hang_up()
