"""The arguments being edited: a form, JSON, what changes; what was typed is never lost."""

from __future__ import annotations

import html
import json
import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.approvals import decide
from agents.approvals.decide import approve
from agents.models import Approval
from agents.pages.inbox.arguments import left_by, table
from agents.pure.terms import Terms
from checkpoints import gate
from checkpoints.access import Reason
from checkpoints.models import AuditEvent, Membership
from tests.agents.waiting import make_waiting
from tests.pages.forms import hash_on_page

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def booking(alice, make_thread) -> Approval:
    return make_waiting(make_thread(owner=alice), alice)[0]


@pytest.fixture
def mira(client, alice) -> Client:
    client.force_login(User.objects.get(pk=alice.user_id))
    return client


def bound(client: Client, approval: Approval) -> dict[str, str]:
    """What the form says was shown."""
    digest = bytes(approval.digest).hex()
    revision = str(approval.revision)
    return {
        "revision": revision,
        "digest": digest,
        "shown": hash_on_page(client, approval),
    }


def show(client: Client, approval: Approval, view: str, **typed: str | list[str]):
    posted = {**bound(client, approval), "show": view, **typed}
    answer = client.post(f"/inbox/{approval.pk}/edit/as", posted)
    return answer, answer.content.decode()


def edit(client: Client, approval: Approval, **typed: str):
    posted = {"decision": "edit", **bound(client, approval), **typed}
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
        "shown": hash_on_page(mira, booking),
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


@pytest.fixture
def two_long(alice, make_thread) -> Approval:
    """A request with two arguments that are longer than the page shows."""
    arguments = {"to": "Helen\n" * 40, "fields": {f"f{n}": n for n in range(40)}}
    return make_waiting(make_thread(owner=alice), alice, ("send", arguments))[0]


def tokens_in(page: str) -> list[str]:
    return re.findall(r'name="read" value="(\w+)" form="apr-form"', page)


@pytest.mark.parametrize("view", ["form", "json"])
def test_what_an_edit_leaves_as_it_is_was_opened(mira, two_long, view):
    page = mira.get(f"/inbox/{two_long.pk}/edit").content.decode()
    tokens = tokens_in(page)
    assert len(tokens) == 2
    fields = {"to": "Helen\n" * 40, "fields": {"f1": 1}}
    typed = {"arg/fields": '{"f1": 1}'}
    if view == "json":
        typed = {"json": json.dumps(fields)}
    for nothing in ({}, typed):
        refused = edit(mira, two_long, **nothing)
        assert refused.status_code == 422
        page = refused.content.decode()
        assert "<p hx-ignore>Open to" in page
        assert len(tokens_in(page)) == 2  # they stand beside what was typed
        assert fresh(two_long).is_pending
    assert "&quot;f1&quot;: 1" in page
    answer = edit(mira, two_long, **typed, read=tokens[0])  # the other is short now
    assert answer.status_code == 303
    assert fresh(two_long).status == "approved"


def test_what_an_edit_changes_in_a_part_was_opened(mira, two_long):
    tokens = tokens_in(mira.get(f"/inbox/{two_long.pk}/edit").content.decode())
    changed = json.dumps({f"f{n}": n or 9 for n in range(40)})
    typed = {"arg/to": "Helen", "arg/fields": changed}
    refused = edit(mira, two_long, **typed)
    assert refused.status_code == 422
    assert "Open fields first" in refused.content.decode()
    assert edit(mira, two_long, **typed, read=tokens[1]).status_code == 303


def test_what_was_opened_stays_so_from_view_to_view(mira, two_long):
    tokens = tokens_in(mira.get(f"/inbox/{two_long.pk}/edit").content.decode())
    _, page = show(mira, two_long, "json", read=tokens)
    _, page = show(mira, two_long, "diff", json=json_in(page), read=tokens)
    assert len(re.findall(r'form="apr-form" checked', page)) == 2
    page = mira.get(f"/inbox/{two_long.pk}/?read={tokens[0]}").content.decode()
    assert f"/inbox/{two_long.pk}/edit?read={tokens[0]}" in page


def test_who_edits_a_megabyte_reads_it_where_it_is_edited(mira, alice, make_thread):
    arguments = {"to": "all of it. " * 90_000, "fields": {"copies": 1}}
    (huge,) = make_waiting(make_thread(owner=alice), alice, ("send", arguments))
    page = mira.get(f"/inbox/{huge.pk}/edit").content.decode()
    assert page.count(arguments["to"]) == 2
    (token,) = tokens_in(page)
    typed = {"arg/fields": '{"copies": 2}'}
    assert edit(mira, huge, **typed).status_code == 422
    assert edit(mira, huge, **typed, read=token).status_code == 303


