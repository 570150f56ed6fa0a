"""The Inbox by its front door: what it shows, what a decision does, what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection

from agents.approvals.decide import approve
from agents.models import Approval, Decision, Run
from agents.runs import stop
from checkpoints.access import Reason
from checkpoints.keys import hierarchy
from checkpoints.models import AuditEvent
from tests.agents.waiting import GOOD, make_waiting
from tests.pages.forms import hash_on_page

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def signed_in(client):
    """A client of the person of this principal."""

    def sign_in(principal):
        client.force_login(User.objects.get(pk=principal.user_id))
        return client

    return sign_in


@pytest.fixture
def booking(alice, make_thread) -> Approval:
    """A run wants to book for 1,200 and waits."""
    return make_waiting(make_thread(owner=alice), alice, ("book", GOOD))[0]


@pytest.fixture
def question(alice, make_thread) -> Approval:
    asked = {"question": "Window or aisle?"}
    return make_waiting(make_thread(owner=alice), alice, ("ask_traveller", asked))[0]


def fresh(approval: Approval) -> Approval:
    return (
        Approval.objects.unscoped(Reason.TEST)
        .select_related("run", "call")
        .get(pk=approval.pk)
    )


def form(client, approval: Approval, decision: str, **typed: str) -> dict[str, str]:
    """What the page's form carries."""
    return {
        "decision": decision,
        "revision": str(approval.revision),
        "digest": bytes(approval.digest).hex(),
        "shown": hash_on_page(client, approval),
        **typed,
    }


def decide(client, approval: Approval, decision: str, **typed: str):
    return client.post(
        f"/inbox/{approval.pk}/decide", form(client, approval, decision, **typed)
    )


def comparable(page) -> str:
    """The page, but for its own address and the form token, masked anew each time."""
    text = page.content.decode().replace(page.wsgi_request.path, "")
    return re.sub(r'csrfmiddlewaretoken" value="\w+"', "", text)


def test_the_inbox_opens_on_the_first_request_with_its_arguments(
    signed_in, alice, booking
):
    page = signed_in(alice).get("/inbox/")
    text = page.content.decode()
    assert page.status_code == 200
    assert "Book TP 209, 1,200.00" in text
    assert "Approve and run" in text
    assert "No reason given" in text
    assert f"/threads/{booking.thread_id}/at/{booking.checkpoint_id}/" in text
    assert page["Cache-Control"] == "no-store"


def test_an_empty_inbox_says_what_would_be_there(signed_in, alice):
    page = signed_in(alice).get("/inbox/")
    assert "Nothing waits for you" in page.content.decode()


def test_an_empty_inbox_is_drawn_anew_when_something_waits(
    signed_in, alice, make_thread
):
    client = signed_in(alice)
    assert client.get("/f/inbox/?empty=1").status_code == 204
    make_waiting(make_thread(owner=alice), alice, ("book", GOOD))
    assert client.get("/f/inbox/?empty=1")["HX-Refresh"] == "true"


def test_approving_takes_one_post_and_wakes_the_run(signed_in, alice, booking):
    answer = decide(signed_in(alice), booking, "approve")
    assert (answer.status_code, answer["Location"]) == (303, f"/inbox/{booking.pk}/")
    assert fresh(booking).status == "approved"
    assert fresh(booking).run.status == Run.Status.READY


def test_the_second_person_reads_who_decided(signed_in, alice, bob, booking):
    approve(booking, seen=booking.as_shown(), by=alice)
    client = signed_in(bob)
    answer = client.post(
        f"/inbox/{booking.pk}/decide",
        form(client, booking, "approve"),
        headers={"HX-Request": "true"},
    )
    assert answer.status_code == 409
    assert f"{alice.name} approved this" in answer.content.decode()
    assert Decision.objects.unscoped(Reason.TEST).count() == 1


@pytest.mark.parametrize(
    ("decision", "typed"),
    [("approve", {}), ("reject", {"reason": "Too dear."})],
)
def test_a_form_that_is_sent_twice_is_one_decision(
    signed_in, alice, booking, decision, typed
):
    client = signed_in(alice)
    for _ in range(2):
        answer = decide(client, booking, decision, **typed)
        assert answer.status_code == 303
        page = client.get(answer["Location"]).content.decode()
        assert "toast" in page
        assert "approved this" not in page
        assert "rejected this" not in page
    assert Decision.objects.unscoped(Reason.TEST).count() == 1


def test_another_form_of_the_same_person_has_lost_to_the_first(
    signed_in, alice, booking
):
    client = signed_in(alice)
    decide(client, booking, "reject", reason="Too dear.")
    for decision, typed in (("reject", {"reason": "No."}), ("approve", {})):
        posted = form(client, booking, decision, **typed)
        htmx = {"HX-Request": "true"}
        answer = client.post(f"/inbox/{booking.pk}/decide", posted, headers=htmx)
        assert answer.status_code == 409
    assert Decision.objects.unscoped(Reason.TEST).count() == 1


