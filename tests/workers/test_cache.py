"""A read that was made a moment ago is not made again; nothing else is left out."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agents.approvals import decide
from agents.errors import BadDeclaration
from agents.models import Approval, Run, ToolCall
from agents.policies import stored
from agents.runs import start
from agents.runs.edits import ForkEdits
from agents.tools import never, tool
from checkpoints.access import Role
from checkpoints.models import Checkpoint
from tests.conftest import as_owner
from tests.workers.test_in_doubt import enter, nothing

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def asked_twice(begin, work, server) -> Run:
    """Asked for two prices, and for the first again."""
    server.will_call("c1", "quote", item="TP 209")
    server.will_call_all(
        ("c2", "quote", {"item": "TP 211"}), ("c3", "quote", {"item": "TP 209"})
    )
    server.will_say("TP 209.")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded", run.error_class
    return run


def results(server) -> list[str]:
    said = server.requests[-1]["messages"]
    return [message["content"] for message in said if message["role"] == "tool"]


def quotes(server) -> list[str]:
    return [effect["body"]["item"] for effect in server.ledger()]


def test_the_same_read_again_is_answered_from_the_cache_and_says_what_it_saved(
    asked_twice, server, alice, history
):
    assert quotes(server) == ["TP 209", "TP 211"]
    first, _, again = results(server)
    assert first == again
    calls = ToolCall.objects.filter(run=asked_twice).order_by("created_at", "ordinal")
    made, _, hit = calls
    assert hit.recorded_from_id == made.pk
    step = hit.result_checkpoint
    assert step is not None
    url = f"/threads/{asked_twice.thread_id}/at/{step.pk}/"
    page = enter(alice).get(url).content.decode()
    assert "From the cache: what the same call gave at step 2. That saved" in page
    saved = history(asked_twice.branch).record(step.step).context["cached"]
    assert saved["saved_ms"] >= 20


def test_what_is_too_old_is_asked_for_again_and_hits_do_not_make_it_younger(
    asked_twice, work, server, alice
):
    made = ToolCall.objects.filter(run=asked_twice, recorded_from=None)
    for call in made:  # the hit stays young
        assert call.finished_at is not None
        old = call.finished_at - timedelta(minutes=6)
        ToolCall.objects.filter(pk=call.pk).update(finished_at=old)
    server.will_call("c4", "quote", item="TP 209")
    server.will_say("Still TP 209.")
    start.send_message(asked_twice.branch, message="And now?", by=alice)
    work()
    assert quotes(server) == ["TP 209", "TP 211", "TP 209"]


def test_a_fork_reads_from_the_cache_too(asked_twice, work, server, alice):
    source = Checkpoint.objects.get(branch=asked_twice.branch, step=0)
    server.will_call("c1", "quote", item="TP 209")
    server.will_say("TP 209.")
    start.fork_run(source, edits=ForkEdits(system="Be brief."), name="", by=alice)
    work()
    assert quotes(server) == ["TP 209", "TP 211"]


def test_another_thread_has_a_cache_of_its_own(asked_twice, begin, work, server):
    server.will_call("c1", "quote", item="TP 209")
    server.will_say("TP 209.")
    begin("The same, elsewhere.")
    work()
    assert quotes(server) == ["TP 209", "TP 211", "TP 209"]


def test_a_refusal_is_not_cached(begin, work, server):
    server.will_call("c1", "quote", item="nothing")
    server.will_call("c2", "quote", item="nothing")
    server.will_say("There is none.")
    run = begin()
    work()
    assert set(results(server)) == {"there is no such thing"}
    assert not ToolCall.objects.filter(run=run).exclude(recorded_from=None).exists()


def test_a_cached_tool_has_no_working_memory(begin, work, server):
    server.will_call("c1", "quote", item="the last")
    server.will_say("I cannot say.")
    begin()
    work()
    assert "can neither read nor change working memory" in results(server)[0]


def test_only_reads_are_cached():
    for options in (
        {"effect": "write", "approve": never},
        {"effect": "external", "idempotent": True},
        {},
        {"question": True},
    ):
        with pytest.raises(BadDeclaration, match="only what a tool reads is cached"):
            tool(cache=timedelta(hours=1), **options)(nothing)
    with pytest.raises(BadDeclaration, match="no length of time"):
        tool(effect="read", cache=timedelta(0))(nothing)
    cached = tool(effect="read", cache=timedelta(hours=1))(nothing)
    assert cached.spec()["cache"] == 3600


def test_what_people_made_of_a_read_is_neither_taken_from_the_cache_nor_put_there(
    asked_twice, work, server, join, alice, bob
):
    admin = join("ada", Role.ADMIN, can_approve=True)
    rule = {"id": "q", "name": "Quotes", "tools": "quote", "outcome": "require"}
    with as_owner():
        stored.save(admin, None, [rule], "", after_version=0)
    server.will_call("c4", "quote", item="TP 209")
    server.will_say("TP 300.")
    start.send_message(asked_twice.branch, message="And now?", by=alice)
    work()
    (asked,) = Approval.objects.pending()
    dearer = {"item": "TP 300"}
    decide.edit(asked, seen=asked.as_shown(), by=bob, arguments=dearer)
    work()
    assert quotes(server) == ["TP 209", "TP 211", "TP 300"]
    server.will_call("c5", "quote", item="TP 209")
    server.will_say("TP 209.")
    start.send_message(asked_twice.branch, message="And TP 209?", by=alice)
    work()
    (asked,) = Approval.objects.pending()
    decide.approve(asked, seen=asked.as_shown(), by=bob)
    work()
    first, *_, last = results(server)
    assert last == first  # what was asked for as it is, before
    assert quotes(server) == ["TP 209", "TP 211", "TP 300"]
