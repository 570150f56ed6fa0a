"""The thread's page: its steps, what each changed, and the ways between them."""

from __future__ import annotations

from uuid import uuid4

import pytest

from checkpoints.access import Reason
from checkpoints.models import AuditEvent
from tests.pages.conftest import ASKED, append, result

TABS = ["diff", "state", "messages", "context", "effects", "raw"]


def text(response) -> str:
    assert response.status_code == 200, response
    return response.content.decode()


def opened(thread) -> int:
    return (
        AuditEvent.objects.unscoped(Reason.TEST)
        .filter(action="open", object_id=thread.pk)
        .count()
    )


def test_the_page_opens_at_the_tip_of_the_branch_at_work(browser, trip, alice):
    page = text(browser(alice).get(trip.page()))
    assert "Board week New York" in page
    assert 'id="step-4"' in page
    assert "waiting for a person" in page
    assert str(trip.approval) in page
    assert "Fork from 4" in page


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("step", range(5))
def test_every_tab_shows_every_step(browser, trip, alice, tab, step):
    client = browser(alice)
    assert f"Fork from {step}" in text(client.get(trip.page(step), {"tab": tab}))
    assert 'id="inspector"' in text(client.get(trip.parts(step), {"tab": tab}))


def test_a_step_says_what_it_changed(browser, trip, alice):
    page = text(browser(alice).get(trip.page(2)))
    assert "/facts/fare" in page
    assert "+1 appended" in page
    assert "2 messages and" in page  # were there before, and are folded


def test_any_two_steps_can_be_compared(browser, trip, alice):
    page = text(browser(alice).get(trip.page(4), {"base": trip.at(0)}))
    assert "Compared with" in page
    assert "+3 appended" in page


def test_a_step_of_another_branch_can_be_the_base(browser, trip, alice):
    page = text(browser(alice).get(trip.page(4), {"base": trip.at(3, "cheap")}))
    assert "cheaper-model" in page
    assert "/params/model" in page  # only that branch changed its model


def test_side_by_side_shows_what_went_left_of_what_came(browser, trip, alice):
    page = text(
        browser(alice).get(trip.page(4), {"base": trip.at(3, "cheap"), "split": "1"})
    )
    assert "split2" in page


def test_the_state_can_be_searched(browser, trip, alice):
    client = browser(alice)
    found = text(client.get(trip.page(2), {"tab": "state", "q": "1200"}))
    assert "value" in found
    assert "params" not in found.partition('id="state"')[2]
    nothing = text(client.get(trip.page(2), {"tab": "state", "q": "zebra"}))
    assert "Nothing matches" in nothing


def test_messages_that_were_there_are_folded(browser, trip, alice):
    page = text(browser(alice).get(trip.page(3), {"tab": "messages"}))
    assert ASKED in page
    assert page.partition('id="messages"')[2].count("msg new") == 1


def test_the_context_shows_the_messages_as_they_were_sent(browser, trip, alice):
    page = text(browser(alice).get(trip.page(3), {"tab": "context"}))
    sent = page.partition('id="request"')[2]
    assert (
        sent.count("<article") == 4
    )  # system, person, call, result: not its own reply
    assert "temperature" in page


def test_a_step_after_a_model_call_shows_what_that_call_saw(browser, trip, alice):
    page = text(browser(alice).get(trip.page(2), {"tab": "context"}))
    assert "the last call before this, step 1" in page


def test_effects_lists_the_calls_of_the_branch(browser, trip, alice):
    page = text(browser(alice).get(trip.page(2), {"tab": "effects"}))
    assert "Quote TP 209" in page
    assert "Book TP 209" in page
    inherited = text(
        browser(alice).get(
            trip.page(4, "cheap"), {"branch": trip.cheap.pk, "tab": "effects"}
        )
    )
    effects = inherited.partition('id="effects"')[2]
    assert "Quote TP 209" in effects
    assert "Book TP 209" not in effects  # asked for after the fork


def test_a_fork_folds_what_it_shares_with_its_source(browser, trip, alice):
    page = text(browser(alice).get(trip.page(4, "cheap")))
    assert "Steps 0\N{EN DASH}2 shared with main" in page
    assert "failed" in page
    assert "The model server did not answer." in page


def test_a_shared_step_stays_on_the_branch_that_was_looked_at(browser, trip, alice):
    page = text(browser(alice).get(trip.page(1), {"branch": trip.cheap.pk}))
    assert f"Steps on {'cheaper-model'}" in page
    assert f"at/{trip.at(2)}/?branch={trip.cheap.pk}" in page  # the next step, too