def test_of_more_arguments_than_have_rows_the_rest_was_opened(mira, alice, make_thread):
    """The tool takes none of them; what it takes is what is asked for."""
    many = {"to": "Helen", "fields": {}, **{f"x{n}": n for n in range(120)}}
    rows = table(many, None, None)
    assert [row.name for row in left_by(many, rows) if row.is_long] == [rows[-1].name]
    assert not left_by({"to": "Helen", "fields": {}}, rows)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("pay\u202eexe.pdf", "U+202E"),
        ("a\u200bb", "U+200B"),
        ("go \U000e0069 now", "U+E0069"),
        ("two\nlines \u2066x", "U+2066"),
        ("p\u0430ypal", "U+0430"),
    ],
    ids=["bidi", "zero-width", "tag", "area", "lookalike"],
)
def test_what_hides_in_a_field_is_shown_beside_it(mira, alice, make_thread, text, seen):
    arguments = {"to": text, "fields": {"note": text}}
    (asked,) = make_waiting(make_thread(owner=alice), alice, ("send", arguments))
    page = mira.get(f"/inbox/{asked.pk}/edit").content.decode()
    assert text in page  # the value is what it was
    beside = re.findall(r'id="(arg-\w+)-seen".*?</(?:p|div)>', page, re.S)
    assert beside == ["arg-to", "arg-fields"]
    shown = page.partition('id="arg-to-seen"')[2].partition('id="arg-fields"')[0]
    assert seen in shown
    assert text not in shown
    assert 'aria-describedby="arg-to-seen"' in page
    _, page = show(mira, asked, "json")
    assert seen in page.partition('id="apr-json-seen"')[2]
    assert json.loads(json_in(page)) == arguments


def test_beside_plain_text_nothing_stands(mira, booking):
    page = mira.get(f"/inbox/{booking.pk}/edit").content.decode()
    assert "-seen" not in page
    assert "apr-long" not in page


def closed(approval: Approval, mira, bob) -> None:
    approve(approval, seen=approval.as_shown(), by=bob)


def asked_anew(approval: Approval, mira, bob) -> None:
    revision = approval.revision + 1
    Approval.objects.unscoped(Reason.TEST).filter(pk=approval.pk).update(
        revision=revision
    )


def no_longer_may(approval: Approval, mira, bob) -> None:
    mine = Membership.objects.unscoped(Reason.TEST).filter(user=approval.run.started_by)
    mine.update(can_approve=False)


@pytest.mark.parametrize("script", [True, False], ids=["script", "none"])
@pytest.mark.parametrize(
    ("happens", "status", "why"),
    [
        (closed, 409, "approved this"),
        (asked_anew, 409, "changed since it was shown"),
        (no_longer_may, 403, "asks someone with the right"),
    ],
    ids=["closed", "asked anew", "no right"],
)
@pytest.mark.parametrize(
    "typed",
    [
        {"arg/flight": "TP 210 <b>", "arg/price": "1100.10", "arg/seats": "2"},
        {"json": '{"flight": "TP 210 <b>", "price": "1100.10", "seats": 2}'},
        {"decision": "reject", "reason": "TP 210 <b> costs 1100.10."},
    ],
    ids=["form", "json", "reject"],
)
def test_nothing_typed_is_lost_where_it_cannot_be_sent(
    mira, bob, booking, happens, status, why, typed, script
):
    happens(booking, mira, bob)
    posted = {
        "decision": "edit",
        "revision": str(booking.revision),
        "digest": bytes(booking.digest).hex(),
        "shown": hash_on_page(mira, booking),
        **typed,
    }
    headers = {"HX-Request": "true"} if script else {}
    answer = mira.post(f"/inbox/{booking.pk}/decide", posted, headers=headers)
    page = answer.content.decode()
    assert answer.status_code == status
    assert why in page
    assert "TP 210 &lt;b&gt;" in page
    assert "1100.10" in page
    assert ("<html" in page) is not script
    asked = fresh(booking)
    assert asked.is_pending is (happens is not closed)
    if status == 403:  # which the audit log has, as it has any refusal
        events = AuditEvent.objects.unscoped(Reason.TEST)
        assert events.filter(action="refused", actor_id=booking.run.started_by_id)


def test_what_a_browser_sent_with_its_line_ends_was_not_changed(mira, two_long):
    typed = {"arg/to": "Helen\r\n" * 40, "arg/fields": "{"}
    refused = edit(mira, two_long, **typed)
    assert refused.status_code == 422
    assert refused.content.decode().count('class="was"') == 1  # of what is no JSON


@pytest.mark.parametrize("way", ["another tab", "a wrong field"])
def test_a_form_of_before_anothers_edit_says_so_and_binds_to_nothing_new(
    mira, alice, bob, make_thread, way
):
    terms = Terms(approvers=2)
    booking = make_waiting(make_thread(owner=alice), alice, terms=terms)[0]
    theirs = {"flight": "TP 999", "price": "1300.00", "seats": 1}
    decide.edit(booking, seen=booking.as_shown(), by=bob, arguments=theirs)
    typed = {"arg/flight": "TP 777", "arg/price": "1100.00", "arg/seats": "2"}
    if way == "another tab":
        answer, _ = show(mira, booking, "diff", **typed)
    else:
        answer = edit(mira, booking, **{**typed, "arg/price": "much"})
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "changed since it was shown" in page
    assert "TP 999" in page
    assert "TP 777" in page  # what was typed
    assert fresh(booking).revision == 2


def test_what_was_typed_is_there_though_somebody_has_decided(mira, bob, booking):
    decide.approve(booking, seen=booking.as_shown(), by=bob)
    answer, page = show(mira, booking, "json", **{"arg/flight": "TP 777"})
    assert answer.status_code == 403
    assert "TP 777" in page


def test_a_form_that_does_not_say_what_was_shown_has_no_other_view(mira, booking):
    typed = {"show": "json", "arg/flight": "TP 777"}
    answer = mira.post(f"/inbox/{booking.pk}/edit/as", typed)
    assert answer.status_code == 422
    assert "TP 777" in answer.content.decode()
