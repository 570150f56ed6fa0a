"""The arguments being edited: a form, JSON, what changes; what was typed is never lost."""

from __future__ import annotations

import html
import json
import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.models import Approval
from checkpoints import gate
from checkpoints.access import Reason
from tests.agents.waiting import make_waiting

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def booking(alice, make_thread) -> Approval:
    return make_waiting(make_thread(owner=alice), alice)[0]


@pytest.fixture
def mira(client, alice) -> Client:
    client.force_login(User.objects.get(pk=alice.user_id))
    return client


def show(client: Client, approval: Approval, view: str, **typed: str):
    answer = client.post(f"/inbox/{approval.pk}/edit/as", {"show": view, **typed})
    return answer, answer.content.decode()


def edit(client: Client, approval: Approval, **typed: str):
    posted = {
        "decision": "edit",
        "revision": str(approval.revision),
        "digest": bytes(approval.digest).hex(),
        **typed,
    }
    return client.post(f"/inbox/{approval.pk}/decide", posted)


def json_in(page: str) -> str:
    found = re.search(r'<textarea[^>]*name="json"[^>]*>\n(.*?)</textarea>', page, re.S)
    assert found is not None
    return html.unescape(found[1])


def fresh(approval: Approval) -> Approval:
    found = Approval.objects.unscoped(Reason.TEST).select_related("call", "thread")
    return found.get(pk=approval.pk)


def test_what_was_typed_goes_from_view_to_view_and_decides_nothing(mira, booking):
    typed = {"arg/flight": "TP 210", "arg/price": "1100.00", "arg/seats": "2"}
    answer, page = show(mira, booking, "json", **typed)
    assert answer.status_code == 200
    text = json_in(page)
    assert '"price": "1100.00"' in text
    assert '"seats": 2' in text
    _, page = show(mira, booking, "diff", json=text)
    assert re.search(r'class="del".*?1200\.00', page, re.S)
    assert re.search(r'class="add".*?1100\.00', page, re.S)
    _, page = show(mira, booking, "form", json=json_in(page))
    assert 'value="1100.00"' in page
    assert "was <span hx-ignore>1200.00</span>" in page
    assert fresh(booking).is_pending


def test_json_that_is_none_keeps_the_typing_and_names_line_and_column(mira, booking):
    broken = '{\n  "flight": "TP 210",\n  "price": 1100.00,,\n}'
    for answer in (
        show(mira, booking, "form", json=broken)[0],
        edit(mira, booking, json=broken),
    ):
        page = answer.content.decode()
        assert answer.status_code == 422
        assert "Line 3, column " in page
        assert json_in(page) == broken
    assert fresh(booking).is_pending


def test_json_that_does_not_fit_the_tool_is_told_by_its_path(mira, booking):
    wrong = '{"flight": "TP 210", "price": "1100.00", "seats": "two", "extra": 1}'
    answer = edit(mira, booking, json=wrong)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "/seats" in page
    assert "/extra" in page
    assert json_in(page) == wrong


def test_a_form_that_cannot_be_read_stays_a_form(mira, booking):
    answer, page = show(mira, booking, "diff", **{"arg/price": "cheap"})
    assert answer.status_code == 422
    assert 'value="cheap"' in page
    assert "is a number without separators" in page


def test_edited_json_is_what_is_approved_with_its_types(mira, alice, booking):
    text = '{"flight": "TP 210", "price": "1100.10", "seats": 2}'
    assert edit(mira, booking, json=text).status_code == 303
    call = fresh(booking).call
    seen = gate.admit(alice, purpose="test", threads=[fresh(booking).thread])
    assert seen.open(call, "effective") == {
        "flight": "TP 210",
        "price": "1100.10",
        "seats": 2,
    }


@pytest.mark.parametrize(
    "typed",
    [
        {"json": '{"flight": "TP 210", "price": "1100.10", "seats": 2}'},
        {"arg/flight": "TP 210", "arg/price": "1100.10", "arg/seats": "2"},
        {"decision": "reject", "reason": "TP 210 costs 1100.10."},
    ],
    ids=["json", "form", "reject"],
)
def test_what_was_typed_stays_where_the_request_changed_meanwhile(mira, booking, typed):
    posted = {
        "decision": "edit",
        "revision": str(booking.revision),
        "digest": bytes(booking.digest).hex(),
        **typed,
    }
    Approval.objects.unscoped(Reason.TEST).update(revision=booking.revision + 1)
    lost = mira.post(
        f"/inbox/{booking.pk}/decide", posted, headers={"HX-Request": "true"}
    )
    page = lost.content.decode()
    assert lost.status_code == 409
    assert "Your decision was not used" in page
    assert "TP 210" in page
    assert "1100.10" in page
    assert f'name="revision" value="{booking.revision + 1}"' in page
    assert fresh(booking).is_pending


def test_who_may_not_decide_edits_nothing(booking, omar):
    client = Client()
    client.force_login(User.objects.get(pk=omar.user_id))
    assert show(client, booking, "json")[0].status_code == 403


def test_what_changes_in_much_text_is_also_one_for_true(mira, alice, make_thread):
    arguments = {"to": "x" * 60_000, "fields": {"copies": 1}}
    long = make_waiting(make_thread(owner=alice), alice, ("send", arguments))[0]
    edited = json.dumps({**arguments, "fields": {"copies": True}})
    _, page = show(mira, long, "diff", json=edited)
    assert re.search(r'class="del".*?copies.*?class="add".*?copies', page, re.S)
