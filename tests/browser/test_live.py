"""Pages that are open hear of changes, and fifty of them starve nobody."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import Clerk
from tests.browser.desk import Desk

pytestmark = pytest.mark.browser
STREAMS = 50


class Listener:
    """A stream, as a browser holds it."""

    def __init__(self, address: str, cookie: str) -> None:
        place = urlsplit(address)
        assert place.hostname
        self.connection = http.client.HTTPConnection(
            place.hostname, place.port, timeout=60
        )
        self.connection.request("GET", "/live", headers={"Cookie": cookie})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200

    def event(self) -> str:
        """The id of the next event."""
        while not (line := self.answer.readline().decode()).startswith("id: "):
            assert line, "The stream has ended."
        return line.removeprefix("id: ").strip()

    def close(self) -> None:
        self.connection.close()


def test_fifty_streams_leave_pages_their_connections(
    desk: Desk, clerk: Clerk, signed_in
):
    state = signed_in("mira")
    cookie = "; ".join(f"{one['name']}={one['value']}" for one in state["cookies"])
    streams = [Listener(desk.address, cookie) for _ in range(STREAMS)]
    try:
        before = {stream.event() for stream in streams}
        # Every connection of the pool is there for pages: more requests than it has
        # (8) are answered while all streams are open.
        for _ in range(12):
            assert clerk.request.get("/inbox/").ok
        desk.will_refund("PNR-9050")
        clerk.start("Refund PNR-9050, please.", until="APR-")
        heard = [stream.event() for stream in streams]
        assert len(heard) == STREAMS
        assert not before & set(heard[-1:])
    finally:
        for stream in streams:
            stream.close()
