"""The fork page: what may change, and a source that stays as it was."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from agents.models import Agent, Approval, Run, ToolCall
from checkpoints.access import Reason
from checkpoints.models import (
    Branch,
    Checkpoint,
    CheckpointDelta,
    Thread,
    ThreadInput,
)
from tests.pages.conftest import ASKED, SYSTEM, append, result
from tests.pages.test_thread_page import text


def unchanged(**more):
    """The fields of the form for step 2, as a browser sends them when nothing changed."""
    return {
        "name": "quote-twice",
        "system": SYSTEM.replace("\n", "\r\n"),
        "message": ASKED,
        "model": "scripted",
        "temperature": "0",
        "top_p": "",
        "seed": "7",
        "path": "",
        "request_key": str(uuid4()),
        "do": "create",
        **more,
    }


@pytest.fixture
def form(trip):
    return unchanged()


@pytest.fixture
def page(trip):
    return f"{trip.page()}fork/{trip.at(2)}/"


def forks(trip):
    return (
        Branch.objects.unscoped(Reason.TEST)
        .filter(thread=trip.thread)
        .exclude(pk__in=[trip.branch.pk, trip.cheap.pk])
    )


def frozen(trip):
    """The source's rows in every table that has any, byte for byte."""
    of_branch = {"branch": trip.branch}
    rows = [
        Branch.objects.unscoped(Reason.TEST).filter(pk=trip.branch.pk),
        Thread.objects.unscoped(Reason.TEST).filter(pk=trip.thread.pk),
        CheckpointDelta.objects.unscoped(Reason.TEST).filter(
            checkpoint__branch=trip.branch
        ),
        *(
            model.objects.unscoped(Reason.TEST).filter(**of_branch)
            for model in (Checkpoint, Run, ToolCall, Approval, ThreadInput)
        ),
    ]
    found = [list(each.order_by("pk").values()) for each in rows]
    assert all(found[:6])
    return found


def test_the_form_starts_with_the_sources_values(browser, trip, alice, page):
    shown = text(browser(alice).get(page))
    assert "Quote every fare once." in shown
    assert ASKED in shown
    assert 'value="scripted"' in shown
    assert 'value="what-if-1"' in shown
    assert "book_flight" in shown  # called after the step
    assert f"{trip.approval} would be asked again" in shown


def test_a_branch_with_an_edited_prompt(browser, trip, alice, page, form, history):
    before = frozen(trip)
    form["system"] = "You plan trips.\r\nQuote every fare twice."
    response = browser(alice).post(page, form)
    assert response.status_code == 303
    made = forks(trip).get()
    assert response["Location"] == f"/threads/{trip.thread.pk}/?branch={made.pk}"
    told = history(made)
    assert told.state_at(3)["params"]["system"] == (
        "You plan trips.\nQuote every fare twice."
    )
    assert [record.kind for record in told.records] == [
        "input",
        "model",
        "tool",
        "edit",
    ]
    assert frozen(trip) == before
    assert not Run.objects.unscoped(Reason.TEST).filter(branch=made).exists()


def test_nothing_changed_is_a_branch_without_an_edit(browser, trip, alice, page, form):
    assert browser(alice).post(page, form).status_code == 303
    made = forks(trip).get()
    assert made.head_step == made.fork_step == 2
    shown = text(browser(alice).get(trip.page(), {"branch": made.pk}))
    assert "not run yet" in shown


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("temperature", "3", "from 0 to 2"),
        ("temperature", "warm", "Enter a number"),
        ("seed", "1.5", "Enter a whole number"),
        ("top_p", "0", "above 0"),
        ("message", "  ", "The message is empty"),
        ("name", "", "Give the branch a name"),
    ],
)
def test_what_does_not_fit_stands_by_its_field_and_all_is_kept(
    browser, trip, alice, page, form, field, value, said
):
    form["system"] = "A prompt that took an hour to write"
    form[field] = value
    response = browser(alice).post(page, form)
    shown = response.content.decode()
    assert response.status_code == 422
    assert said in shown
    assert 'aria-invalid="true"' in shown
    assert "A prompt that took an hour to write" in shown
    assert not forks(trip).exists()


