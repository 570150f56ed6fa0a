"""The fork page: what may change, and a source that stays as it was."""

from __future__ import annotations

from uuid import uuid4

import pytest

from agents.models import Agent, Run
from checkpoints.access import Reason
from checkpoints.models import Branch, Checkpoint
from tests.pages.conftest import ASKED, SYSTEM
from tests.pages.test_thread_page import text


@pytest.fixture
def form(trip):
    """The fields of the form for step 2, as a browser sends them when nothing changed."""
    return {
        "name": "quote-twice",
        "system": SYSTEM.replace("\n", "\r\n"),
        "message": ASKED,
        "model": "scripted",
        "temperature": "0",
        "top_p": "",
        "seed": "7",
        "request_key": str(uuid4()),
        "do": "create",
    }


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
    """The source's rows, byte for byte."""
    steps = Checkpoint.objects.unscoped(Reason.TEST).filter(branch=trip.branch)
    branch = Branch.objects.unscoped(Reason.TEST).filter(pk=trip.branch.pk)
    return [*steps.order_by("step").values(), *branch.values()]


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
