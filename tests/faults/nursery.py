"""A warm parent: `manage.py worker`, but that the dead are replaced at once.

    python tests/faults/nursery.py SIZE

Its children are born with everything imported, so that many can be killed in a minute.
They tell what they took and stored on standard error: the journal of a fault test.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import django

if __name__ == "__main__":
    # The tree that this file lies in, which may be a mutated copy (mutants.py).
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    os.environ.setdefault("DATABASE_ROLE", "worker")
    django.setup()

    from agents.runs import runner
    from agents.runs.pool import Pool
    from checkpoints import memory

    logging.getLogger("agents.runs").setLevel(logging.DEBUG)
    memory.settle()
    Pool(int(sys.argv[1]), runner.work, longest_pause=0.0).run()