def test_a_double_click_makes_one_branch(browser, trip, alice, page, form):
    client = browser(alice)
    first, second = client.post(page, form), client.post(page, form)
    assert first["Location"] == second["Location"]
    assert forks(trip).count() == 1


def test_the_difference_can_be_seen_without_script(browser, trip, alice, page, form):
    form |= {"system": SYSTEM.replace("once", "twice"), "do": "preview"}
    shown = text(browser(alice).post(page, form))
    assert "<del>once</del>" in shown
    assert "<ins>twice</ins>" in shown
    assert not forks(trip).exists()


def test_the_difference_is_shown_while_one_types(browser, alice):
    response = browser(alice).post(
        "/f/fork/diff?of=system",
        {"was_system": "Quote every fare once.", "system": "Quote every fare <b>."},
    )
    shown = text(response)
    assert 'id="diff-system"' in shown
    assert "<del>once</del>" in shown
    assert "<b>" not in shown


def test_a_step_that_is_not_there_cannot_be_forked(browser, trip, alice):
    response = browser(alice).get(f"{trip.page()}fork/{uuid4()}/")
    assert response.status_code == 404


def test_a_branch_without_an_agent_that_is_installed_says_so(
    browser, trip, alice, page, form
):
    Agent.objects.unscoped(Reason.TEST).update(name="retired")
    form["do"] = "run"
    response = browser(alice).post(page, form)
    assert response.status_code == 422
    assert "No agent is called &#x27;retired&#x27;" in response.content.decode()
    assert not forks(trip).exists()


def test_a_step_that_answers_says_that_a_run_would_end_at_once(browser, trip, alice):
    answered = text(browser(alice).get(f"{trip.page()}fork/{trip.at(4, 'cheap')}/"))
    assert "a run would end at once" in answered
    asks = text(browser(alice).get(f"{trip.page()}fork/{trip.at(3)}/"))
    assert "a run would end at once" not in asks


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ("", "effects: recorded results"),
        ("simulate", "effects: simulated"),
        ("live", "effects: live"),
    ],
)
def test_how_the_fork_makes_its_calls_is_chosen_and_shown(
    browser, trip, alice, page, form, calls, said
):
    if calls:
        form["calls"] = calls
    assert browser(alice).post(page, form).status_code == 303
    made = forks(trip).get()
    assert made.calls == (calls or "recorded")
    shown = text(browser(alice).get(trip.page(), {"branch": made.pk}))
    assert said in shown
    assert ('id="thread-calls"' in shown) == bool(calls)


def test_a_choice_that_is_none_of_ours_is_refused(browser, trip, alice, page, form):
    response = browser(alice).post(page, form | {"calls": "yolo"})
    assert response.status_code == 422
    assert not forks(trip).exists()


@pytest.fixture
def one_call(trip):
    return f"call-{trip.calls['quote'].pk}"


def test_each_recorded_call_is_listed_and_may_be_chosen_for(
    browser, trip, alice, form, one_call
):
    page = f"{trip.page()}fork/{trip.at(1)}/"
    shown = text(browser(alice).get(page))
    assert "Quote TP 209" in shown
    assert f'name="{one_call}"' in shown
    assert browser(alice).post(page, form | {one_call: "recorded"}).status_code == 303
    made = forks(trip).get()
    assert made.call_choices == {str(trip.calls["quote"].pk): "recorded"}
    shown = text(browser(alice).get(trip.page(), {"branch": made.pk}))
    assert "effects: recorded results, 1 call otherwise" in shown


