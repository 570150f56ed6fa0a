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

from agents.demo.model.ledger import confirmation
from agents.tools import ToolError

TIMEOUT = 20  # seconds; a booking that takes longer is in doubt


def record(kind: str, key: str, body: Mapping[str, Any]) -> str:
    """Have the effect outside, at most once for the key; its confirmation code.

    Raises ToolError when the other side says no, OSError when it is not to be reached.
    """
    if not settings.HOLDPOINT_DEMO_LEDGER:
        return confirmation(kind, key)
    address = urlsplit(settings.HOLDPOINT_DEMO_LEDGER)
    connection = http.client.HTTPConnection(
        address.hostname or "", address.port, timeout=TIMEOUT
    )
    try:
        connection.request(
            "POST",
            f"/ledger/{kind}",
            json.dumps(dict(body), sort_keys=True),
            {"Content-Type": "application/json", "Idempotency-Key": key},
        )
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (http.client.HTTPException, ValueError) as error:
        raise ConnectionError(f"The airline's answer broke off: {error!r}") from error
    finally:
        connection.close()
    if response.status >= 500:
        raise ConnectionError(f"The airline's system answered {response.status}.")
    if response.status >= 400:
        raise ToolError(f"The airline refused: {answer['error']['message']}")
    return str(answer["confirmation"])
