"""Workers killed at random, hundreds of times, while people go on as if nothing were."""

from __future__ import annotations

import pytest

from agents.models import Run, ToolCall
from tests.faults.conftest import FAULTS

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.unmeasured,
]

KILLS = 130  # a storm; there are four, for two processors to share


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_doubled_or_stuck_wherever_workers_are_killed(storm, seed):
    raging = storm(seed)
    raging.rage(int(KILLS * FAULTS), raging.kill, pace=0.08)
    assert raging.findings() == []
    ended = Run.objects.values_list("status", flat=True)
    assert list(ended).count("succeeded") > len(ended) / 3
    # Kills met calls that were under way: what the ledger has is not by luck.
    again = ToolCall.objects.filter(tool__in=["book", "hold"], attempts__gt=1)
    assert again.exists()


def test_holders_that_were_only_slow_change_nothing_when_they_go_on(storm):
    raging = storm(4)
    raging.rage(int(25 * FAULTS), raging.stop_for_long, pace=0.15)
    assert raging.findings() == []


def test_a_redis_that_forgets_and_a_clock_that_jumps_cost_time_only(storm):
    raging = storm(5)
    faults = [raging.forget_rings, raging.clock_jumps, raging.kill]
    raging.rage(int(60 * FAULTS), lambda: raging.dice.choice(faults)(), pace=0.1)
    assert raging.findings() == []
