"""A question whose tool declares the fields of its answer is answered in a form of them."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.models import Approval, Decision
from checkpoints import gate
from checkpoints.access import Reason, unscoped
from tests.agents.waiting import make_waiting
from tests.pages.forms import fields, hash_on_page

pytestmark = pytest.mark.django_db(transaction=True)

GOOD = {"arg/row": "12", "arg/letter": "C"}


@pytest.fixture
def asked(alice, make_thread) -> Approval:
    thread = make_thread(owner=alice)
    return make_waiting(thread, alice, ("ask_seat", {"flight": "TP 209"}))[0]


@pytest.fixture
def mira(client, alice) -> Client:
    client.force_login(User.objects.get(pk=alice.user_id))
    return client


def answer(client: Client, asked: Approval, **typed: str):
    """What a browser sends of the form as it is shown, with this typed into it."""
    page = client.get(f"/inbox/{asked.pk}/").content.decode()
    sent = {name: values[-1] for name, values in fields(page, "apr-form").items()}
    unknown = set(typed) - set(sent)
    assert not unknown, f"The form has no {unknown}."
    return client.post(f"/inbox/{asked.pk}/decide", sent | typed)


def kept(asked: Approval, by):
    with unscoped(Reason.TEST):
        decision = Decision.objects.get(approval=asked)
    opener = gate.admit(by, purpose="test", threads=[asked.thread])
    return opener.open(decision, "content")


def fresh(asked: Approval) -> Approval:
    return Approval.objects.unscoped(Reason.TEST).get(pk=asked.pk)


def test_the_form_has_a_control_for_each_field_and_no_free_text(mira, asked):
    page = mira.get(f"/inbox/{asked.pk}/").content.decode()
    form = fields(page, "apr-form")
    assert {name for name in form if name.startswith("arg/")} == {
        *("arg/row", "arg/letter", "arg/from_day", "arg/surcharge", "arg/wishes"),
    }
    assert "response" not in form
    assert form["arg/surcharge"] == ["12.50"]  # what it is when nobody says another
    assert re.search(r'<select[^>]*name="arg/letter"', page)
    assert "The first day &lt;b&gt;" in page


def test_values_keep_their_types(mira, asked, alice):
    typed = GOOD | {"arg/from_day": "2026-12-01", "arg/wishes": "quiet\r\nlegroom"}
    assert answer(mira, asked, **typed).status_code == 303
    assert fresh(asked).status == "responded"
    assert kept(asked, alice) == {
        "response": {
            "row": 12,
            "letter": "C",
            "from_day": "2026-12-01",
            "surcharge": "12.50",
            "wishes": ["quiet", "legroom"],
        }
    }
    page = mira.get(f"/inbox/{asked.pk}/").content.decode()
    assert "&quot;row&quot;: 12" in page


@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ({"arg/row": "twelve"}, "arg-row", "is a whole number"),
        ({"arg/row": "41"}, "arg-row", "less than or equal to 40"),
        ({"arg/row": ""}, "arg-row", "is missing"),
        ({"arg/letter": "B"}, "arg-letter", "is one of: A, C, D"),
        ({"arg/from_day": "soon"}, "arg-from-day", "is a date"),
        ({"arg/surcharge": "1,5"}, "arg-surcharge", "without separators"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_told_at_its_field_and_nothing_is_lost(
    mira, asked, typed, field, said
):
    refused = answer(mira, asked, **GOOD | {"arg/wishes": "quiet"} | typed)
    page = refused.content.decode()
    assert refused.status_code == 422
    told = re.search(rf'<p class="err" id="{field}-e"[^>]*>(.*?)</p>', page, re.S)
    assert told, page
    assert said in told[1]
    assert "quiet</textarea>" in page
    assert fresh(asked).is_pending


def test_text_is_no_answer_where_fields_are_declared(mira, asked):
    refused = answer(mira, asked)  # with nothing typed
    assert refused.status_code == 422
    seen = {
        "revision": str(asked.revision),
        "digest": bytes(asked.digest).hex(),
        "shown": hash_on_page(mira, asked),
        "decision": "respond",
        "response": "12C please",
    }
    assert mira.post(f"/inbox/{asked.pk}/decide", seen).status_code == 422
    assert fresh(asked).is_pending


def test_who_may_not_decide_cannot_type(client, viewer, asked):
    client.force_login(User.objects.get(pk=viewer.user_id))
    page = client.get(f"/inbox/{asked.pk}/").content.decode()
    found = re.search(r'<fieldset[^>]*id="answer-fields"[^>]*>', page)
    assert found, page
    assert " disabled" in found[0]
