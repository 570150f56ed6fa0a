"""The audit page: what an auditor finds there, and whether the log can be trusted."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection, connections
from django.db.models import UUIDField
from django.test import AsyncClient

from agents.models import Decision
from agents.pages.audit.find import ACTIONS, OBJECTS
from agents.pure.policies import ASKS
from agents.pure.policy_text import OUTCOMES
from checkpoints import audit, audit_chain, gate
from checkpoints.access import Reason, Role
from checkpoints.ids import uuid7
from checkpoints.models import AuditEvent, AuditLink, RetentionTask, WorkspaceKey
from checkpoints.pure import audit_file, audit_proof
from tests.tampering import tamper

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[2]
EVERYONE_ELSE = [Role.VIEWER, Role.OPERATOR]


def events():
    return AuditEvent.objects.unscoped(Reason.TEST)


def text(response) -> str:
    page = re.sub(r"<[^>]+>", " ", response.content.decode())
    return re.sub(r"\s+", " ", page)


@pytest.fixture
def client(browser, auditor):
    return browser(auditor)


@pytest.fixture
def log(trip, alice, bob):
    """What alice and bob did to a trip, linked."""
    gate.admit(alice, purpose="read thread", threads=[trip.thread], steps="0-4")
    audit.record(bob, "approve", obj=trip.approval, run=trip.run.pk, revision=1)
    audit.record(bob, "cancel", obj=trip.run, outcome="refused")
    audit.record(None, "expired", obj=trip.thread, via="worker")
    audit_chain.link_pending()
    return trip


# Who reads it


@pytest.mark.parametrize("role", EVERYONE_ELSE)
def test_it_is_not_for_everyone(browser, join, role):
    client = browser(join("pat", role, can_approve=True))
    assert "/audit/" not in client.get("/runs/").content.decode()
    for address in ("", "export.csv", "export.jsonl", "audit_proof.py"):
        assert client.get(f"/audit/{address}").status_code == 403
    assert client.post("/audit/verify").status_code == 403
    assert "auditors and admins" in text(client.get("/audit/"))


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.ADMIN])
def test_auditors_and_admins_find_it_in_the_navigation(browser, join, role):
    client = browser(join("pat", role))
    assert 'href="/audit/"' in client.get("/runs/").content.decode()
    assert client.get("/audit/").status_code == 200


def test_another_workspaces_events_are_not_there(log, browser, other):
    page = text(browser(other).get("/audit/"))
    assert "Nothing is recorded yet" in page
    event = events().filter(action="approve").get()
    assert (
        "approve"
        not in text(browser(other).get(f"/audit/?open={event.pk}")).split("Apply")[1]
    )


# What it shows


def test_it_lists_who_did_what_to_what(client, log):
    page = text(client.get("/audit/"))
    assert "Bob approve APR-7001" in page
    assert "Alice open thread" in page
    assert "a worker expired thread" in page
    assert page.index("expired thread") < page.index("Bob approve")  # newest first


def test_an_object_leads_to_its_page_for_those_who_see_it(
    client, browser, log, make_trip, alice, join
):
    private = make_trip(alice, visibility="private", title="Secret")
    audit.record(alice, "cancel", obj=private.run)
    page = client.get("/audit/").content.decode()
    assert f'href="/threads/{log.thread.pk}/"' in page
    assert f'href="/inbox/{log.approval.pk}/"' in page
    assert f'href="/threads/{log.thread.pk}/?branch={log.branch.pk}"' in page
    assert f"/threads/{private.thread.pk}/" not in page


def test_an_open_row_has_every_id_and_its_link(client, log):
    event = events().get(action="approve")
    page = client.get(f"/audit/?open={event.pk}").content.decode()
    for value in (event.pk, event.object_id, log.run.pk, event.link.hash.hex()):
        assert str(value) in page
    assert "the hash is this event" in page


def test_an_event_of_another_page_opens_with_what_is_around_it(client, log, alice):
    event = events().get(action="approve")
    for _ in range(60):
        audit.record(alice, "message")
    page = text(client.get(f"/audit/?open={event.pk}"))
    assert str(event.pk) in page
    assert "Newer" in page


@pytest.mark.parametrize(
    ("query", "there", "gone"),
    [
        ("action=approve", "Bob approve", "Alice open"),
        ("object=agents.run", "Bob cancel", "Bob approve"),
        ("outcome=refused", "Bob cancel", "Bob approve"),
        ("via=worker", "a worker expired", "Bob approve"),
        ("actor=none", "a worker expired", "Bob approve"),
        ("since=2020-01-01", "Bob approve", "No event"),
        ("until=2020-01-01", "No event matches", "Bob approve"),
        ("since=2999-01-01", "No event matches", "Bob approve"),
    ],
)
def test_filters_leave_what_they_say(client, log, query, there, gone):
    page = text(client.get(f"/audit/?{query}"))
    assert there in page
    assert gone not in page


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("action=decide", "“decide” is no action that is recorded."),
        ("actor=bob", "“bob” is no person&#x27;s number."),
        ("object_id=12", "“12” is no object&#x27;s id, such as"),
        ("since=yesterday", "“yesterday” is no day, such as 2026-11-30."),
        ("via=%3Cb%3Email", "“&lt;b&gt;mail” is no channel."),
    ],
)
def test_a_filter_that_is_none_filters_nothing_and_says_so(client, log, query, said):
    page = text(client.get(f"/audit/?{query}&outcome=refused"))
    assert said in page
    assert "It was left out." in page
    assert "Bob cancel" in page  # the other filter holds
    assert "Bob approve" not in page
    assert "It was left out." not in text(client.get("/audit/?outcome=refused"))


def test_a_person_and_an_object_can_be_asked_for(client, log, bob):
    page = text(client.get(f"/audit/?actor={bob.user_id}"))
    assert "Bob approve" in page
    assert "Alice open" not in page
    page = text(client.get(f"/audit/?object_id={log.approval.pk}"))
    assert "Bob approve" in page
    assert "Bob cancel" not in page


@pytest.fixture
def over_days(alice):
    """Events of four days: n in the order of positions, not quite that of times."""
    for n, at in enumerate(
        (
            "2026-03-01 00:00:00",
            "2026-03-01 23:59:59.999999",
            "2026-03-02 00:00:20",
            "2026-03-01 23:59:58",  # written after what is later
            "2026-03-02 12:00:00",
            "2026-03-03 00:00:00",
            "2026-03-04 09:00:00",
        )
    ):
        audit.record(alice, "message", n=n)
        assert tamper(
            "UPDATE checkpoints_auditevent SET at = %s WHERE detail = %s",
            [f"{at}+00", f'{{"n": {n}}}'],
        )


@pytest.mark.parametrize(
    ("since", "until", "found"),
    [
        ("", "", "6543210"),
        ("2026-03-01", "2026-03-01", "310"),
        ("2026-03-02", "2026-03-02", "42"),
        ("2026-03-02", "", "6542"),
        ("", "2026-03-02", "43210"),
        ("2026-03-03", "2026-03-04", "65"),
        ("2026-03-05", "", ""),
        ("", "2026-02-28", ""),
        ("2026-03-04", "2026-03-01", ""),
    ],
)
def test_days_are_taken_whole_and_in_utc(client, over_days, since, until, found):
    page = client.get("/audit/", {"since": since, "until": until}).content.decode()
    assert "".join(re.findall(r"n (\d+)</span>", page)) == found


def test_pages_go_on_where_the_last_one_ended(client, alice):
    for n in range(120):
        audit.record(alice, "message", n=n)
    seen: list[str] = []
    address = "/audit/?action=message"
    for _ in range(3):
        page = client.get(address).content.decode()
        seen += re.findall(r"n (\d+)</span>", page)
        older = re.search(r'href="([^"]*)" rel="next"', page)
        if not older:
            break
        address = "/audit/" + older[1].replace("&amp;", "&")
    assert seen == [str(n) for n in range(119, -1, -1)]
    newer = re.search(r'href="([^"]*)" rel="prev"', page)
    assert newer
    back = client.get("/audit/" + newer[1].replace("&amp;", "&")).content.decode()
    assert re.findall(r"n (\d+)</span>", back) == [str(n) for n in range(69, 19, -1)]


def test_every_action_that_is_recorded_can_be_asked_for():
    """What the code says, and what it makes of a kind, a verdict or a task."""
    said = {
        *(f"ask_{what}" for what in RetentionTask.What),
        *Decision.Verdict,
        *("login", "logout", "pin", "unpin", "hold", "lift"),
        *(kind for kind in OUTCOMES if kind not in ASKS),  # of a policy
        *(
            "begin",
            "execute",
        ),  # by the statement that begins a call, or keeps its result
        *("memory_put", "memory_delete"),  # whether there is a value to put
        *("board_unlock", "board_release"),  # whether its run or a person lets go
        *("channel_on", "channel_off", "deliver_retry", "deliver_leave", "break_glass"),
    }
    for path in (*ROOT.rglob("agents/**/*.py"), *ROOT.rglob("checkpoints/**/*.py")):
        if "tests" not in path.parts:
            said |= set(recorded_in(path))
    assert {"open", "key_rewrap", "policy_remove", "take_over"} <= said
    assert said == set(ACTIONS)


def recorded_in(path: Path) -> Iterator[str]:
    """The actions that a module names where it records."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case (
                ast.Call(
                    func=ast.Attribute(
                        value=ast.Name(id="audit" | "sign_in"), attr="record"
                    ),
                    args=[_, ast.Constant(value=str(action)), *_],
                )
                | ast.Call(
                    func=ast.Attribute(
                        value=ast.Name(id="audit"), attr="record_each" | "record_beside"
                    ),
                    args=[ast.Constant(value=str(action)), *_],
                )
            ):
                yield action
            case (
                ast.Call(
                    func=ast.Name(id="_record"),
                    args=[_, ast.Constant(value=str(action)), _],
                )
                | ast.Call(
                    func=ast.Name(id="_record"),
                    args=[_, _, ast.Constant(value=str(action))],
                )
                | ast.Call(
                    func=ast.Name(id="_record"),
                    args=[_, ast.Constant(value=str(action))],
                )
                | ast.Call(
                    func=ast.Name(id="_record"),
                    args=[ast.Constant(value=str(action)), *_],
                )
            ):  # the admin's, of halts, and of who looks after requests
                yield action