def test_without_script_the_second_person_reads_it_too(signed_in, alice, bob, booking):
    approve(booking, seen=booking.as_shown(), by=alice)
    client = signed_in(bob)
    answer = decide(client, booking, "approve")
    page = client.get(answer["Location"])
    assert f"{alice.name} approved this" in page.content.decode()


def test_a_rejection_needs_a_reason_and_keeps_the_sheet(signed_in, alice, booking):
    answer = decide(signed_in(alice), booking, "reject", reason="  ")
    text = answer.content.decode()
    assert answer.status_code == 422
    assert "Say why" in text
    assert 'id="apr-sheet"' in text
    assert fresh(booking).is_pending


def test_a_rejection_tells_the_canned_reason_first(signed_in, alice, booking):
    client = signed_in(alice)
    decide(client, booking, "reject", why="Too expensive", reason="Stay under 900.")
    page = client.get(f"/inbox/{booking.pk}/").content.decode()
    assert fresh(booking).status == "rejected"
    assert "Too expensive" in page
    assert "Stay under 900." in page


def test_an_edit_shows_what_is_wrong_with_which_field_and_keeps_the_typing(
    signed_in, alice, booking
):
    client = signed_in(alice)
    typed = {"arg/flight": "TP 210", "arg/price": "cheap", "arg/seats": "1"}
    answer = decide(client, booking, "edit", **typed)
    text = answer.content.decode()
    assert answer.status_code == 422
    assert "is a number without separators" in text
    assert 'value="cheap"' in text
    assert 'value="TP 210"' in text
    assert "was" in text
    assert fresh(booking).is_pending


def test_an_edit_runs_with_the_edited_arguments_and_keeps_the_proposed(
    signed_in, alice, booking
):
    client = signed_in(alice)
    decide(client, booking, "edit", **{"arg/price": "1100.00"})
    page = client.get(f"/inbox/{booking.pk}/").content.decode()
    assert fresh(booking).status == "approved"
    assert "1100.00" in page
    assert "was <span hx-ignore>1200.00</span>" in page


def test_a_question_is_answered_in_words(signed_in, alice, question):
    client = signed_in(alice)
    page = client.get(f"/inbox/{question.pk}/").content.decode()
    assert "Your answer" in page
    assert "Approve and run" not in page
    decide(client, question, "respond", response="Aisle, please.")
    assert fresh(question).status == "responded"


def test_an_answer_that_the_agent_offers_is_given_with_one_click(
    signed_in, alice, make_thread
):
    asked = {"question": "Seat?", "options": ["Aisle", "Window <b>"]}
    (one,) = make_waiting(make_thread(owner=alice), alice, ("ask_traveller", asked))
    client = signed_in(alice)
    page = client.get(f"/inbox/{one.pk}/").content.decode()
    assert 'name="option" value="Window &lt;b&gt;"' in page
    decide(client, one, "respond", option="Window <b>", response="")
    assert fresh(one).status == "responded"
    page = client.get(f"/inbox/{one.pk}/").content.decode()
    assert "Window &lt;b&gt;" in page.partition('id="apr-log"')[2]


def test_a_rejection_stops_the_run_as_well_when_told_so(signed_in, alice, booking):
    decide(signed_in(alice), booking, "reject", reason="No more of this.", stop="1")
    assert fresh(booking).status == "rejected"
    assert fresh(booking).run.status == Run.Status.CANCELLED


@contextmanager
def no_run_ends() -> Iterator[None]:
    """PostgreSQL breaks off whatever would cancel a run."""
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE agents_run ADD CONSTRAINT breaks CHECK (status <> 'cancelled')"
        )
        try:
            yield
        finally:
            cursor.execute("ALTER TABLE agents_run DROP CONSTRAINT breaks")


def test_where_the_run_cannot_be_stopped_nothing_is_rejected(signed_in, alice, booking):
    """A crash between the two would leave a run that goes on although it was stopped."""
    client = signed_in(alice)
    client.raise_request_exception = False
    with no_run_ends():
        said = decide(client, booking, "reject", reason="No more of this.", stop="1")
    assert said.status_code == 500
    assert fresh(booking).is_pending
    assert fresh(booking).run.status == Run.Status.WAITING
    assert not Decision.objects.unscoped(Reason.TEST).exists()


def test_a_cancelled_request_says_that_it_was_not_done(signed_in, alice, booking):
    client = signed_in(alice)
    stop.cancel(booking.run, by=alice)
    assert fresh(booking).status == "cancelled"
    assert "It was not done, and need not be decided any more." in outcome(
        client, booking
    )


