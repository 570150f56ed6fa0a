"""What a person sees of a window: where it moved, what stands for the rest, what was sent."""

from __future__ import annotations

import html
from typing import Any

import pytest

from agents.pure.context import Window
from agents.pure.engine import advance
from agents.pure.step import Continue, Finished
from checkpoints.access import Reason
from checkpoints.log.append import NewStep, StepMeta
from checkpoints.models import Branch, Checkpoint
from tests.agents.test_context import long
from tests.agents.test_window import NoTools, Summariser
from tests.pages.conftest import append
from tests.pages.test_thread_page import text


@pytest.fixture
def windowed(make_thread, alice, history):
    """A long thread whose engine sums up and answers: the branch, after step 2."""

    def windowed(model: Any) -> Branch:
        branch: Branch = make_thread(owner=alice, state=long(30))
        for _ in range(2):
            state = history(branch).state_at(branch.head_step)
            outcome = advance(state, model, NoTools(), window=Window())
            assert isinstance(outcome, Continue | Finished)
            step = outcome.step
            assert step is not None
            meta = StepMeta(status=step.status, error_class=step.error_class)
            made = NewStep(
                step.kind, step.ops, step.label, meta, step.context, id=step.id
            )
            branch = append(branch, made)
        return branch

    return windowed


def page(browser, alice, branch: Branch, step: int, **asked: str) -> str:
    at = Checkpoint.objects.unscoped(Reason.TEST).get(branch=branch, step=step)
    place = f"/threads/{branch.thread_id}/at/{at.pk}/"
    return html.unescape(text(browser(alice).get(place, asked)))


def test_the_step_says_what_is_not_sent_any_more(browser, alice, windowed):
    branch = windowed(Summariser("They want <i>Lisbon</i>."))
    shown = page(browser, alice, branch, 1)
    assert "From here on 44 earlier messages are not sent" in shown
    assert "They want <i>Lisbon</i>." in shown
    assert "<i>" not in text(browser(alice).get(f"/threads/{branch.thread_id}/"))


def test_the_context_tab_shows_what_the_summariser_was_sent(browser, alice, windowed):
    shown = page(browser, alice, windowed(Summariser()), 1, tab="context")
    assert "Holdpoint's own, for a summary" in shown
    sent = shown.partition('id="request"')[2]
    assert "You sum up the earlier part" in sent
    assert '"result 21"' in sent
    assert "result 22" not in sent


def test_the_context_tab_shows_the_window_and_why(browser, alice, windowed):
    shown = page(browser, alice, windowed(Summariser()), 2, tab="context")
    assert "44 messages" in shown
    assert "Step 1 says why" in shown
    sent = shown.partition('id="request"')[2]
    assert "44 earlier messages of this conversation" in sent
    assert sent.count("<article") == 18


def test_a_summary_that_failed_says_so_and_what_stands_instead(
    browser, alice, windowed
):
    branch = windowed(Summariser(failing="model_error"))
    shown = page(browser, alice, branch, 1)
    assert "No summary was written; the facts of the state stand for them." in shown
    assert "No summary: The model is not there." in shown