def test_whatever_an_event_is_about_is_found_by_its_id(client, auditor):
    for label in OBJECTS:
        model = apps.get_model(label)
        if isinstance(model._meta.pk, UUIDField):
            obj = model(pk=uuid7())
            audit.record(auditor, "export", obj=obj, purpose=label[:60])
            page = text(client.get(f"/audit/?object_id={obj.pk}"))
            assert f"export {OBJECTS[label]}" in page, label
    rewrap = WorkspaceKey.objects.unscoped(Reason.TEST).get()
    audit.record_each("key_rewrap", [rewrap], via="command")
    assert "key rewrap workspace key" in text(
        client.get(f"/audit/?object_id={rewrap.pk}&action=key_rewrap")
    )


def test_odd_addresses_are_no_trouble(client, log):
    keys = "actor action object object_id outcome via since until before after open"
    for odd in ("", "-1", "9" * 40, "\0", "é😀", "2020-13-45", "²", "x' OR 1=1"):
        response = client.get("/audit/", dict.fromkeys(keys.split(), odd))
        assert response.status_code == 200


def test_what_is_hostile_in_an_event_is_inert(client, alice):
    audit.record(alice, "message", note="<script>alert(1)</script>\u202e")
    page = client.get("/audit/").content.decode()
    assert "<script>alert" not in page
    assert "U+202E" in page


