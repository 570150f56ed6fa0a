"""The world outside, as the tools reach it: an airline and a mail server behind HTTP.

In the demo it is the scripted model's process (`agents/demo/model/ledger.py`), at
HOLDPOINT_DEMO_LEDGER. Where that is not set, nothing leaves this process: the
confirmation is made from the key alone, so that a repeat still gives the same one.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from agents.demo.model.fares import Fares
from agents.demo.model.ledger import confirmation
from agents.tools import ToolError

TIMEOUT = 20  # seconds; a booking that takes longer is in doubt


def record(kind: str, key: str, body: Mapping[str, Any]) -> str:
    """Have the effect outside, at most once for the key; its confirmation code.

    Raises ToolError when the other side says no, OSError when it is not to be reached.
    """
    if not settings.HOLDPOINT_DEMO_LEDGER:
        return confirmation(kind, key)
    status, answer = _ask(
        "POST",
        f"/ledger/{kind}",
        json.dumps(dict(body), sort_keys=True),
        {"Idempotency-Key": key},
    )
    if status >= 500:
        raise ConnectionError(f"The airline's system answered {status}.")
    if status >= 400:
        raise ToolError(f"The airline refused: {answer['error']['message']}")
    return str(answer["confirmation"])


def fares() -> Fares:
    """What it charges where that is not what the timetable says. Raises OSError."""
    if not settings.HOLDPOINT_DEMO_LEDGER:
        return {}
    status, answer = _ask("GET", "/fares")
    if status >= 400:
        raise ConnectionError(f"The airline's system answered {status}.")
    known: Fares = answer
    return known


def charge(fares: Fares) -> None:
    """Have it charge these from now on, and else what the timetable says. Raises OSError."""
    if not settings.HOLDPOINT_DEMO_LEDGER:
        raise ConnectionError("HOLDPOINT_DEMO_LEDGER is not set.")
    status, _ = _ask("POST", "/fares", json.dumps(fares))
    if status >= 400:
        raise ConnectionError(f"The airline's system answered {status}.")


def _ask(
    method: str,
    path: str,
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any]:
    """Its status and answer. Raises OSError."""
    address = urlsplit(settings.HOLDPOINT_DEMO_LEDGER or "")
    connection = http.client.HTTPConnection(
        address.hostname or "", address.port, timeout=TIMEOUT
    )
    try:
        connection.request(
            method, path, body, {"Content-Type": "application/json", **(headers or {})}
        )
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except (http.client.HTTPException, ValueError) as error:
        raise ConnectionError(f"The airline's answer broke off: {error!r}") from error
    finally:
        connection.close()
