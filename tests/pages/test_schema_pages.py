"""State of several schema versions, on the pages of one thread."""

from __future__ import annotations

import pytest

from agents.models import Run
from agents.runs import start
from agents.runs.migrate import migrate_heads
from checkpoints.access import Reason, unscoped
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.models import Branch, Checkpoint
from checkpoints.pure import ops
from tests.pages.conftest import STATE, append
from tests.workers.desk.agents import scribe

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_walls():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def old(make_thread, alice) -> Branch:
    """Two steps of version 1; the scribe has a run there, which failed."""
    state = {**STATE, "goal": "a flight", "facts": {"name": "Helen"}}
    branch = append(
        make_thread(owner=alice, state=state),
        NewStep("edit", [ops.put("/facts", "seat", "12A")], "Seat chosen"),
    )
    start.send_message(branch, message="Go on.", by=alice, agent=scribe.name)
    Run.objects.update(status=Run.Status.FAILED, error_class="migration_failed")
    return branch


@pytest.fixture
def migrated(old) -> Branch:
    assert [outcome.status for outcome in migrate_heads(scribe)] == ["migrated"]
    old.refresh_from_db()
    return append(old, NewStep("edit", [ops.put("/facts", "meal", "none")], "Meal"))


def newer(branch: Branch) -> Branch:
    step = NewStep("edit", [ops.put("", "_schema", 9)], "By newer code")
    commit(writer(branch), NewStep(step.kind, step.ops, step.label, schema_version=9))
    branch.refresh_from_db()
    return branch


def at(branch: Branch, step: int, query: str = "") -> str:
    checkpoint = Checkpoint.objects.get(branch=branch, step=step)
    return f"/threads/{branch.thread_id}/at/{checkpoint.pk}/{query}"


def page(browser, alice, address: str, status: int = 200) -> str:
    answer = browser(alice).get(address)
    assert answer.status_code == status
    return " ".join(answer.content.decode().split())


def test_a_migration_is_a_step_with_a_label_and_its_diff(migrated, browser, alice):
    said = page(browser, alice, at(migrated, 2))
    assert "schema migration" in said
    assert "State brought from schema version 1 to 3" in said
    assert "/traveller" in said
    assert "Stored as schema version" not in said


def test_old_state_is_shown_as_the_agent_reads_it(migrated, browser, alice):
    said = page(browser, alice, at(migrated, 1, "?tab=state"))
    assert "Stored as schema version 1; shown as version 3" in said
    assert "traveller" in said
    raw = page(browser, alice, at(migrated, 1, "?tab=raw"))
    assert "traveller" not in raw
    assert "schema_version" in raw
    assert "Stored as" not in page(browser, alice, at(migrated, 3, "?tab=state"))
    assert "shown as version 3" in page(
        browser, alice, at(migrated, 1, "?tab=messages")
    )


def test_steps_of_two_versions_are_compared_as_one_version(migrated, browser, alice):
    base = Checkpoint.objects.get(branch=migrated, step=1)
    said = page(browser, alice, at(migrated, 3, f"?tab=diff&base={base.pk}"))
    assert "shown as version 3" in said
    assert "meal" in said
    assert "/traveller" not in said  # a migration is no change


def test_a_state_that_no_migration_can_bring_up_is_shown_as_it_is(
    make_thread, browser, alice
):
    state = {**STATE, "facts": {"breaks by": "raising"}}
    branch = make_thread(owner=alice, state=state)
    start.send_message(branch, message="Go on.", by=alice, agent=scribe.name)
    said = page(browser, alice, at(branch, 0, "?tab=state"))
    assert "Shown as it is stored. The migration from schema version 2 raised" in said
    assert "breaks by" in said


def test_state_from_the_future_can_be_read_and_not_gone_on_from(old, browser, alice):
    branch = newer(old)
    said = page(browser, alice, f"/threads/{branch.thread_id}/?tab=state")
    assert "State has schema version 9; this version reads up to 3" in said
    assert "seat" in said
    assert f"/runs/{Run.objects.get().pk}/retry" not in said
    fork = f"/threads/{branch.thread_id}/fork/{branch.head_id}/"
    assert fork not in said
    assert browser(alice).get(fork).status_code == 303
    first = Checkpoint.objects.get(branch=branch, step=0)
    page(browser, alice, fork.replace(str(branch.head_id), str(first.pk)))
    client = browser(alice)
    refused = client.post(f"/runs/{Run.objects.get().pk}/retry")
    assert "reads up to 3" in client.get(refused["Location"]).content.decode()
    sent = client.post(
        f"/threads/{branch.thread_id}/message",
        {
            "branch": branch.pk,
            "message": "Keep these words",
            "request_key": "01900000-0000-7000-8000-000000000001",
        },
    )
    assert sent.status_code == 422
    assert "reads up to 3" in sent.content.decode()
    assert Run.objects.count() == 1
