"""Whatever is done to a log, in whatever order, it stays what a plain model says."""

from __future__ import annotations

import os

import hypothesis
import pytest
from hypothesis import HealthCheck
from hypothesis.stateful import run_state_machine_as_test

from tests.checkpoints.machine import Machine

EXAMPLES = int(os.environ.get("MACHINE_EXAMPLES", "200"))  # 2,000 on demand
PARTS = 4  # so that several processes may share them


@pytest.mark.slow
@pytest.mark.unmeasured
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.django_db(transaction=True)
def test_the_log_agrees_with_a_plain_model(part, workspace, alice, settings, tmp_path):
    settings.BLOB_DIR = tmp_path / "blobs"
    run_state_machine_as_test(
        lambda: Machine(workspace, alice, settings),  # type: ignore[arg-type]  # a factory does
        settings=hypothesis.settings(
            max_examples=-(-EXAMPLES // PARTS),
            stateful_step_count=15,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