def test_a_choice_for_a_call_is_kept_where_something_else_is_wrong(
    browser, trip, alice, form, one_call
):
    page = f"{trip.page()}fork/{trip.at(1)}/"
    response = browser(alice).post(page, form | {one_call: "recorded", "seed": "x"})
    assert response.status_code == 422
    assert 'value="recorded" selected' in response.content.decode()


@pytest.mark.parametrize("call", ["call-", "call-no", f"call-{UUID(int=7)}"])
def test_a_call_that_the_source_did_not_record_has_no_choice(
    browser, trip, alice, page, form, call
):
    response = browser(alice).post(page, form | {call: "recorded"})
    assert response.status_code == 422
    assert not forks(trip).exists()


def test_live_is_not_offered_to_who_may_not_approve(
    browser, trip, alice, omar, page, form
):
    assert 'name="calls" value="live"' in text(browser(alice).get(page))
    assert 'name="calls" value="live"' not in text(browser(omar).get(page))
    response = browser(omar).post(page, form | {"calls": "live"})
    assert response.status_code == 422
    assert "right to approve" in response.content.decode()
    assert not forks(trip).exists()


@pytest.fixture
def booked(trip):
    """The trip after its booking was approved and made."""
    booked = result("book_flight", "Booked.")
    append(trip.branch, booked)
    ToolCall.objects.unscoped(Reason.TEST).filter(pk=trip.calls["book"].pk).update(
        status="succeeded", result_checkpoint_id=booked.id
    )
    Approval.objects.unscoped(Reason.TEST).update(status="approved")
    return trip


def test_a_request_is_decided_differently_from_its_interrupts_step(
    browser, booked, omar, form
):
    shown = text(browser(omar).get(booked.page(4)))
    assert "Decide differently" in shown
    page = f"{booked.page()}fork/{booked.at(4)}/"
    field = f"call-{booked.calls['book'].pk}"
    shown = text(browser(omar).get(page))
    assert f"{booked.approval}, approved in the source" in shown
    assert f'name="{field}" value="live">' in shown  # not of itself
    again = text(browser(omar).get(page, {"again": "1"}))
    assert f'name="{field}" value="live" checked>' in again
    # Who may not approve can have it asked again: that is all that it does.
    assert browser(omar).post(page, form | {field: "live"}).status_code == 303
    made = forks(booked).get()
    assert made.call_choices == {str(booked.calls["book"].pk): "live"}
    assert not Approval.objects.unscoped(Reason.TEST).filter(branch=made).exists()


def test_another_steps_page_has_nothing_to_decide(browser, booked, alice):
    shown = text(browser(alice).get(f"{booked.page()}fork/{booked.at(2)}/"))
    assert "Decide it differently" not in shown


def test_a_double_click_on_three_makes_three(browser, trip, alice, page, form):
    client = browser(alice)
    form["repeat"] = "3"
    first, second = client.post(page, form), client.post(page, form)
    assert first["Location"] == second["Location"]
    assert forks(trip).count() == 3
    shown = text(client.get(trip.page()))
    for name in ("quote-twice 1", "quote-twice 2", "quote-twice 3"):
        assert name in shown


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("repeat", "0", "greater than or equal to 1"),
        ("repeat", "11", "less than or equal to 10"),
        ("max_cost", "-1", "greater than or equal to"),
        ("max_cost", "1", "Nothing runs yet"),
        ("reapply", "on", "Nothing runs yet"),
    ],
)
def test_what_the_run_cannot_do_stands_by_its_field(
    browser, trip, alice, page, form, field, value, said
):
    form[field] = value
    response = browser(alice).post(page, form)
    assert response.status_code == 422
    assert said in response.content.decode()
    assert not forks(trip).exists()


def test_the_list_of_messages_is_no_list_of_notices(browser, trip, alice, page):
    """Django has a word of its own for what it tells people: `messages`."""
    shown = browser(alice).get(page)
    assert list(shown.context["messages"]) == []