def outcome(client, approval: Approval) -> str:
    """What its page says came of it."""
    page = " ".join(client.get(f"/inbox/{approval.pk}/").content.decode().split())
    return page.partition('id="apr-outcome"')[2].partition("</section>")[0]


def test_an_empty_answer_is_refused_beside_its_field(signed_in, alice, question):
    answer = decide(signed_in(alice), question, "respond", response=" ")
    assert answer.status_code == 422
    assert "Write an answer" in answer.content.decode()


def test_who_may_not_approve_is_told_who_can(signed_in, omar, booking):
    client = signed_in(omar)
    page = client.get(f"/inbox/{booking.pk}/").content.decode()
    assert "someone with the right to approve" in page
    assert "Approve and run" not in page
    answer = decide(client, booking, "approve")
    assert answer.status_code == 403
    assert fresh(booking).is_pending


def test_an_auditor_sees_that_it_is_sealed(signed_in, auditor, booking):
    page = signed_in(auditor).get(f"/inbox/{booking.pk}/").content.decode()
    assert "TP 209" not in page
    assert "Sealed request" in page


def test_a_form_that_was_tampered_with_decides_nothing(signed_in, alice, booking):
    client = signed_in(alice)
    posted = {"decision": "approve", "revision": "1", "digest": "zz"}
    answer = client.post(f"/inbox/{booking.pk}/decide", posted)
    assert answer.status_code == 422
    posted = form(client, booking, "approve") | {"digest": "00" * 32}
    answer = client.post(
        f"/inbox/{booking.pk}/decide", posted, headers={"HX-Request": "true"}
    )
    assert answer.status_code == 409
    assert fresh(booking).is_pending


def test_a_request_whose_keys_are_destroyed_cannot_be_decided(
    signed_in, alice, booking
):
    client = signed_in(alice)
    hierarchy.destroy_thread_keys(booking.thread_id)
    assert client.get(f"/inbox/{booking.pk}/").status_code == 200
    answer = client.post(
        f"/inbox/{booking.pk}/decide",
        form(client, booking, "reject", reason="Too dear."),
        headers={"HX-Request": "true"},
    )
    assert answer.status_code == 409
    assert fresh(booking).is_pending


def test_another_workspace_is_answered_as_if_nothing_were_there(
    signed_in, other, booking
):
    client = signed_in(other)
    foreign = client.get(f"/inbox/{booking.pk}/")
    nothing = client.get(f"/inbox/{uuid4()}/")
    assert foreign.status_code == nothing.status_code == 404
    assert comparable(foreign) == comparable(nothing)
    assert decide(client, booking, "approve").status_code == 404


def test_the_list_answers_304_and_opens_nothing_while_it_shows_the_same(
    signed_in, alice, booking
):
    client = signed_in(alice)
    first = client.get("/f/inbox/")
    opened = AuditEvent.objects.unscoped(Reason.TEST).filter(action="open").count()
    again = client.get("/f/inbox/", headers={"HX-PTag": first["HX-PTag"]})
    assert again.status_code == 304
    assert (
        AuditEvent.objects.unscoped(Reason.TEST).filter(action="open").count() == opened
    )


def test_opening_a_request_is_recorded_with_who_did_it(signed_in, alice, booking):
    signed_in(alice).get(f"/inbox/{booking.pk}/")
    seen = AuditEvent.objects.unscoped(Reason.TEST).filter(
        action="open", purpose="approval", actor_id=alice.user_id
    )
    assert seen.count() == 1


def test_a_fragment_after_signing_out_sends_the_whole_page_to_sign_in(client, booking):
    answer = client.get(f"/f/inbox/{booking.pk}/", headers={"HX-Request": "true"})
    assert answer.status_code == 401
    assert answer["HX-Redirect"].startswith("/login")


def test_the_inbox_takes_the_same_number_of_queries_for_any_length(
    signed_in, alice, make_thread, django_assert_num_queries
):
    client = signed_in(alice)
    for _ in range(3):
        make_waiting(make_thread(owner=alice), alice, ("book", GOOD))
    client.get("/inbox/")  # keys are cached from here on
    with django_assert_num_queries(QUERIES):
        client.get("/inbox/")
    for _ in range(4):
        make_waiting(make_thread(owner=alice), alice, ("book", GOOD))
    client.get("/inbox/")
    with django_assert_num_queries(QUERIES):
        client.get("/inbox/")


# Session and person 2, membership and groups 2, list 1, request 1, each opening's
# right and visibility, access row and key 3 each, that a key still stands 1, decisions 1,
# the right to decide 1, whether it may be remembered 2 (policies, the right again), a
# snooze 1, its log 1, notes 1, similar decisions 1, the time 1, counts of the tabs 1 and
# of the navigation 1, what can be filtered by 2.
QUERIES = 26
