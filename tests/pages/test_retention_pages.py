"""Retention in the browser: policies, pins and holds, and threads whose content went."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agents.models import Approval, Run
from agents.runs.retention import WORK
from checkpoints.access import Reason, Role, unscoped
from checkpoints.log import expire, tasks
from checkpoints.log.expire import NO_WORK
from checkpoints.models import (
    AuditEvent,
    RetentionPolicy,
    RetentionTask,
    Thread,
)
from tests.checkpoints.archives import states

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def everything_visible(settings, tmp_path):
    settings.BLOB_DIR = tmp_path / "blobs"
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def ada(join):
    return join("ada", Role.ADMIN)


@pytest.fixture
def admin(browser, ada):
    return browser(ada)


def keep(trip) -> str:
    return f"/threads/{trip.thread.pk}/retention/"


def text(response) -> str:
    return response.content.decode()


GOOD = {"do": "save", "agent": "", "keep_days": "14", "then": "archive"}


def test_an_admin_adds_changes_and_removes_a_policy(admin, workspace):
    assert admin.post("/retention/", GOOD).status_code == 303
    policy = RetentionPolicy.objects.get()
    assert (policy.keep_days, policy.then, policy.max_steps) == (14, "archive", None)
    changed = {**GOOD, "policy": policy.pk, "keep_days": "", "max_steps": "500"}
    admin.post("/retention/", changed)
    policy.refresh_from_db()
    assert (policy.keep_days, policy.max_steps) == (None, 500)
    admin.post("/retention/", {"do": "remove", "policy": policy.pk})
    assert not RetentionPolicy.objects.exists()
    assert admin.post("/retention/", {"do": "remove", "policy": "x"}).status_code == 303
    assert AuditEvent.objects.filter(action="policy").count() == 2


@pytest.mark.parametrize(
    ("field", "typed", "says"),
    [
        ("keep_days", "soon", "A whole number of days"),
        ("keep_days", "0", "At least 1 day"),
        ("archive_days", "-3", "At least 1 day"),
        ("max_steps", "3", "At least 10 steps"),
        ("agent", "nobody", "no such agent"),
        ("then", "burn", "Select a valid choice"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_what_was_typed_stays(
    admin, field, typed, says
):
    answer = admin.post("/retention/", {**GOOD, "keep_days": "77", field: typed})
    assert answer.status_code == 422
    page = text(answer)
    assert says in page
    assert 'value="77"' in page or field == "keep_days"
    assert not RetentionPolicy.objects.exists()


def test_two_policies_for_the_same_are_refused(admin):
    admin.post("/retention/", GOOD)
    answer = admin.post("/retention/", GOOD)
    assert answer.status_code == 422
    assert "There is a policy for this already" in text(answer)


def test_the_page_says_what_is_due_and_run_now_asks_a_worker(admin, trip, settings):
    page = text(admin.get("/retention/"))
    assert "0 threads" in page
    RetentionPolicy.objects.create(workspace=trip.thread.workspace, keep_days=1)
    page = text(admin.get("/retention/"))
    assert "1 day, then archive" in page
    assert admin.post("/retention/", {"do": "run"}).status_code == 303
    tasks.work_off(NO_WORK)
    assert "Nothing was due." in text(admin.get("/retention/"))


def test_only_admins_see_it(browser, alice, viewer):
    for who in (alice, viewer):
        assert browser(who).get("/retention/").status_code == 403


def test_pins_and_holds(browser, admin, alice, trip):
    operator = browser(alice)
    operator.post(keep(trip), {"do": "pin"})
    assert "pinned" in text(operator.get(keep(trip)))
    assert "pinned" in text(operator.get("/threads/"))
    assert operator.post(keep(trip), {"do": "hold", "reason": "x"}).status_code == 403
    answer = admin.post(keep(trip), {"do": "hold", "reason": " "})
    assert answer.status_code == 422
    assert "Say why" in text(answer)
    admin.post(keep(trip), {"do": "hold", "reason": "Case 12 is open"})
    page = text(operator.get(keep(trip)))
    assert "Case 12 is open" in page
    assert "The legal hold overrules it" in page
    admin.post(keep(trip), {"do": "lift"})
    operator.post(keep(trip), {"do": "unpin", "back": "thread"})
    thread = Thread.objects.get(pk=trip.thread.pk)
    assert (thread.legal_hold, thread.pinned, thread.hold_reason) == (
        False,
        False,
        None,
    )
    actions = AuditEvent.objects.filter(object_id=thread.pk).values_list(
        "action", flat=True
    )
    assert {"pin", "hold", "lift", "unpin"} <= set(actions)


def test_a_thread_is_archived_seen_and_restored(browser, alice, trip):
    client = browser(alice)
    before = states(trip.thread.pk)
    client.post(keep(trip), {"do": "archive"})
    tasks.work_off(WORK)
    assert "a run or an approval there is not over" in text(client.get(keep(trip)))
    worked = timedelta(days=1, milliseconds=2)
    Run.objects.filter(thread=trip.thread).update(status="succeeded", worked=worked)
    Approval.objects.filter(thread=trip.thread).update(status="cancelled")
    client.post(keep(trip), {"do": "archive"})
    assert "A worker does it in a moment" in text(client.get(keep(trip)))
    tasks.work_off(WORK)
    answer = client.get(trip.page())
    page = text(answer)
    assert answer.status_code == 200
    assert "<b>Archived</b>" in page
    assert "Alice" in page
    assert "The content is not here" in page
    assert "archived" in text(client.get("/threads/?status=archived"))
    for tab in ("state", "messages", "raw", "effects", "context"):
        assert client.get(trip.page(2), {"tab": tab}).status_code == 200
    assert client.get("/inbox/").status_code == 200
    assert client.get("/runs/").status_code == 200
    assert client.get(f"/threads/{trip.thread.pk}/fork/{trip.at(2)}/").status_code < 500
    said = {"branch": trip.branch.pk, "message": "Go on."}
    said["request_key"] = "01a2012c-ea36-7238-b491-5480e83fcad7"
    answer = client.post(f"/threads/{trip.thread.pk}/message", said)
    assert answer.status_code == 403
    client.post(keep(trip), {"do": "restore", "back": "thread"})
    tasks.work_off(NO_WORK)
    assert "<b>Archived</b>" not in text(client.get(trip.page()))
    assert states(trip.thread.pk) == before
    assert Run.objects.get(thread=trip.thread).worked == worked


def test_an_admin_deletes_for_good_and_everyone_reads_by_whom(
    browser, admin, alice, trip
):
    answer = admin.post(keep(trip), {"do": "shred", "reason": "By request"})
    assert answer.status_code == 422
    assert 'value="By request"' in text(answer)
    admin.post(keep(trip), {"do": "shred", "reason": "By request", "word": "delete"})
    assert RetentionTask.objects.get().outcome == "open"
    tasks.work_off(NO_WORK)
    page = text(browser(alice).get(trip.page()))
    assert "Deleted for good" in page
    assert "Ada" in page
    assert "By request" in page
    assert "deleted" in text(browser(alice).get("/threads/"))
    assert "Restore" not in text(browser(alice).get(keep(trip)))


def test_an_auditor_sees_that_it_went_and_no_reason(browser, auditor, bob, trip):
    expire.shred(trip.thread.pk, by=bob, reason="Something private")
    for address in (trip.page(), keep(trip)):
        page = text(browser(auditor).get(address))
        assert "Deleted for good" in page
        assert "Something private" not in page


def test_a_thread_that_fills_up_says_so(browser, alice, trip):
    steps = trip.thread.checkpoints.count()
    client = browser(alice)
    policy = RetentionPolicy.objects.create(
        workspace=trip.thread.workspace, max_steps=steps * 2
    )
    assert 'id="filling"' not in text(client.get(trip.page()))
    RetentionPolicy.objects.filter(pk=policy.pk).update(max_steps=steps + 1)
    assert f"{steps} of {steps + 1} steps are taken" in text(client.get(trip.page()))