def test_a_failed_step_says_why_and_offers_the_step_before(browser, trip, alice):
    page = text(browser(alice).get(trip.page(5, "cheap")))
    assert 'role="alert"' in page
    assert "Fork before this step" in page
    assert f"/fork/{trip.at(4, 'cheap')}/" in page


def test_the_scrubber_leads_to_a_step_without_script(browser, trip, alice):
    page = text(
        browser(alice).get(trip.page(), {"branch": trip.branch.pk, "step": "1"})
    )
    assert "Fork from 1" in page
    assert 'name="step"' in page


def test_a_step_beyond_the_tip_is_the_tip(browser, trip, alice):
    page = text(
        browser(alice).get(trip.page(), {"branch": trip.branch.pk, "step": "99"})
    )
    assert "Fork from 4" in page


def test_parts_of_a_page_name_the_page_as_their_address(browser, trip, alice):
    client = browser(alice)
    response = client.get(trip.parts(2), {"tab": "state"})
    assert response["HX-Push-Url"] == f"{trip.page(2)}?tab=state"
    response = client.get(
        f"/f/threads/{trip.thread.pk}/scrub", {"step": 1, "branch": trip.branch.pk}
    )
    assert response["HX-Replace-Url"] == trip.page(1)
    assert 'id="scrub"' not in text(response)  # its thumb stays where the hand is


@pytest.mark.parametrize("what", ["at", "branch", "base"])
def test_what_is_not_there_is_not_found(browser, trip, make_trip, alice, bob, what):
    client = browser(alice)
    elsewhere = make_trip(bob)
    for unknown in (
        uuid4(),
        elsewhere.at(2) if what != "branch" else elsewhere.branch.pk,
    ):
        if what == "at":
            response = client.get(f"{trip.page()}at/{unknown}/")
        else:
            response = client.get(trip.page(2), {what: unknown})
        assert response.status_code == 404
    assert client.get(trip.page(), {"branch": "nonsense"}).status_code == 404


def test_every_view_of_a_thread_is_recorded(browser, trip, alice):
    browser(alice).get(trip.page())
    assert opened(trip.thread) == 1


def test_a_poll_that_finds_nothing_new_opens_nothing(browser, trip, alice):
    client = browser(alice)
    page = text(client.get(trip.page()))
    tag = page.partition('hx-ptag="')[2].partition('"')[0]
    before = opened(trip.thread)
    response = client.get(f"/f/threads/{trip.thread.pk}/live", headers={"HX-PTag": tag})
    assert response.status_code == 304
    assert opened(trip.thread) == before


def test_a_page_at_the_tip_follows_new_steps(browser, trip, alice):
    client = browser(alice)
    page = text(client.get(trip.page()))
    tag = page.partition('hx-ptag="')[2].partition('"')[0]
    append(trip.branch, result("book_flight", "Booked.", label="Booked TP 209"))
    live = text(
        client.get(
            f"/f/threads/{trip.thread.pk}/live",
            {"branch": trip.branch.pk, "seen": 4},
            headers={"HX-PTag": tag},
        )
    )
    assert "Fork from 5" in live
    assert 'id="tail"' not in live


def test_a_page_at_an_older_step_stays_and_says_what_is_new(browser, trip, alice):
    append(trip.branch, result("book_flight", "Booked.", label="Booked TP 209"))
    live = text(
        browser(alice).get(
            f"/f/threads/{trip.thread.pk}/live/{trip.at(2)}", {"seen": 4}
        )
    )
    assert "Fork from 2" in live
    assert "1 new step, follow" in live
    assert 'id="inspector"' not in live  # what was unfolded there stays unfolded


def test_a_thread_that_has_ended_is_not_polled(browser, trip, alice):
    type(trip.run).objects.unscoped(Reason.TEST).filter(pk=trip.run.pk).update(
        status="succeeded"
    )
    assert 'hx-ptag="' not in text(browser(alice).get(trip.page()))


def test_a_long_branch_is_shown_around_the_open_step(browser, make_trip, alice):
    trip = make_trip(alice)
    append(trip.branch, *(result("look", f"Option {n}") for n in range(300)))
    page = text(
        browser(alice).get(trip.page(), {"branch": trip.branch.pk, "step": 150})
    )
    assert page.count('class="step"') == 120
    assert "Earlier steps" in page
    assert "Later steps" in page


def test_a_phone_without_script_reaches_every_pane(browser, trip, alice):
    client = browser(alice)
    page = text(client.get(trip.page(2)))
    assert 'data-show="step"' in page
    assert f'href="{trip.page(2)}?pane=steps"' in page
    assert 'data-show="steps"' in text(client.get(trip.page(2), {"pane": "steps"}))
    assert 'data-show="inspector"' in text(client.get(trip.page(2), {"tab": "raw"}))
