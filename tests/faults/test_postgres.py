"""PostgreSQL crashes while workers commit: what was acknowledged is there afterwards."""

from __future__ import annotations

import pytest
from django.db import connection

from tests.conftest import make_workspace
from tests.faults.cluster import own_cluster
from tests.faults.conftest import FAULTS, Nursery
from tests.workers.conftest import surroundings

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.unmeasured,
]

CRASHES = 20


@pytest.fixture
def cluster(transactional_db):
    with own_cluster() as cluster:
        yield cluster


@pytest.fixture
def workspace(cluster):
    return make_workspace("acme")


@pytest.fixture
def nursery(cluster, server, settings, tmp_path):
    running = Nursery(surroundings(settings, server), tmp_path / "journal")
    yield running
    running.stop()


def test_no_acknowledged_step_is_lost_when_postgres_crashes(cluster, storm):
    raging = storm(0)

    def crash() -> bool:
        cluster.crash()
        cluster.start()
        connection.close()  # this process's own went with it
        return True

    raging.rage(int(CRASHES * FAULTS), crash, pace=0.5)
    assert raging.findings() == []
