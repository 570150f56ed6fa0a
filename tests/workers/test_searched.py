"""Threads are found by fields of their state that their agent declared."""

from __future__ import annotations

from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.approvals import decide
from agents.errors import BadDeclaration
from agents.models import Run
from agents.runs import searched, start
from agents.runs.claim import MAX_ATTEMPTS
from agents.runs.edits import ForkEdits
from agents.tools import Agent
from checkpoints.errors import UnknownKey
from checkpoints.log import archive, expire
from checkpoints.log.restore import restore
from checkpoints.models import AuditEvent, Checkpoint, SearchField, Thread
from tests.checkpoints.archives import stored
from tests.workers.conftest import pending
from tests.workers.desk.agents import filed

pytestmark = pytest.mark.django_db(transaction=True)

ASKED = "Order 4711"


@pytest.fixture
def begin(server, alice):
    def begin(message: str = ASKED, **more: Any) -> Run:
        return start.start_run(agent=filed.name, message=message, by=alice, **more)

    return begin


@pytest.fixture
def found(alice):
    """The threads that alice finds: found(asked="Order 4711")."""

    def found(**wanted: str) -> set[UUID]:
        [(name, value)] = wanted.items()
        return set(
            searched.holding(alice, name, value).values_list("thread_id", flat=True)
        )

    return found


def status(run: Run) -> str:
    run.refresh_from_db()
    return run.status


def test_a_run_that_ends_is_found_by_what_its_state_holds(begin, work, server, found):
    server.will_call("c1", "hold", item="bag")
    server.will_call("c2", "hold", item="bag")
    server.will_say("Done.")
    run, other = begin(), begin("Something else")
    work()
    assert status(run) == status(other) == "succeeded"
    assert found(asked=ASKED) == {run.thread_id}
    assert found(asked=f" {ASKED} ") == {run.thread_id}
    assert found(bag="2") == {run.thread_id}
    for name, value in (("asked", "order 4711"), ("asked", "4711"), ("bag", "1")):
        assert found(**{name: value}) == set()
    assert found(other=ASKED) == set()  # the name is in the hash


def test_a_run_that_waits_is_found_and_what_changed_since_is_found_then(
    begin, work, server, found, bob
):
    server.will_call("c1", "hold", item="bag")
    server.will_call("c2", "book", item="TP 209", price="1200")
    server.will_call("c3", "hold", item="bag")
    server.will_say("Done.")
    run = begin()
    work()
    assert status(run) == "waiting"
    assert found(bag="1") == found(asked=ASKED) == {run.thread_id}
    (approval,) = pending(run)
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    assert status(run) == "succeeded"
    assert found(bag="1") == set()
    assert found(bag="2") == {run.thread_id}


def test_a_run_that_fails_is_found(begin, work, server, found):
    server.will_call("c1", "hold", item="bag")
    server.will_refuse("No.")
    run = begin()
    work()
    assert status(run) == "failed"
    assert found(bag="1") == {run.thread_id}


def test_a_run_that_reaches_its_limit_is_found_by_what_was_before(
    begin, work, server, found, settings
):
    settings.MAX_STEPS = 2
    server.will_call("c1", "hold", item="bag")
    server.will_call("c2", "hold", item="bag")
    run = begin()
    work()
    assert status(run) == "failed"
    last = Checkpoint.objects.filter(branch=run.branch_id).latest("step")
    assert last.kind == "error"
    assert found(bag="1") == {run.thread_id}


def test_a_run_that_ends_unopened_leaves_what_was_found(begin, work, server, found):
    server.will_call("c1", "book", item="TP 209", price="1200")
    run = begin()
    work()
    Run.objects.filter(pk=run.pk).update(status="ready", attempts=MAX_ATTEMPTS)
    work()
    assert status(run) == "failed"
    assert run.error_class == "too_many_attempts"
    assert found(asked=ASKED) == {run.thread_id}


def test_a_run_ends_although_nothing_can_be_hashed(
    begin, work, server, found, monkeypatch
):
    def away(*_):
        raise UnknownKey("no index key")

    monkeypatch.setattr(searched, "workspace_mac", away)
    server.will_say("Done.")
    run = begin()
    work()
    assert status(run) == "succeeded"
    assert not SearchField.objects.exists()


