"""Secrets are given to tools by name, and what slips into state is caught on the way."""

from __future__ import annotations

import pytest

from agents.approvals import decide
from agents.errors import InvalidDecision
from agents.runs import start
from agents.runs.edits import ForkEdits
from checkpoints.models import Checkpoint
from tests.workers.conftest import ended, pending, wait_until
from tests.workers.test_in_doubt import enter

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "correct-horse-battery"
TOKEN = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
CAUGHT = "[secret github-token]"


def everything(history, branch) -> str:
    read = history(branch)
    steps = [(r.label, r.ops, r.context) for r in read.records]
    return repr((steps, read.state_at(branch.head_step)))


def test_a_tool_uses_a_secret_that_nothing_else_holds(
    workers, begin, server, history, alice
):
    server.will_call("c1", "charge", amount="90")
    server.will_say(f"Charged with {SECRET}.")  # as if it had been told
    workers.start(HOLDPOINT_SECRET_DESK_PAYMENTS=SECRET)
    run = begin("Charge it.")
    wait_until(lambda: ended(run))
    assert run.status == "succeeded"
    (effect,) = server.ledger()
    assert effect["body"]["with"] == SECRET[-4:]
    run.branch.refresh_from_db()
    stored = everything(history, run.branch)
    assert SECRET not in stored
    facts = history(run.branch).state_at(2)["facts"]
    assert facts == {"header": "Bearer [secret DESK_PAYMENTS]"}
    assert "[secret DESK_PAYMENTS]" in server.requests[-1]["messages"][-1]["content"]
    step = Checkpoint.objects.get(branch=run.branch, step=2)
    page = enter(alice).get(f"/threads/{run.thread_id}/at/{step.pk}/").content.decode()
    assert "Secrets were taken out before this was stored" in page


def test_a_tool_without_its_secret_refuses_and_has_no_effect(begin, work, server):
    server.will_call("c1", "charge", amount="90")
    server.will_say("I cannot charge.")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert server.ledger() == []
    told = server.requests[-1]["messages"][-1]["content"]
    assert "HOLDPOINT_SECRET_DESK_PAYMENTS" in told


def test_what_people_and_models_let_slip_is_caught(begin, work, server, history, alice):
    server.will_call("c1", "look", what=TOKEN)
    server.will_say(f"It is {'word ' * 28}{TOKEN}.")  # the label is cut within it
    run = begin(f"Use {TOKEN}.", title=f"With {TOKEN}")
    work()
    start.send_message(run.branch, message=f"Again: {TOKEN}", by=alice)
    server.will_say("Again.")
    work()
    run.branch.refresh_from_db()
    stored = everything(history, run.branch)
    assert TOKEN not in stored
    assert TOKEN[:12] not in stored
    assert history(run.branch).state_at(0)["goal"] == f"Use {CAUGHT}."
    assert TOKEN not in repr(server.requests)
    page = enter(alice).get(f"/threads/{run.thread_id}/").content.decode()
    assert f"With {CAUGHT}" in page


def test_a_forks_edits_and_a_reviewers_words_are_caught_too(
    begin, work, server, history, alice, bob
):
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Not booked.")
    run = begin()
    work()
    (asked,) = pending(run)
    edited = {"item": TOKEN, "price": "1200"}
    with pytest.raises(InvalidDecision, match="looks like a secret"):
        decide.edit(asked, seen=asked.as_shown(), by=bob, arguments=edited)
    decide.reject(asked, seen=asked.as_shown(), by=bob, reason=f"Not with {TOKEN}")
    work()
    run.branch.refresh_from_db()
    assert TOKEN not in everything(history, run.branch)
    assert f"Not with {CAUGHT}" in everything(history, run.branch)
    source = Checkpoint.objects.get(branch=run.branch, step=0)
    edits = ForkEdits(system=f"Log in with {TOKEN}.")
    forked = start.fork_run(source, edits=edits, name="", by=alice, run=False)
    assert TOKEN not in everything(history, forked)
    assert history(forked).record(1).context["secrets"] == ["github-token"]
