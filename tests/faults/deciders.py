"""Two people at once, in a process of its own: python tests/faults/deciders.py PAIRS

PAIRS is a file of JSON: pairs of `[verb, id, person]`, where the verb is `approve` with
an approval's id, `cancel` with a run's, or `fork` with a checkpoint's. Both of a pair act
at once. What each met is printed, one word a line: `done`, or the name of what was raised.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import django


def main(file: Path) -> None:
    from django.db import connections

    from agents.approvals import decide
    from agents.models import Approval, Run
    from agents.runs import start, stop
    from agents.runs.edits import ForkEdits
    from checkpoints.access import Reason, Role, UserPrincipal, unscoped
    from checkpoints.models import Checkpoint

    def act(verb: str, pk: str, person: dict[str, Any]) -> None:
        by = UserPrincipal(
            user_id=person["id"],
            workspace_id=UUID(person["workspace"]),
            role=Role.OPERATOR,
            can_approve=True,
            name=person["name"],
        )
        with unscoped(Reason.TEST):
            if verb == "approve":
                approval = Approval.objects.get(pk=pk)
                barrier.wait()
                decide.approve(approval, seen=approval.as_shown(), by=by)
            elif verb == "fork":
                step = Checkpoint.objects.get(pk=pk)
                barrier.wait()
                edits = ForkEdits(temperature=0.5)
                start.fork_run(step, edits=edits, name="what if", by=by)
            else:
                run = Run.objects.get(pk=pk)
                barrier.wait()
                stop.cancel(run, by=by)

    def told(*order: Any) -> None:
        try:
            act(*order)
            said = "done"
        except Exception as error:
            said = type(error).__name__
        finally:
            connections.close_all()
        os.write(1, f"{said}\n".encode())

    for pair in json.loads(file.read_text()):
        barrier = threading.Barrier(2, timeout=30)
        threads = [threading.Thread(target=told, args=order) for order in pair]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    main(Path(sys.argv[1]))