def test_its_queries_do_not_grow(client, log, alice, django_assert_num_queries):
    client.get("/audit/")
    with django_assert_num_queries(13):
        client.get("/audit/")
    for _ in range(40):
        audit.record(alice, "message", obj=log.branch)
    with django_assert_num_queries(14):  # branches, too
        client.get("/audit/")


# Whether it can be trusted


def test_verify_now_says_up_to_where(client, log):
    assert "was not verified yet" in text(client.get("/audit/"))
    assert client.post("/audit/verify")["Location"] == "/audit/"
    linked = audit_chain.head_of(log.thread.workspace_id).number
    assert f"Chain verified to row {linked} " in text(client.get("/audit/"))
    audit_chain.link_pending()
    assert f"It is at row {linked + 1} now" in text(client.get("/audit/"))


def test_a_broken_chain_is_named_with_its_first_bad_row(client, log):
    event = events().get(action="approve")
    number = AuditLink.objects.unscoped(Reason.TEST).get(event=event).number
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(
            "UPDATE checkpoints_auditevent SET action = 'reject' WHERE id = %s",
            [event.pk],
        )
        cursor.execute("SET session_replication_role = DEFAULT")
    client.post("/audit/verify")
    page = text(client.get("/audit/"))
    assert f"The chain breaks at row {number} (altered)" in page
    assert "the chain breaks here" in page
    opened = text(client.get(f"/audit/?open={event.pk}"))
    assert "the hash is another event" in opened


