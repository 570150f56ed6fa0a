"""What looks back over the last weeks reads thousands of calls, and keeps few in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from agents.models import Approval, ToolCall
from agents.policies.back_test import back_test
from agents.policies.dry_run import dry_run
from agents.policies.opened import BATCH_CALLS, arguments_of
from checkpoints import gate
from checkpoints.access import Reason, Role, unscoped
from tests.agents.waiting import make_waiting

pytestmark = pytest.mark.django_db(transaction=True)

MANY, LARGE = 40, 1_000_000  # calls, and characters of an argument of each
# A batch of records of four megabytes, read, and one that is opened. All of them would be
# 40 where they are opened, and more where they are read as well.
MOST = 24_000_000
# Some hardly take space as records, others half of what they hold.
TEXTS = ("x" * LARGE, Random(7).randbytes(LARGE // 2).hex())


@pytest.fixture(autouse=True)
def everything():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def asked(make_thread, alice) -> list[Approval]:
    """A small request first, then many large ones of the same tool."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("send", {"to": f"p{n}", "fields": {"text": TEXTS[n % 2] if n else ""}})
        for n in range(MANY + 1)
    ]
    return make_waiting(make_thread(owner=alice), alice, *calls)


def peak(act: Callable[[], Any]) -> int:
    """Bytes that Python held at most."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_back_test_holds_a_few_large_calls_at_a_time(asked, bob):
    found = []
    assert peak(lambda: found.append(back_test(asked[0], bob, "agent"))) < MOST
    (seen,) = found
    assert (seen.looked_at, seen.would_approve) == (MANY + 1, 1)


def test_a_dry_run_holds_a_few_large_calls_at_a_time(asked, join):
    admin = join("ada", Role.ADMIN)
    found = []
    assert peak(lambda: found.append(dry_run(admin, None, []))) < MOST
    (seen,) = found
    assert (seen.opened, seen.unreadable) == (MANY + 1, 0)
    (row,) = seen.rows
    assert (row.tool, row.count) == ("send", MANY + 1)


def test_each_call_has_its_own_arguments_in_the_order_asked_for(
    make_thread, alice, bob
):
    calls = [
        ("send", {"to": f"p{n}", "fields": {}}) for n in range(BATCH_CALLS * 2 + 3)
    ]
    approvals = make_waiting(make_thread(owner=alice), alice, *calls)
    wanted = [approval.call_id for approval in reversed(approvals)]
    gone, broken = wanted[7], wanted[BATCH_CALLS]
    ToolCall.objects.filter(pk=gone).update(arguments=None)
    ToolCall.objects.filter(pk=broken).update(arguments=b"no record")
    opener = gate.admit(bob, purpose="test", threads=[approvals[0].thread])
    found = list(arguments_of(wanted, opener, bob))
    assert found[7] is None
    assert isinstance(found[BATCH_CALLS], Exception)
    names = [each["to"] for each in found if isinstance(each, dict)]
    every = [f"p{n}" for n in reversed(range(len(calls)))]
    left_out = {every[7], every[BATCH_CALLS]}
    assert names == [name for name in every if name not in left_out]
