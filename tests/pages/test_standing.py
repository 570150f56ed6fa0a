"""The page of a request by its terms: who may, who did, what is asked for, what is undone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.approvals.ask import Request
from agents.approvals.ask import ask as ask_again
from agents.models import Approval, ApprovalNote, Decision, Run, Snooze
from agents.pure.terms import Terms
from agents.tools import registry
from checkpoints.access import Reason, unscoped
from checkpoints.clock import ClockTimestamp
from checkpoints.models import AuditEvent, Group, Membership, Thread
from tests.agents.waiting import GOOD, make_waiting
from tests.pages.forms import hash_on_page

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ask(alice, make_thread):
    """A request to book, on these terms; alice starts the run."""

    def ask(**terms) -> Approval:
        (asked,) = make_waiting(
            make_thread(owner=alice), alice, terms=Terms(**terms), risk="medium"
        )
        return asked

    return ask


@pytest.fixture
def browser():
    def browser(person) -> Client:
        client = Client()
        client.force_login(User.objects.get(pk=person.user_id))
        return client

    return browser


def fresh(approval: Approval) -> Approval:
    found = Approval.objects.unscoped(Reason.TEST).select_related("run", "call")
    return found.get(pk=approval.pk)


def decide(client: Client, approval: Approval, decision: str, **typed: str):
    now = fresh(approval)
    posted = {
        "decision": decision,
        "revision": str(now.revision),
        "digest": bytes(now.digest).hex(),
        "shown": hash_on_page(client, approval),
        **typed,
    }
    return client.post(f"/inbox/{approval.pk}/decide", posted)


def page_of(client: Client, approval: Approval) -> str:
    return client.get(f"/inbox/{approval.pk}/").content.decode()


def care(client: Client, approval: Approval, do: str, **typed: str):
    return client.post(f"/inbox/{approval.pk}/care", {"do": do, **typed})


def text_of(answer) -> str:
    return answer.content.decode()


def part(page: str, element: str) -> str:
    return page.partition(f'id="{element}"')[2].partition("</section>")[0]


def test_of_two_approvals_the_first_waits_for_the_second(ask, browser, alice, bob):
    request = ask(approvers=2)
    first, second = browser(alice), browser(bob)
    assert "Approve (1 of 2)" in page_of(first, request)
    assert decide(first, request, "approve").status_code == 303
    assert fresh(request).is_pending
    mine = page_of(first, request)
    assert "You approved this; it waits for others." in mine
    assert 'name="decision" value="approve"' not in mine
    theirs = page_of(second, request)
    assert f"{alice.name} approved" in part(theirs, "apr-quorum")
    assert "Approve and run (2 of 2)" in theirs
    decide(second, request, "approve")
    assert fresh(request).status == "approved"


def test_who_approved_one_of_two_takes_it_back(ask, browser, alice):
    request = ask(approvers=2)
    client = browser(alice)
    decide(client, request, "approve")
    assert "/undo" in page_of(client, request)
    assert client.post(f"/inbox/{request.pk}/undo").status_code == 303
    assert "Approve (1 of 2)" in page_of(client, request)


def test_who_started_the_run_reads_that_someone_else_approves(ask, browser, alice, bob):
    request = ask(exclude=("starter",))
    page = page_of(browser(alice), request)
    assert "You started this run" in page
    assert 'name="decision" value="approve"' not in page
    assert "Reject…" in page  # nothing runs by that
    assert decide(browser(alice), request, "approve").status_code == 403
    assert f"{alice.name} (started the run)" in page_of(browser(bob), request)
    decide(browser(alice), request, "reject", reason="Not this one.")
    assert fresh(request).status == "rejected"


def test_a_decision_is_undone_on_the_page_that_follows_without_script(
    ask, browser, alice
):
    request = ask(grace=60)
    client = browser(alice)
    answer = decide(client, request, "approve")
    page = client.get(answer["Location"]).content.decode()
    assert "runs in 60 s" in page
    assert f'action="/inbox/{request.pk}/undo"' in page
    assert client.post(f"/inbox/{request.pk}/undo").status_code == 303
    assert fresh(request).is_pending
    assert fresh(request).run.status == Run.Status.WAITING
    assert "Decision taken back" in part(page_of(client, request), "apr-log")


def test_with_script_the_toast_has_the_button(ask, browser, alice):
    request = ask(grace=60)
    posted = {
        "decision": "approve",
        "revision": "1",
        "digest": bytes(request.digest).hex(),
        "shown": hash_on_page(browser(alice), request),
    }
    answer = browser(alice).post(
        f"/inbox/{request.pk}/decide", posted, headers={"HX-Request": "true"}
    )
    toast = answer.content.decode().partition('class="toast"')[2]
    assert f"/inbox/{request.pk}/undo" in toast
    assert 'data-hotkey="z"' in toast
    assert 'data-seconds="60"' in toast


@pytest.mark.parametrize(("grace", "said"), [(5, True), (60, False)])
def test_the_last_seconds_before_it_is_final_are_not_called_now(
    ask, browser, alice, grace, said
):
    request = ask(grace=grace)
    client = browser(alice)
    decide(client, request, "approve")
    page = page_of(client, request)
    for where in ("apr-grace", "apr-outcome"):
        shown = part(page, where)
        assert ("in a few seconds" in shown) == said
        assert ("<relative-time" in shown) != said


def test_after_the_window_undo_is_not_offered_and_says_why(ask, browser, alice):
    request = ask(grace=60)
    client = browser(alice)
    decide(client, request, "approve")
    over = ClockTimestamp() - timedelta(seconds=1)
    Approval.objects.unscoped(Reason.TEST).filter(pk=request.pk).update(final_at=over)
    Run.objects.unscoped(Reason.TEST).filter(pk=request.run_id).update(wake_at=over)
    assert f'action="/inbox/{request.pk}/undo"' not in page_of(client, request)
    late = client.post(f"/inbox/{request.pk}/undo", headers={"HX-Request": "true"})
    assert late.status_code == 409
    assert "too late" in late.content.decode()
    assert fresh(request).status == "approved"


def test_a_password_is_asked_for_again_and_another_one_decides_nothing(
    ask, browser, alice
):
    request = ask(reauthenticate=True)
    client = browser(alice)
    assert 'name="password"' in page_of(client, request)
    for wrong in ("", "not mine"):
        answer = decide(client, request, "approve", password=wrong)
        assert answer.status_code == 422
        assert 'id="password-e"' in answer.content.decode()
        assert fresh(request).is_pending
    person = User.objects.get(pk=alice.user_id)
    decide(client, request, "approve", password=person.username)
    assert fresh(request).status == "approved"


def test_the_tool_s_name_is_typed_to_say_that_it_is_meant(ask, browser, alice):
    request = ask(typed=True)
    client = browser(alice)
    answer = decide(client, request, "approve", typed="bok")
    assert answer.status_code == 422
    assert 'value="bok"' in answer.content.decode()
    decide(client, request, "approve", typed="book")
    assert fresh(request).status == "approved"


def test_an_admin_breaks_the_glass_with_a_reason(ask, browser, alice, join, omar):
    request = ask(approvers=2)
    admin = browser(join("ada", "admin", can_approve=True))
    sheet = admin.get(f"/inbox/{request.pk}/sheet/break_glass").content.decode()
    assert "Approve alone and run" in sheet
    plain = browser(alice).get(f"/inbox/{request.pk}/sheet/break_glass")
    assert "Approve alone and run" not in plain.content.decode()
    assert (
        decide(browser(alice), request, "break_glass", reason="Now.").status_code == 403
    )
    answer = decide(admin, request, "break_glass", reason=" ")
    assert answer.status_code == 422
    assert "Approve alone and run" in answer.content.decode()
    decide(
        admin, request, "break_glass", reason="The desk is closed, the train leaves."
    )
    assert fresh(request).status == "approved"
    assert Decision.objects.unscoped(Reason.TEST).get(approval=request).break_glass


def test_who_approved_in_another_tab_takes_that_back_before_breaking_the_glass(
    ask, browser, join
):
    request = ask(approvers=2)
    admin = browser(join("ada", "admin", can_approve=True))
    assert "Approve alone and run" in text_of(
        admin.get(f"/inbox/{request.pk}/sheet/break_glass")
    )
    sheet = hash_on_page(admin, request)
    assert decide(admin, request, "approve").status_code == 303
    alone = {"reason": "The desk is closed, the train leaves.", "shown": sheet}
    answer = decide(admin, request, "break_glass", **alone)
    page = text_of(answer)
    assert answer.status_code == 409
    assert "Ada approved this" in page
    assert alone["reason"] in page
    assert "/undo" in page
    assert fresh(request).is_pending
    assert admin.post(f"/inbox/{request.pk}/undo").status_code == 303
    assert decide(admin, request, "break_glass", **alone).status_code == 303
    assert fresh(request).status == "approved"


def test_what_is_left_with_who_may_not_decide_it_is_everybody_s_again(
    ask, browser, alice, bob, join
):
    """Bob claimed it, it is assigned to him, and he lost the right since."""
    request = ask()
    client, carol = browser(alice), browser(join("carol", can_approve=True))
    care(browser(bob), request, "claim")
    care(client, request, "assign", to=str(bob.user_id))
    mine = "/inbox/?show=mine"
    assert f"apr-{request.pk}-row" not in carol.get(mine).content.decode()
    assert "who may not decide it" not in page_of(client, request)
    Membership.objects.unscoped(Reason.TEST).filter(user=bob.user_id).update(
        can_approve=False
    )
    assert f"for {bob.name}, who may not decide it" in page_of(client, request)
    assert f"claimed by {bob.name}, who may not decide it" in page_of(client, request)
    assert f"apr-{request.pk}-row" in carol.get(mine).content.decode()


def test_a_rejection_stops_the_run_as_well_when_told_so(ask, browser, alice):
    request = ask()
    decide(browser(alice), request, "reject", reason="No more of this.", stop="1")
    assert fresh(request).run.status == Run.Status.CANCELLED


def test_a_request_is_claimed_assigned_snoozed_and_noted_without_deciding(
    ask, browser, alice, bob
):
    request = ask()
    client = browser(alice)
    assert care(client, request, "claim").status_code == 303
    assert f"claimed by {alice.name}" in page_of(browser(bob), request)
    care(client, request, "release")
    assert "claimed by" not in page_of(browser(bob), request)
    people = client.get(f"/inbox/{request.pk}/sheet/assign").content.decode()
    assert bob.name in people
    care(client, request, "assign", to=str(bob.user_id))
    assert "for you" in page_of(browser(bob), request)
    care(client, request, "snooze", hours="4")
    assert Snooze.objects.unscoped(Reason.TEST).filter(by_id=alice.user_id).exists()
    assert "Bring back" in page_of(client, request)
    care(client, request, "escalate")
    care(client, request, "note", note="Ask Helen about <b>the date</b>.")
    assert ApprovalNote.objects.unscoped(Reason.TEST).count() == 1
    log = part(page_of(browser(bob), request), "apr-log")
    assert "Ask Helen about &lt;b&gt;the date&lt;/b&gt;." in log
    for words in ("Claimed", "Assigned", "Escalated", f"Note by {alice.name}"):
        assert words in log
    assert fresh(request).is_pending


@pytest.mark.parametrize(
    ("do", "typed", "element"),
    [
        ("note", {"note": " "}, "note-e"),
        ("assign", {"to": "999999"}, "to-e"),
        ("assign", {"to": "x"}, "to-e"),
        ("snooze", {"hours": "0"}, "sheet-h"),
    ],
)
def test_what_is_wrong_stands_in_the_sheet_that_sent_it(
    ask, browser, alice, do, typed, element
):
    answer = care(browser(alice), ask(), do, **typed)
    assert answer.status_code == 422
    assert f'id="{element}"' in answer.content.decode()


def test_what_was_shown_goes_with_the_decision(ask, browser, alice):
    request = ask()
    client = browser(alice)
    page = page_of(client, request)
    shown = page.partition('name="shown" value="')[2].partition('"')[0]
    assert decide(client, request, "approve", shown="zz").status_code == 422
    decide(client, request, "approve", shown=shown)
    made = Decision.objects.unscoped(Reason.TEST).get(approval=request)
    assert made.shown is not None
    assert bytes(made.shown).hex() == shown
    assert where_shown(request) == ["page"]


def where_shown(request: Approval) -> list[str]:
    """As the audit log has it of each decision."""
    events = AuditEvent.objects.unscoped(Reason.TEST).filter(object_id=request.pk)
    said = events.filter(detail__has_key="shown").order_by("position")
    return [event.detail["shown"] for event in said]


@pytest.mark.parametrize("decision", ["approve", "edit", "reject", "break_glass"])
def test_a_form_that_does_not_say_what_was_shown_decides_nothing(
    ask, browser, join, decision
):
    request = ask(approvers=2) if decision == "break_glass" else ask()
    client = browser(join("ada", "admin", can_approve=True))
    refused = decide(client, request, decision, shown="", reason="Too dear.")
    assert refused.status_code == 422
    assert "does not say what was shown. Reload the page." in refused.content.decode()
    assert fresh(request).is_pending
    assert where_shown(request) == []


def test_a_note_that_may_not_be_written_is_kept(ask, browser, join):
    request, ines = ask(), join("ines", "auditor")
    answer = care(browser(ines), request, "note", note="Ask Ana <b> first.")
    assert answer.status_code == 403
    kept = text_of(answer).partition('id="apr-kept"')[2]
    assert "Ask Ana &lt;b&gt; first." in kept
    assert "Nothing was decided." in text_of(answer)


def test_one_person_says_what_came_of_a_call_and_two_run_it_again(
    ask, browser, alice, bob
):
    for verdict, status in [("respond", "responded"), ("approve", "pending")]:
        request = ask(approvers=2)
        with unscoped(Reason.TEST):
            book = registry.tool("waiting-desk", "book")
            ask_again(request.run, [Request(request.call, book, GOOD, in_doubt="x")])
        client = browser(alice)
        page = " ".join(page_of(client, request).split())
        assert "Who knows what came of it can say so alone" in page
        assert "To run it again, 2 people approve." in page
        decide(client, request, verdict, response="It is booked.")
        assert fresh(request).status == status
    decide(browser(bob), request, "approve")
    assert fresh(request).status == "approved"


def test_similar_decisions_are_told_with_why_they_were_rejected(
    ask, browser, alice, bob
):
    client = browser(alice)
    decide(client, ask(), "approve")
    decide(client, ask(), "reject", reason="Wrong <i>date</i>.")
    page = part(page_of(client, ask()), "apr-similar")
    assert "1 approved" in page
    assert "1 rejected" in page
    assert "Wrong &lt;i&gt;date&lt;/i&gt;." in page


def test_who_opened_it_stands_in_the_activity(ask, browser, alice, bob):
    request = ask()
    page_of(browser(bob), request)
    log = part(page_of(browser(alice), request), "apr-log")
    assert f"Opened by {bob.name}" in log


def test_a_request_that_its_groups_cannot_see_says_so(
    browser, make_thread, alice, bob, workspace
):
    finance = Group.objects.create(workspace=workspace, name="Finance")
    everybody = Membership.objects.unscoped(Reason.TEST)
    finance.members.set(everybody.filter(user=bob.user_id))
    terms = Terms(groups=(str(finance.pk),))
    told = "Nobody of Finance can decide this."
    for visibility, is_told in (("private", True), ("workspace", False)):
        branch = make_thread(owner=alice, visibility=visibility)
        (approval,) = make_waiting(branch, alice, terms=terms)
        page = browser(alice).get(f"/inbox/{approval.pk}/").content.decode()
        assert (told in page) is is_told


@pytest.fixture
def finance(workspace, bob) -> Group:
    made = Group.objects.create(workspace=workspace, name="Finance")
    everybody = Membership.objects.unscoped(Reason.TEST)
    made.members.set(everybody.filter(user=bob.user_id))
    return made


@pytest.mark.parametrize("wide", [False, True])
def test_the_owner_lets_those_see_it_who_are_asked(
    browser, make_thread, alice, bob, finance, wide
):
    branch = make_thread(owner=alice, visibility="private")
    terms = Terms(groups=(str(finance.pk),))
    (approval,) = make_waiting(branch, alice, terms=terms)
    client, address = browser(alice), f"/inbox/{approval.pk}/"
    note = part(client.get(address).content.decode(), "apr-unseen")
    assert "Share with" in note
    assert browser(bob).get(address).status_code == 404
    to = "" if wide else str(finance.pk)
    assert f'value="{to}"' in note
    sent = client.post(f"{address}care", {"do": "share", "to": to})
    assert sent.status_code == 303
    assert "apr-unseen" not in client.get(address).content.decode()
    decide(browser(bob), approval, "approve")
    thread = Thread.objects.unscoped(Reason.TEST).get(pk=approval.thread_id)
    seen_by = ("workspace", None) if wide else ("group", finance.pk)
    assert (thread.visibility, thread.group_id) == seen_by
    event = AuditEvent.objects.unscoped(Reason.TEST).get(action="share")
    assert (event.object_id, event.actor_id) == (thread.pk, alice.user_id)
    assert event.detail.get("group") == (None if wide else str(finance.pk))


def test_nobody_else_shares_a_thread_nor_with_anybody_else(
    browser, make_thread, alice, bob, finance, workspace
):
    other = Group.objects.create(workspace=workspace, name="Sales")
    branch = make_thread(owner=alice, visibility="group", group=other)
    everybody = Membership.objects.unscoped(Reason.TEST)
    other.members.set(everybody.filter(user=bob.user_id))
    finance.members.clear()
    terms = Terms(groups=(str(finance.pk),))
    (approval,) = make_waiting(branch, alice, terms=terms)
    address = f"/inbox/{approval.pk}/"
    page = browser(bob).get(address).content.decode()
    assert "An admin can let somebody into one of the groups" in page
    # Nobody is in the group: to share it would help nobody.
    assert "Share with" not in browser(alice).get(address).content.decode()
    for person, to, status in (
        (bob, "", 403),
        (alice, "", 422),
        (alice, str(other.pk), 422),
        (alice, "Sales", 422),
    ):
        sent = browser(person).post(f"{address}care", {"do": "share", "to": to})
        assert sent.status_code == status, to
    thread = Thread.objects.unscoped(Reason.TEST).get(pk=approval.thread_id)
    assert (thread.visibility, thread.group_id) == ("group", other.pk)