@pytest.fixture
def verified(log, alice):
    """Writes down what a verification found, from a row on; then says how the log stands."""

    def verified(first: int, bad: int | None = None, *, last: int = 1000):
        audit.record(
            alice,
            "verify_audit",
            obj=log.thread.workspace,
            outcome="broken" if bad else "ok",
            first=first,
            number=last,
            bad=bad,
            what="altered" if bad else None,
        )
        state = audit_chain.last_verified(log.thread.workspace_id)
        assert state
        return state.bad

    return verified


def test_a_part_that_holds_does_not_mend_what_is_before_it(verified):
    assert verified(1, bad=20) == 20
    for _ in range(25):  # however often
        assert verified(30) == 20
    assert verified(1) == 0


def test_a_part_that_holds_mends_what_is_in_it(verified):
    assert verified(1, bad=20) == 20
    assert verified(30, bad=70) == 70
    assert verified(50) == 20
    assert verified(80) == 20
    assert verified(20) == 0


def test_what_a_broken_chain_leaves_sound_is_not_overstated(client, verified):
    verified(1, bad=20)
    assert "Rows 1 to 19 are sound" in text(client.get("/audit/"))
    verified(5, bad=6)
    assert "Row 5 is sound" in text(client.get("/audit/"))
    verified(6, bad=6)
    page = text(client.get("/audit/"))
    assert "sound" not in page
    assert "Row 6 and what comes after it" in page


# Downloads


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_download_proves_itself_and_is_recorded(client, log, auditor, kind):
    response = client.get(f"/audit/export.{kind}")
    assert response["Content-Disposition"] == f'attachment; filename="audit.{kind}"'
    lines = b"".join(response).decode().splitlines(keepends=True)
    reads = audit_file.read_csv if kind == "csv" else audit_file.read_jsonl
    verdict = audit_proof.verify(reads(lines))
    assert verdict.fault is None
    assert verdict.head == audit_chain.head_of(log.thread.workspace_id)
    event = events().get(action="export")
    assert (event.actor_id, event.detail["format"]) == (auditor.user_id, kind)


def test_the_verifier_comes_with_it(client):
    program = b"".join(client.get("/audit/audit_proof.py")).decode()
    assert program.startswith("#!/usr/bin/env python3")


@pytest.mark.django_db(transaction=True)
def test_a_server_sends_it_piece_by_piece(log, auditor):
    async def fetch() -> bytes:
        client = AsyncClient()
        await client.aforce_login(await User.objects.aget(pk=auditor.user_id))
        response: Any = await client.get("/audit/export.jsonl")
        assert response.is_async
        body = b"".join([piece async for piece in response])
        await sync_to_async(connections.close_all)()  # as a request does at its end
        return body

    # In a thread of its own: Playwright keeps a loop in the main one.
    with ThreadPoolExecutor(1) as thread:
        body = thread.submit(lambda: asyncio.run(fetch())).result().decode()
    verdict = audit_proof.verify(audit_file.read_jsonl(body.splitlines()))
    assert verdict.head.number == audit_chain.head_of(log.thread.workspace_id).number
