"""The demo's audit of invoices: a thousand steps, and what the third found is known at the end."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command

from agents.demo import stories
from agents.demo.agents import invoice_auditor
from agents.demo.model import wire
from agents.demo.world import invoices
from agents.models import Run
from agents.pure.context import compose
from checkpoints import gate
from checkpoints.log import hydrate
from tests.agents.test_seed import main_run, principal

# `seed_demo` is a command of the server's: it makes a workspace and people.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.owner]

BESIDE = 4_000  # tokens of a call: prompt, facts, and what JSON is around messages


def test_a_thousand_steps_stay_within_their_budget_and_remember_the_third(settings):
    settings.MAX_STEPS = 100  # whatever runs may take: the past is as it was
    call_command("seed_demo")
    run = main_run(stories.INVOICES)
    assert run.status == Run.Status.SUCCEEDED, run.error_class
    opener = gate.admit(principal("mira"), purpose="test", threads=[run.thread])
    history = hydrate.read(opener, run.branch)
    assert run.steps >= 1_000
    last = len(history.records) - 1
    assert last == run.steps

    # What was found out at step 3 is in no later message that is sent, and is used.
    third = history.record(stories.LEARNED_AT)
    assert third.name == "open_books"
    assert history.state_at(2)["facts"] == {}
    assert history.state_at(3)["facts"]["books"]["control"] == invoices.CONTROL
    sent = compose(history.state_at(last - 1), invoice_auditor.schemas)
    assert sent.manifest["left_out"] > 900
    told = [m for m in sent.messages if invoices.CONTROL in json.dumps(m)]
    assert [m["role"] for m in told] == ["user"]
    report = history.state_at(last)["messages"][-1]["content"]
    assert report.endswith(f"Control number {invoices.CONTROL}.")
    for place in invoices.WRONG:
        assert invoices.named(place) in report
    assert report.count("INV-") == len(invoices.WRONG)

    # Each call stays small; all together are within the run's limit, and the whole
    # conversation, sent each time, would not be.
    limit, window = invoice_auditor.limits.max_tokens, invoice_auditor.window
    assert limit is not None
    assert window is not None
    assert window.tokens is not None
    assert run.tokens < limit
    whole = 0
    for record in history.records[1:]:
        if record.kind != "model":
            continue
        state = history.state_at(record.step - 1)
        body = compose(state, invoice_auditor.schemas)
        assert _tokens(body.messages) < window.tokens + BESIDE
        whole += _tokens(compose({**state, "_context": None}, ()).messages)
    assert whole > limit


def _tokens(messages: list[wire.Message]) -> int:
    return len(json.dumps(messages)) // wire.CHARACTERS_PER_TOKEN