def test_steps_pay_nothing_for_it(begin, work, server):
    """Rows are written once, however many steps there were, and by no other agent."""
    for n in range(4):
        server.will_call(f"c{n}", "hold", item="bag")
    server.will_say("Done.")
    begin()
    with CaptureQueriesContext(connection) as asked:
        work()
    table = SearchField._meta.db_table
    writes = [q["sql"].split()[0] for q in asked.captured_queries if table in q["sql"]]
    assert writes == ["DELETE", "INSERT"]


def test_other_agents_runs_ask_nothing_of_it(server, alice, work):
    server.will_say("Done.")
    start.start_run(agent="test-desk", message=ASKED, by=alice)
    with CaptureQueriesContext(connection) as asked:
        work()
    table = SearchField._meta.db_table
    assert not any(table in query["sql"] for query in asked.captured_queries)


def test_what_is_found_is_only_what_one_may_see(begin, work, server, other, omar):
    server.will_say("Done.")
    begin(visibility="private")
    work()
    assert SearchField.objects.count() == 1
    assert not searched.holding(omar, "asked", ASKED).exists()  # it is alice's alone
    assert not searched.holding(other, "asked", ASKED).exists()
    rows = SearchField.objects.values_list("blind_index", flat=True)
    elsewhere = searched.blind_index(other.workspace_id, "asked", ASKED)
    assert elsewhere not in [bytes(row) for row in rows]


def test_it_goes_with_the_content_and_comes_back(begin, work, server, found):
    server.will_say("Done.")
    run = begin()
    work()
    archived = archive.write(run.thread_id)
    assert expire.prune(archived)
    assert not SearchField.objects.exists()
    restore(stored(archived))
    assert found(asked=ASKED) == {run.thread_id}
    expire.shred(run.thread_id)
    assert not SearchField.objects.exists()


def test_a_fork_is_found_beside_its_source(begin, work, server, found, alice):
    server.will_call("c1", "hold", item="bag")
    server.will_say("Done.")
    run = begin()
    work()
    source = Checkpoint.objects.get(branch=run.branch_id, step=2)
    edits = ForkEdits(value={"/vars/bag": 7})
    start.fork_run(source, name="what-if", edits=edits, by=alice)
    work()
    assert found(bag="1") == found(bag="7") == {run.thread_id}


def reindexed(**more) -> str:
    said = StringIO()
    call_command("reindex", agent=filed.name, stdout=said, **more)
    return said.getvalue()


def test_the_command_finds_what_no_run_did(begin, work, server, found, bob):
    server.will_call("c1", "hold", item="bag")
    server.will_say("Done.")
    server.will_call("c2", "book", item="TP 209", price="1200")
    run, waits = begin(), begin("Another")
    work()
    before = set(SearchField.objects.values_list("branch", "name", "blind_index"))
    SearchField.objects.filter(name="asked").delete()
    SearchField.objects.filter(name="bag").update(name="no_longer_declared")
    assert "2 indexed" in reindexed(workspace="acme")
    assert {
        (branch, name, bytes(index))
        for branch, name, index in SearchField.objects.values_list(
            "branch", "name", "blind_index"
        )
    } == {(branch, name, bytes(index)) for branch, name, index in before}
    assert found(bag="1") == {run.thread_id}
    assert status(waits) == "waiting"
    opened = AuditEvent.objects.filter(action="open", object_id=run.thread_id)
    assert opened.filter(purpose="reindex").count() == 1


def test_the_command_leaves_what_a_run_holds_and_what_has_no_content(
    begin, work, server
):
    server.will_say("Done.")
    run = begin()
    work()
    SearchField.objects.all().delete()
    branch = run.branch
    type(branch).objects.filter(pk=branch.pk).update(holder=run.pk)
    assert "0 indexed, 1 held" in reindexed()
    type(branch).objects.filter(pk=branch.pk).update(holder=None)
    expire.shred(run.thread_id)
    reindexed()
    assert not SearchField.objects.exists()
    assert Thread.objects.filter(pk=run.thread_id).exists()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"Order": "/vars/order"}, "is not up to 40 small letters"),
        ({"order": "vars/order"}, "is no path of a state"),
        ({"order": ""}, "is no path of a state"),
        ({"order": "/vars/~2"}, "is no path of a state"),
        (
            {f"f{n}": "/vars/x" for n in range(11)},
            "has 11 search fields; it may have 10",
        ),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(fields, said):
    with pytest.raises(BadDeclaration, match=said):
        Agent("found", model="scripted", system="", search_fields=fields)
