"""What the airline charges where that is not what the timetable says.

`{"TP 209": {"Premium Economy": {"price": "1500.00", "seats": 2}}}`. In memory: a restart of
the demo brings the old fares back.
"""

from __future__ import annotations

import threading
from typing import Any

Fares = dict[str, dict[str, dict[str, Any]]]


class FareBoard:
    """Read by every quote, changed by whoever wants a fare to move."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fares: Fares = {}

    def read(self) -> Fares:
        with self._lock:
            return {flight: dict(fares) for flight, fares in self._fares.items()}

    def write(self, fares: Fares) -> None:
        """These, and no others."""
        with self._lock:
            self._fares = {flight: dict(each) for flight, each in fares.items()}
