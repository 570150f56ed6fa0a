"""What would run: the arguments that are in force, whatever they are."""

from __future__ import annotations

import pytest

from agents.approvals.asked import asked_of
from checkpoints import gate
from tests.agents.waiting import GOOD, make_waiting

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("effective", [None, {}, {"flight": "TP 1"}], ids=str)
def test_what_was_put_in_the_place_counts_also_where_it_is_nothing(
    make_thread, alice, effective
):
    request = make_waiting(make_thread(owner=alice), alice, ("book", GOOD))[0]
    call = request.call
    if effective is not None:
        call.effective = gate.seal(call, "effective", effective)
        call.save(update_fields=["effective"])
    opener = gate.admit(alice, purpose="test", threads=[request.thread])
    proposed = opener.open(call, "arguments")
    assert asked_of(opener, call) == (proposed if effective is None else effective)
