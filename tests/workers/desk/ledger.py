"""Effects go to the external ledger, which judges "exactly once"."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.request import Request, urlopen


def post(kind: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
    request = Request(  # noqa: S310  # the test's own server
        f"{os.environ['DESK_LEDGER']}/ledger/{kind}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Idempotency-Key": key},
    )
    with urlopen(request, timeout=30) as answer:  # noqa: S310
        result: dict[str, Any] = json.load(answer)
    return result
