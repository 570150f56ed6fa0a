"""Twenty calls at once under a budget with room for five, by worker processes."""

from __future__ import annotations

import pytest
from django.db import connection, transaction

from agents.models import Approval, PolicyUse, Run
from agents.policies import stored
from checkpoints.access import Role
from checkpoints.models import AuditEvent
from tests.conftest import as_owner
from tests.workers.conftest import ended, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.unmeasured]

CALLS = 20
AT_ONCE = 6  # one more than may pass
PROCESSES = 8  # on a busy machine one or the other comes late
# Of this test's database: who waits for somebody's lock. Not by pg_stat_activity: within a
# transaction it stays as it was first asked, without those that connected later.
WAITING = """
SELECT count(DISTINCT pid) FROM pg_locks
WHERE NOT granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
BUDGET = {
    "id": "budget",
    "name": "5,000 a day",
    "tools": "book",
    "when": {"sum": "/price", "over_hours": 24, "op": "gt", "value": 5000},
    "outcome": "require",
}
REST = {"id": "rest", "name": "rest", "tools": "book", "outcome": "auto_approve"}


def settled(run: Run) -> bool:
    """It is over, or waits for a person."""
    return ended(run) or run.status == Run.Status.WAITING


def enough_wait() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(WAITING)
        (found,) = cursor.fetchone()
    return found >= AT_ONCE


def test_of_twenty_calls_that_workers_make_at_once_five_pass_unasked(
    begin, server, workers, join
):
    """So many have a call to judge before any of them can see what was let go."""
    admin = join("ada", Role.ADMIN)
    with as_owner():
        stored.save(admin, None, [BUDGET, REST], "", after_version=0)
    server.always("Done.", turn=1)
    for n in range(CALLS):
        server.will_call(f"c{n}", "book", item=f"TP {n}", price="1000")
    runs = [begin(f"Book trip {n}.") for n in range(CALLS)]
    with as_owner(), transaction.atomic():
        with connection.cursor() as cursor:
            table = PolicyUse._meta.db_table
            cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        for _ in range(2):
            workers.start(pool=PROCESSES // 2, LEASE_SECONDS="30")
        wait_until(enough_wait, seconds=180)
    wait_until(lambda: all(map(settled, runs)), seconds=180)
    effects = server.ledger("bookings")
    assert [effect["body"]["price"] for effect in effects] == ["1000"] * 5
    assert all(effect["applied"] for effect in effects)
    assert Approval.objects.pending().filter(rule="5,000 a day").count() == CALLS - 5
    assert PolicyUse.objects.count() == 5
    let_go = AuditEvent.objects.filter(action="auto_approve")
    assert {str(each.object_id) for each in let_go} == {e["key"] for e in effects}
    begun = AuditEvent.objects.filter(action="begin").values_list("detail", flat=True)
    assert {each["rule"] for each in begun} == {"rest"}
