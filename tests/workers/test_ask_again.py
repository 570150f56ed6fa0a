"""A model's step is asked again: the same request, answers side by side, nothing done."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents import prices
from agents.errors import NotAskable
from agents.models import Price, Run, ToolCall
from agents.runs import start
from agents.runs.ask_again import ask_again
from agents.runs.edits import ForkEdits
from checkpoints.errors import NotPermitted
from checkpoints.models import Branch, Checkpoint, Workspace
from tests.conftest import as_owner
from tests.workers.conftest import ended, kinds, pending, wait_until
from tests.workers.desk.agents import desk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def browser() -> Any:
    def browser(person: Any) -> Client:
        client = Client()
        with as_owner():
            client.force_login(User.objects.get(pk=person.user_id))
        return client

    return browser


@pytest.fixture
def asked(begin, server, work) -> Checkpoint:
    """A step whose model booked a hotel; a person is asked about that."""
    server.will_call("book-1", "book", item="hotel", price="2000", reason="As asked.")
    run = begin()
    work()
    assert len(pending(run)) == 1
    return step_of(run)


def step_of(run: Run) -> Checkpoint:
    return Checkpoint.objects.select_related(
        "thread", "branch", "parent__branch", "parent__thread"
    ).get(branch=run.branch_id, step=1)


def again(step: Checkpoint, by: Any, times: int = 2, **more: Any) -> list[Run]:
    more.setdefault("request_key", uuid4())
    branches = ask_again(step, times=times, by=by, **more)
    return [Run.objects.get(branch=branch) for branch in branches]


def page_of(client: Client, step: Checkpoint) -> str:
    address = reverse("agents:ask_again", args=[step.thread_id, step.pk])
    return client.get(address).content.decode()


def body(request: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name != "stream_options"}


def test_the_very_same_request_is_sent_and_nothing_is_done(asked, alice, server, work):
    before = list(Branch.objects.filter(pk=asked.branch_id).values())
    steps = Checkpoint.objects.filter(branch=asked.branch_id).count()
    calls = list(ToolCall.objects.values_list("pk", "status"))
    effects = server.ledger()
    [first] = server.requests
    server.reset()
    server.will_call("book-1", "book", item="hotel", price="2000", reason="Again.")
    runs = again(asked, alice, 3)
    work()
    assert [body(request) for request in server.requests] == [body(first)] * 3
    for run in runs:
        run.refresh_from_db()
        assert (run.status, run.asks_id, kinds(run)) == (
            "succeeded",
            asked.pk,
            ["model"],
        )
    assert list(Branch.objects.filter(pk=asked.branch_id).values()) == before
    assert Checkpoint.objects.filter(branch=asked.branch_id).count() == steps
    of_answers = ToolCall.objects.filter(run__asks=asked)
    assert set(of_answers.values_list("status", flat=True)) == {"superseded"}
    others = ToolCall.objects.exclude(run__asks=asked)
    assert list(others.values_list("pk", "status")) == calls
    assert server.ledger() == effects
    assert not pending(runs[0])


def test_the_page_says_how_far_they_agree(asked, alice, server, work, browser):
    client = browser(alice)
    assert "not asked again yet" in page_of(client, asked)
    server.reset()
    server.will_call("x", "book", price="2000", item="hotel", reason="Other words.")
    again(asked, alice)
    assert "Some are on their way" in page_of(client, asked)
    work()  # the second hears what the first heard: the request is the same
    server.reset()
    server.will_say("<b>Which</b> hotel?")
    again(asked, alice, 2)
    work()
    shown = page_of(client, asked)
    assert "2 of 4" in shown
    assert "(50%)" in shown
    assert "2 different decisions" in shown
    assert "&lt;b&gt;Which&lt;/b&gt; hotel?" in shown
    assert "<b>Which</b>" not in shown
    assert shown.count("as the step</span>") == 1
    assert "on their way" not in shown
    assert shown.count('<tr id="answer-') == 4


def test_a_step_whose_answer_nobody_gave_again_stands_beside_them(
    asked, alice, server, work, browser
):
    server.reset()
    server.will_say("Which one?")
    again(asked, alice)
    work()
    shown = page_of(browser(alice), asked)
    assert "0 of 2" in shown
    assert "0 answers, 0%" in shown


def test_new_seeds_make_the_scripted_model_answer_otherwise(
    begin, work, deploy, alice, browser
):
    deploy(desk, temperature=1, seed=7, tools=[])
    run = begin("Hello there.")
    work()
    step = step_of(run)
    again(step, alice, 3)
    work()
    assert "3 of 3" in page_of(browser(alice), step)
    runs = again(step, alice, 10, new_seeds=True)
    work()
    seeds = Checkpoint.objects.filter(
        branch__in=[r.branch_id for r in runs], kind="model"
    ).values_list("seed", flat=True)
    assert len({7, *seeds}) == 11
    shown = page_of(browser(alice), step)
    assert "different decisions" in shown
    assert "13 of 13" not in shown


def test_asked_twice_with_one_form_it_is_asked_once(asked, alice):
    key = uuid4()
    first = again(asked, alice, 2, request_key=key)
    assert [run.pk for run in again(asked, alice, 3, request_key=key)][:2] == [
        run.pk for run in first
    ]
    assert Run.objects.filter(asks=asked).count() == 3


def test_what_no_model_was_asked_here_cannot_be_asked_again(asked, alice):
    said = Checkpoint.objects.get(branch=asked.branch_id, step=0)
    with pytest.raises(NotAskable, match="Step 0 is no answer"):
        again(said, alice)


def test_who_may_not_run_may_look_and_not_ask(asked, viewer, alice, browser):
    with pytest.raises(NotPermitted):
        again(asked, viewer)
    address = reverse("agents:ask_again", args=[asked.thread_id, asked.pk])
    client = browser(viewer)
    assert 'id="ask-form"' not in client.get(address).content.decode()
    assert client.post(address, {"times": 2}).status_code == 403
    assert not Run.objects.filter(asks=asked).exists()


def test_the_form_asks_and_says_what_is_wrong(asked, alice, browser, server, work):
    client = browser(alice)
    address = reverse("agents:ask_again", args=[asked.thread_id, asked.pk])
    for times in ("1", "11", "many"):
        refused = client.post(address, {"times": times, "request_key": str(uuid4())})
        assert refused.status_code == 422
        assert "The model was not asked." in refused.content.decode()
    sent = {"times": 2, "seeds": "same", "request_key": str(uuid4())}
    assert client.post(address, sent).status_code == 303
    assert client.post(address, sent).status_code == 303
    assert Run.objects.filter(asks=asked).count() == 2
    assert server.requests[1:] == []  # a page asks no model
    fragment = reverse("agents:ask_again_answers", args=[asked.thread_id, asked.pk])
    tag = client.get(fragment)["HX-PTag"]
    assert client.get(fragment, headers={"HX-PTag": tag}).status_code == 304
    work()
    assert client.get(fragment, headers={"HX-PTag": tag}).status_code == 200


def test_an_answer_that_never_came_says_why_and_a_retry_asks_again_only(
    asked, alice, server, work, browser
):
    server.reset()
    server.fault("401", times=2)
    first, _ = again(asked, alice)
    work()
    shown = page_of(browser(alice), asked)
    assert "None yet" in shown
    assert shown.count('class="small bad" hx-ignore') == 2
    server.will_call("book-1", "book", item="hotel", price="2000")
    retried = start.retry(first, by=alice)
    work()
    retried.refresh_from_db()
    assert (retried.status, retried.asks_id) == ("succeeded", asked.pk)
    assert kinds(retried) == ["error", "model"]
    assert not pending(retried)


def test_a_retry_after_somebody_went_on_goes_on_too(asked, alice, server, work):
    server.reset()
    server.fault("401", times=2)
    first, _ = again(asked, alice)
    work()
    server.will_say("Which one?")
    start.send_message(first.branch, message="The cheap one.", by=alice)
    work()
    server.will_say("That one.")
    retried = start.retry(first, by=alice)
    work()
    retried.refresh_from_db()
    assert (retried.status, retried.asks_id) == ("succeeded", None)


def test_a_step_that_keeps_several_is_not_asked_again(
    asked, alice, server, work, browser
):
    server.reset()
    server.will_call("c1", "look", what="the desk")
    server.will_say("It is there.")
    start.start_run(agent="test-brief", message="Find it.", by=alice)
    work()
    kept = Checkpoint.objects.exclude(branch=asked.branch_id).get(kind="model")
    kept = step_of(Run.objects.get(branch=kept.branch_id))
    with pytest.raises(NotAskable, match="Step 1 keeps several"):
        again(kept, alice)
    shown = page_of(browser(alice), kept)
    assert 'id="not-askable"' in shown
    assert "Fork from the step before it" in shown
    assert 'id="ask-form"' not in shown


def test_a_message_to_an_answer_goes_on_from_there(asked, alice, server, work):
    server.reset()
    server.will_say("Which one?")
    run, _ = again(asked, alice)
    work()
    server.reset()
    server.will_say("That one.")
    start.send_message(run.branch, message="The cheap one.", by=alice)
    work()
    assert kinds(run) == ["model", "input", "model"]
    assert Run.objects.filter(branch=run.branch_id, asks=None).count() == 1


def test_answers_stop_at_what_they_may_cost_together(asked, alice, server, work):
    prices.forget()
    with as_owner():
        Price.objects.create(
            model="scripted", since="2026-01-01", fresh=1, cached=1, output=1
        )
    server.reset()
    server.always("Which one?")
    runs = again(asked, alice, 3, max_cost=Decimal("0.000001"))
    work()
    prices.forget()
    for run in runs:
        run.refresh_from_db()
    assert [run.error_class for run in runs] == ["", *["too_expensive"] * 2]
    assert len(server.requests) == 1


def test_answers_stop_where_nobody_knows_what_they_cost(asked, alice, server, work):
    prices.forget()
    server.reset()
    server.always("Which one?")
    runs = again(asked, alice, 3, max_cost=Decimal(1))
    work()
    for run in runs:
        run.refresh_from_db()
    assert [run.error_class for run in runs] == ["", *["price_unknown"] * 2]
    assert len(server.requests) == 1


def test_the_agent_that_took_the_step_is_asked_whoever_works_there_now(
    asked, alice, server, work
):
    start.fork_run(
        asked, edits=ForkEdits(), name="another", by=alice, agent="test-rememberer"
    )
    runs = again(asked, alice)
    assert {run.agent_version.agent.name for run in runs} == {desk.name}


def test_nothing_is_asked_while_the_workspace_is_halted(asked, alice, server, work):
    server.reset()
    again(asked, alice)
    with as_owner():
        Workspace.objects.update(halted_at="2026-01-01T00:00:00Z")
    work()
    assert Run.objects.filter(asks=asked, status="ready").count() == 2
    assert server.requests == []


def test_a_worker_that_is_killed_loses_no_answer(asked, alice, server, workers):
    server.reset()
    server.fault("hang", seconds=60)
    server.always("Which one?")
    pool = workers.start(LEASE_SECONDS="3")
    runs = again(asked, alice)
    wait_until(lambda: server.requests)
    workers.kill_child(pool)
    for run in runs:
        wait_until(partial(ended, run))
        assert (run.status, kinds(run)) == ("succeeded", ["model"])


def test_other_code_of_the_agent_is_said_before_it_is_asked(
    asked, alice, deploy, browser
):
    assert 'id="other-version"' not in page_of(browser(alice), asked)
    deploy(desk, system="Be brief.")
    assert "its code is another by now" in page_of(browser(alice), asked)


def test_another_model_that_answers_is_said_beside_its_answer(
    asked, alice, server, work, browser
):
    server.reset()
    server.fault("changed", times=None)
    again(asked, alice)
    work()
    assert page_of(browser(alice), asked).count("another than the step's") == 2
