"""A resumed run on the thread's page, and where people choose what a run goes on from."""

from __future__ import annotations

from uuid import uuid4

import pytest

from agents.models import Run
from agents.pure.context import FACTUAL, WHOLE, Resumed, compose
from checkpoints import gate
from checkpoints.access import Reason
from checkpoints.log import hydrate
from checkpoints.log.append import NewStep, StepMeta
from tests.conftest import as_owner
from tests.pages.conftest import ASKED, append
from tests.pages.test_thread_page import text


@pytest.fixture
def resumed(trip, alice):
    """The trip, resumed from the facts at step 5; the model was called at step 6."""

    def resumed(how: Resumed) -> None:
        label = "Resumed after 3 h: works from the facts"
        branch = append(trip.branch, NewStep("resume", [how.op()], label))
        opened = gate.admit(alice, purpose="test", threads=[trip.thread])
        sent = compose(hydrate.head_state(opened, branch), [])
        context = {"request": sent.manifest}
        append(branch, NewStep("model", [], "Held", context=context))

    return resumed


def over(run: Run) -> None:
    """Nobody works on it any more: it failed."""
    with as_owner():
        Run.objects.unscoped(Reason.TEST).filter(pk=run.pk).update(
            status="failed", error_class="model_unreachable"
        )


def newest(trip) -> Run:
    return Run.objects.unscoped(Reason.TEST).latest("created_at")


def test_the_step_says_what_it_means_and_leads_to_the_other_choice(
    browser, trip, alice, resumed
):
    resumed(Resumed(FACTUAL, 3, rested=10_800))
    client = browser(alice)
    page = text(client.get(trip.page(5)))
    assert "Resumed after 3 h" in page
    said = " ".join(page.partition('id="resumed"')[2].partition("</div>")[0].split())
    assert "They stand for" in said
    assert "fork before this step" in said
    before = f"{trip.page()}fork/{trip.at(4)}/?branch={trip.branch.pk}&amp;resume=as_is"
    assert before in page
    form = text(client.get(before.replace("&amp;", "&")))
    assert '<option value="as_is" selected>' in form


def test_a_step_back_to_everything_says_so(browser, trip, alice, resumed):
    resumed(Resumed(WHOLE, 0))
    page = text(browser(alice).get(trip.page(5)))
    assert "sent the whole conversation again" in page
    assert "fork before this step" not in page


def test_the_context_tab_shows_which_messages_stand_as_facts_and_the_text(
    browser, trip, alice, resumed
):
    resumed(Resumed(FACTUAL, 3, rested=10_800))
    page = text(browser(alice).get(trip.page(6), {"tab": "context"}))
    said = " ".join(page.partition('id="stands-as-facts"')[2].split())
    assert "2 messages before step 3 stand as facts." in said
    assert "Step 5 says why" in said
    assert "Holdpoint: the facts" in said
    assert "You are resuming this work after a rest of 3 h" in page
    assert "<dd hx-ignore>factual</dd>" in page


def test_a_message_that_starts_a_run_may_choose(browser, trip, alice):
    client = browser(alice)
    assert 'id="say-resume"' not in text(client.get(trip.page()))  # a run is at work
    over(trip.run)
    assert 'id="say-resume"' in text(client.get(trip.page()))
    message = {
        "branch": trip.branch.pk,
        "message": "Go on",
        "request_key": str(uuid4()),
        "resume": "factual",
    }
    assert client.post(f"{trip.page()}message", message).status_code == 303
    assert newest(trip).resume == "factual"


def test_a_step_says_what_was_chosen_for_its_run(browser, trip, alice):
    with as_owner():
        Run.objects.unscoped(Reason.TEST).filter(pk=trip.run.pk).update(resume="as_is")
    step = NewStep("tool", [], "Looked", meta=StepMeta(run=trip.run.pk))
    append(trip.branch, step)
    page = text(browser(alice).get(trip.page(5)))
    assert ", from the whole conversation" in page


def test_a_choice_that_is_none_is_refused_and_nothing_lost(browser, trip, alice):
    over(trip.run)
    message = {
        "branch": trip.branch.pk,
        "message": "Go on",
        "request_key": str(uuid4()),
        "resume": "whatever",
    }
    answer = browser(alice).post(f"{trip.page()}message", message)
    assert answer.status_code == 422
    assert "Go on" in answer.content.decode()


def test_a_choice_that_comes_too_late_is_refused_and_nothing_lost(browser, trip, alice):
    message = {
        "branch": trip.branch.pk,
        "message": "Aisle, please",
        "request_key": str(uuid4()),
        "resume": "as_is",
    }
    answer = browser(alice).post(f"{trip.page()}message", message)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "A run is at work here" in page
    assert "Aisle, please" in page


@pytest.mark.parametrize(
    ("chosen", "kept"),
    [("factual", "factual"), ("as_is", "as_is"), ("x", ""), ("", "")],
)
def test_a_retry_may_choose(browser, trip, alice, chosen, kept):
    over(trip.run)
    client = browser(alice)
    page = text(client.get(trip.page()))
    assert "the whole conversation" in page.partition('id="retry-menu"')[2]
    client.post(f"/runs/{trip.run.pk}/retry", {"resume": chosen})
    again = newest(trip)
    assert again.retry_of_id == trip.run.pk
    assert again.resume == kept


def test_a_fork_may_choose(browser, trip, alice):
    client = browser(alice)
    page = f"{trip.page()}fork/{trip.at(2)}/"
    form = {
        "name": "from facts",
        "message": ASKED,
        "model": "scripted",
        "temperature": "0",
        "request_key": str(uuid4()),
        "resume": "factual",
        "do": "create",
    }
    refused = client.post(page, form)
    assert refused.status_code == 422
    assert "choose it with the message" in refused.content.decode()
    client.post(page, form | {"do": "run"})
    assert newest(trip).resume == "factual"
