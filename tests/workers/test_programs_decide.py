"""Programs list, read and decide requests, for the person who made their token."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from agents.approvals import decide, guards
from agents.models import Approval, Decision
from agents.pure.terms import Terms
from agents.runs import looks
from checkpoints import tokens
from checkpoints.access import Reason, Role, Scope, UserPrincipal
from checkpoints.errors import TokenRefused
from checkpoints.models import ApiToken, AuditEvent, Membership
from tests.agents.waiting import make_waiting
from tests.conftest import as_owner
from tests.workers.conftest import pending
from tests.workers.test_api import Program, refused, started

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def admin(join) -> UserPrincipal:
    return join("ada", Role.ADMIN, can_approve=True)


def token_of(person: UserPrincipal, *scopes: str) -> str:
    with as_owner():
        return tokens.make(
            person.workspace_id,
            name="phone",
            scopes=scopes or ("read", "decide"),
            by=person,
        )[1]


@pytest.fixture
def phone(admin) -> Program:
    return Program(token_of(admin))


@pytest.fixture
def asked(make_thread, alice) -> Approval:
    (approval,) = make_waiting(make_thread(owner=alice), alice)
    return approval


def saying(asked: Approval, verdict: str = "approve", **more: Any) -> dict[str, Any]:
    seen = {"revision": asked.revision, "digest": bytes(asked.digest).hex()}
    return {"verdict": verdict, **seen, **more}


def test_a_request_is_listed_read_and_approved_and_the_call_runs(
    phone, admin, server, begin, work
):
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Booked.")
    run = begin()
    work()
    (listed,) = phone.get("approvals").json()
    assert (listed["tool"], listed["status"], listed["run"]) == (
        *("book", "pending"),
        str(run.pk),
    )
    assert "TP 209" not in json.dumps(listed)
    read = phone.get(f"approvals/{listed['id']}").json()
    assert read["arguments"] == read["proposed"]
    assert read["arguments"]["item"] == "TP 209"
    assert AuditEvent.objects.filter(
        action="open", purpose="approval", via="api"
    ).exists()
    answer = phone.post(
        f"approvals/{listed['id']}/decision",
        {
            "verdict": "approve",
            "revision": read["revision"],
            "digest": read["digest"],
        },
    )
    assert answer.status_code == 200, answer.content
    assert (answer.json()["status"], answer.json()["decided_by"]) == ("approved", "Ada")
    work()
    (booked,) = server.ledger("bookings")
    assert booked["body"]["item"] == "TP 209"
    decision = Decision.objects.get()
    token = ApiToken.objects.get()
    assert (decision.by_id, decision.session) == (admin.user_id, f"token {token.pk}")
    event = AuditEvent.objects.get(action="approve")
    assert (event.actor_id, event.via) == (admin.user_id, "api")
    assert event.detail["token"] == str(token.pk)
    assert event.detail["shown"] == "digest"  # what was read of it, nobody knows here
    assert decision.shown is None
    assert phone.get(f"approvals/{listed['id']}").json()["decisions"][0]["by"] == "Ada"


def test_what_is_decided_is_to_the_digit_what_was_sent(phone, asked):
    largest = 2**64 - 1
    edited = {"flight": "TP 209", "price": "900", "seats": largest}
    sent = json.dumps(saying(asked, "edit", arguments=edited))
    path = f"approvals/{asked.pk}/decision"
    twice = sent.replace('"price": "900"', '"price": "900", "price": "9000"')
    said = refused(phone.post(path, twice), 422, "not_json")
    assert "given twice" in said["detail"]
    assert "line 1, column" in said["detail"].lower()
    beyond = sent.replace(str(largest), str(largest + 1))
    said = refused(phone.post(path, beyond), 422, "not_json")
    assert "beyond 64 bits" in said["detail"]
    assert not Decision.objects.exists()
    assert phone.post(path, sent).status_code == 200
    found = phone.get(f"approvals/{asked.pk}").json()["arguments"]
    assert found["seats"] == largest


def test_an_edit_a_rejection_and_an_answer(phone, make_thread, alice):
    dear, dearer, asking = (
        make_waiting(make_thread(owner=alice), alice, *calls)[0]
        for calls in ((), (), (("ask_traveller", {"question": "When?"}),))
    )
    said = saying(dear, "edit", arguments={"flight": "TP 209", "price": "900.00"})
    edited = phone.post(f"approvals/{dear.pk}/decision", said)
    assert edited.json()["status"] == "approved"
    assert edited.json()["revision"] == dear.revision + 1
    no = phone.post(
        f"approvals/{dearer.pk}/decision", saying(dearer, "reject", reason="Too dear.")
    )
    assert no.json()["status"] == "rejected"
    answer = saying(asking, "respond", response="Monday")
    assert (
        phone.post(f"approvals/{asking.pk}/decision", answer).json()["status"]
        == "responded"
    )


def test_filters_and_pages(phone, make_thread, alice):
    asked = [make_waiting(make_thread(owner=alice), alice)[0] for _ in range(3)]
    ids = [str(each.pk) for each in reversed(asked)]
    assert [row["id"] for row in phone.get("approvals").json()] == ids
    first = phone.get("approvals", limit=2).json()
    rest = phone.get("approvals", limit=2, before=first[-1]["id"]).json()
    assert [row["id"] for row in first + rest] == ids
    assert phone.get("approvals", tool="nothing").json() == []
    assert len(phone.get("approvals", risk="high").json()) == 3
    assert phone.get("approvals", status="approved").json() == []
    (one,) = phone.get("approvals", run=asked[0].run_id).json()
    assert one["id"] == ids[-1]
    refused(phone.get("approvals", status="weird"), 422, "invalid")


# Races and what does not fit


def test_whoever_is_second_is_told_who_was_first_and_when(phone, asked, bob):
    decide.reject(asked, seen=asked.as_shown(), by=bob, reason="No.")
    said = refused(
        phone.post(f"approvals/{asked.pk}/decision", saying(asked)),
        *(409, "already_decided"),
    )
    decided_at = Approval.objects.get(pk=asked.pk).decided_at
    assert decided_at
    assert (said["decided_by"], said["verdict"]) == ("Bob", "rejected")
    assert said["decided_at"] == decided_at.isoformat()
    assert "Bob" in said["detail"]


def test_the_same_decision_sent_twice_is_made_once(phone, asked):
    for _ in range(2):
        answer = phone.post(f"approvals/{asked.pk}/decision", saying(asked))
        assert (answer.status_code, answer.json()["status"]) == (200, "approved")
    assert Decision.objects.count() == 1
    refused(
        phone.post(
            f"approvals/{asked.pk}/decision", saying(asked, "reject", reason="x")
        ),
        *(409, "already_decided"),
    )


def test_what_was_not_read_is_not_decided(phone, asked):
    stale = phone.post(
        f"approvals/{asked.pk}/decision", saying(asked) | {"revision": 7}
    )
    assert refused(stale, 409, "stale")["revision"] == asked.revision
    other = saying(asked) | {"digest": "00" * 32}
    refused(phone.post(f"approvals/{asked.pk}/decision", other), 409, "stale")
    assert Approval.objects.get().is_pending


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ({"verdict": "edit"}, ["arguments"]),
        (
            {"verdict": "edit", "arguments": {"flight": "x", "price": "dear"}},
            ["/price"],
        ),
        ({"verdict": "reject"}, ["reason"]),
        ({"verdict": "respond", "response": "yes"}, ["verdict"]),
        ({"verdict": "nod"}, None),
        ({"digest": "xyz"}, None),
        ({"revision": 0}, None),
        ({"extra": 1}, None),
    ],
    ids=str,
)
def test_what_does_not_fit_is_said_per_field(phone, asked, more, fields):
    answer = phone.post(f"approvals/{asked.pk}/decision", saying(asked) | more)
    said = refused(answer, 422, "invalid_decision" if fields else "invalid")
    if fields:
        assert list(said["fields"]) == fields
    assert Approval.objects.get().is_pending


# What its rule asks for beside the verdict


@pytest.fixture
def ask_on(make_thread, alice):
    """Asks about a booking, on these terms."""

    def ask(**terms: Any) -> Approval:
        thread = make_thread(owner=alice)
        return make_waiting(thread, alice, terms=Terms(**terms))[0]

    return ask


def test_typed_words_are_told_and_sent_back(phone, ask_on):
    asked = ask_on(typed=True)
    path = f"approvals/{asked.pk}/decision"
    assert phone.get(f"approvals/{asked.pk}").json()["typed"] == "book"
    for wrong in ({}, {"typed": "send"}):
        said = refused(
            phone.post(path, saying(asked, **wrong)), 422, "invalid_decision"
        )
        assert list(said["fields"]) == ["typed"]
    assert Approval.objects.get().is_pending
    answer = phone.post(path, saying(asked, typed="book"))
    assert answer.json()["status"] == "approved", answer.content
    assert Decision.objects.get().confirmed == "typed"


@pytest.mark.parametrize(
    "more", [{}, {"verdict": "edit", "arguments": {"flight": "x", "price": "9.00"}}]
)
def test_what_asks_for_a_password_is_for_its_page(phone, ask_on, more):
    asked = ask_on(reauthenticate=True, typed=True)
    path = f"approvals/{asked.pk}/decision"
    assert phone.get(f"approvals/{asked.pk}").json()["needs_page"] is True
    said = refused(phone.post(path, saying(asked) | more), 403, "needs_page")
    assert said["path"] == f"/inbox/{asked.pk}/"
    assert said["path"] in said["detail"]
    assert "password" in said["detail"]
    guessed = phone.post(path, saying(asked, password="x") | more)  # there is no such
    refused(guessed, 422, "invalid")
    assert Approval.objects.get().is_pending
    no = phone.post(path, saying(asked, "reject", reason="Too dear."))
    assert no.json()["status"] == "rejected"


def test_a_question_with_fields_is_answered_with_them(phone, make_thread, alice):
    thread = make_thread(owner=alice)
    (asked,) = make_waiting(thread, alice, ("ask_seat", {"flight": "TP 209"}))
    path = f"approvals/{asked.pk}"
    schema = phone.get(path).json()["response_schema"]
    assert list(schema["properties"])[:2] == ["row", "letter"]
    for response, fields in (
        ("12C", ["response"]),
        ({"row": 41, "letter": "C"}, ["/row"]),
        ({"row": "12", "letter": "C"}, ["/row"]),
        ({"row": 12, "letter": "C", "aisle": True}, ["/aisle"]),
    ):
        said = saying(asked, "respond", response=response)
        wrong = refused(phone.post(f"{path}/decision", said), 422, "invalid_decision")
        assert list(wrong["fields"]) == fields
    for _ in range(2):  # sent twice, made once
        said = saying(asked, "respond", response={"row": 12, "letter": "C"})
        assert phone.post(f"{path}/decision", said).json()["status"] == "responded"
    assert Decision.objects.count() == 1
    (text,) = make_waiting(
        make_thread(owner=alice), alice, ("ask_traveller", {"question": "When?"})
    )
    assert phone.get(f"approvals/{text.pk}").json()["response_schema"] is None
    said = saying(text, "respond", response={"row": 12})
    wrong = phone.post(f"approvals/{text.pk}/decision", said)
    assert list(refused(wrong, 422, "invalid_decision")["fields"]) == ["response"]


# Taking it back


def test_a_decision_is_taken_back_in_its_window(phone, admin, ask_on):
    asked = ask_on(grace=60)
    path = f"approvals/{asked.pk}"
    edit = saying(asked, "edit", arguments={"flight": "TP 209", "price": "900.00"})
    decided = phone.post(f"{path}/decision", edit).json()
    assert (decided["status"], bool(decided["final_at"])) == ("approved", True)
    back = phone.post(f"{path}/undo", {"revision": decided["revision"]})
    assert back.status_code == 200, back.content
    assert (back.json()["status"], back.json()["decided_by"]) == ("pending", None)
    assert phone.get(path).json()["arguments"]["price"] == "1200.00"
    event = AuditEvent.objects.get(action="undo")
    assert (event.actor_id, event.via) == (admin.user_id, "api")
    # Sent twice, it takes back nothing that was decided since.
    again = saying(asked) | {name: back.json()[name] for name in ("revision", "digest")}
    yes = phone.post(f"{path}/decision", again).json()
    assert yes["status"] == "approved"
    late = phone.post(f"{path}/undo", {"revision": decided["revision"]})
    assert refused(late, 409, "stale")["revision"] == yes["revision"]
    assert Approval.objects.get().status == "approved"


def test_nothing_is_taken_back_once_the_run_went_on(phone, asked, ask_on, bob):
    path = f"approvals/{asked.pk}"
    yes = phone.post(f"{path}/decision", saying(asked)).json()  # without a window
    refused(phone.post(f"{path}/undo", {"revision": yes["revision"]}), 409, "too_late")
    theirs = ask_on(grace=60)
    decide.reject(theirs, seen=theirs.as_shown(), by=bob, reason="No.")
    undo = {"revision": theirs.revision}
    refused(phone.post(f"approvals/{theirs.pk}/undo", undo), 403, "not_eligible")
    refused(phone.post(f"approvals/{theirs.pk}/undo", {}), 422, "invalid")
    assert Approval.objects.get(pk=theirs.pk).status == "rejected"


def test_only_who_decides_takes_back(admin, ask_on):
    asked = ask_on(grace=60)
    path = f"approvals/{asked.pk}"
    decided = Program(token_of(admin)).post(f"{path}/decision", saying(asked)).json()
    undo = {"revision": decided["revision"]}
    others = [scope for scope in Scope.values if scope != "decide"]
    refused(
        Program(token_of(admin, *others)).post(f"{path}/undo", undo),
        *(403, "not_permitted"),
    )
    refused(Program().post(f"{path}/undo", undo), 401, "bad_token")
    assert Approval.objects.get().status == "approved"


# Who may not


def test_the_person_must_still_hold_the_right(phone, asked, admin):
    mine = Membership.objects.filter(user_id=admin.user_id)
    with as_owner():
        mine.update(can_approve=False)
    path = f"approvals/{asked.pk}/decision"
    refused(phone.post(path, saying(asked)), 403, "not_eligible")
    with as_owner():
        mine.update(can_approve=True)
        User.objects.filter(pk=admin.user_id).update(is_active=False)
    refused(phone.post(path, saying(asked)), 403, "not_permitted")
    with as_owner():
        User.objects.filter(pk=admin.user_id).update(is_active=True)
        mine.delete()
    refused(phone.post(path, saying(asked)), 403, "not_permitted")
    assert Approval.objects.get().is_pending


def test_a_token_of_nobody_cannot_decide(workspace):
    with as_owner(), pytest.raises(TokenRefused, match="a person makes it"):
        tokens.make(workspace.pk, name="x", scopes=["decide"], by=None)


def test_only_the_scope_decides_and_it_reads_nothing(admin, asked):
    others = [scope for scope in Scope.values if scope != "decide"]
    reader = Program(token_of(admin, *others))
    path = f"approvals/{asked.pk}/decision"
    refused(reader.post(path, saying(asked)), 403, "not_permitted")
    decider = Program(token_of(admin, "decide"))
    refused(decider.get("approvals"), 403, "not_permitted")
    refused(decider.get(f"approvals/{asked.pk}"), 403, "not_permitted")
    assert decider.post(path, saying(asked)).status_code == 200


@pytest.mark.parametrize("own", [True, False])
def test_no_program_approves_what_it_asked(admin, join, server, work, own):
    starter = Program(token_of(admin, *Scope.values))
    other = join("eve", Role.ADMIN, can_approve=True)
    decider = starter if own else Program(token_of(other))
    twin = Program(token_of(admin))  # another token of the same person
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Booked.")
    started(starter)
    work()
    (asked,) = Approval.objects.pending()
    path = f"approvals/{asked.pk}/decision"
    refused(twin.post(path, saying(asked)), 403, "not_eligible")
    answer = decider.post(path, saying(asked))
    if own:
        refused(answer, 403, "not_eligible")
        assert Decision.objects.count() == 0
    else:
        assert answer.status_code == 200


def test_what_it_may_not_see_is_not_there(phone, make_thread, admin, other, alice):
    (private,) = make_waiting(make_thread(owner=admin, visibility="private"), admin)
    theirs = Program(token_of(other))
    (ours,) = make_waiting(make_thread(owner=alice), alice)
    for who, asked in ((phone, private), (theirs, ours)):
        for answer, never in (
            (who.get(f"approvals/{asked.pk}"), who.get(f"approvals/{uuid4()}")),
            (
                who.post(f"approvals/{asked.pk}/undo", {"revision": 1}),
                who.post(f"approvals/{uuid4()}/undo", {"revision": 1}),
            ),
            (
                who.post(f"approvals/{asked.pk}/decision", saying(asked)),
                who.post(f"approvals/{uuid4()}/decision", saying(asked)),
            ),
        ):
            refused(answer, 404, "not_found")
            assert answer.content == never.content
    assert str(private.pk) not in str(phone.get("approvals", status="").json())
    assert theirs.get("approvals").json() == []
    assert not Decision.objects.unscoped(Reason.TEST).exists()


def test_without_a_token_nothing_is_there(asked):
    for who in (Program(), Program("hp_" + "A" * 64)):
        refused(who.get("approvals"), 401, "bad_token")
        refused(who.get(f"approvals/{asked.pk}"), 401, "bad_token")
        refused(
            who.post(f"approvals/{asked.pk}/decision", saying(asked)), 401, "bad_token"
        )


def test_a_run_shows_its_requests_until_they_are_decided(phone, server, begin, work):
    server.will_call("c1", "book", item="TP 209", price="1200")
    run = begin()
    work()
    (asked,) = pending(run)
    (shown,) = phone.get(f"runs/{run.pk}").json()["waits_for"]
    assert shown["id"] == str(asked.pk)


def test_a_program_reads_what_a_guard_found_and_the_preview(
    begin, work, server, phone, alice
):
    server.will_call("c1", "reserve", item="booth", price="100")
    run = begin()
    work()
    asked = Approval.objects.get(run=run)
    first = phone.get(f"approvals/{asked.pk}").json()
    assert (first["guard"], first["found"]) == ("same", None)
    assert "For 100." in json.dumps(first["preview"])
    server.charge({"booth": {"any": {"price": "900"}}})
    guards.ask_check(asked, alice)
    looks.check(asked.pk)
    now = phone.get(f"approvals/{asked.pk}").json()
    assert (now["guard"], now["revision"]) == ("changed", 2)
    assert now["found"]["text"] == "it was 100, is 900"
    assert "For 900" in json.dumps(now["preview"])
