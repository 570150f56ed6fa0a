"""`python -m agents.demo.model`: run the scripted model until told to stop."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from agents.demo.model import persona
from agents.demo.model.ledger import Ledger
from agents.demo.model.recorded import Recordings
from agents.demo.model.server import ScriptedServer, Services


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="agents.demo.model", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--log", type=Path, help="append every request to this file")
    parser.add_argument("--ledger", type=Path, help="keep the ledger in this file")
    parser.add_argument(
        "--recorded", type=Path, help="answer from the conversations in this folder"
    )
    parser.add_argument("--latency", type=float, default=0, help="seconds per answer")
    parser.add_argument(
        "--control", action="store_true", help="serve /_control and /_requests"
    )
    options = parser.parse_args(arguments)
    try:
        answer = (
            Recordings.load(options.recorded).reply
            if options.recorded
            else persona.answer
        )
    except ValueError as error:
        parser.error(str(error))
    services = Services(
        answer=answer,
        ledger=Ledger(options.ledger),
        control=options.control,
        log=options.log,
        latency=options.latency,
    )
    try:
        server = ScriptedServer((options.host, options.port), services)
    except OSError as error:
        parser.error(
            f"cannot listen on {options.host}:{options.port}: {error.strerror}"
        )

    def stop(signum: int, frame: FrameType | None) -> None:
        # shutdown() waits for serve_forever(), which runs in this very thread.
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    sys.stdout.write(f"ready {server.base_url}\n")
    sys.stdout.flush()
    with server:
        server.serve_forever(poll_interval=0.1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
