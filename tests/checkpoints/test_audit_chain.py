"""The chained audit log: every event is linked, and whatever is done to it shows."""

from __future__ import annotations

import threading
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection, transaction

from checkpoints import audit, audit_chain
from checkpoints.access import Reason
from checkpoints.clock import now
from checkpoints.ids import uuid7
from checkpoints.models import AuditEvent, AuditLink, AuditPending
from checkpoints.pure import audit_proof
from checkpoints.pure.audit_proof import Head
from tests.elsewhere import uncommitted
from tests.tampering import tamper

pytestmark = pytest.mark.django_db

EVENTS = AuditEvent.objects.unscoped(Reason.TEST)
LINKS = AuditLink.objects.unscoped(Reason.TEST)
PENDING = AuditPending.objects.unscoped(Reason.TEST)


@pytest.fixture
def log(alice):
    """Six events of alice's workspace, linked."""
    for action in ("login", "open", "start", "approve", "fork", "logout"):
        audit.record(alice, action, count=3, note=["=1+1", "é"])
    audit_chain.link_pending()
    return alice.workspace_id


def renumber(first: int, by: int) -> None:
    """In two moves, past each other: a number is there once."""
    far = 1_000_000
    for move, least in ((far, first), (by - far, far)):
        tamper(
            "UPDATE checkpoints_auditlink SET number = number + %s WHERE number >= %s",
            [move, least],
        )


def event_at(number: int):
    return LINKS.get(number=number).event_id


# Linking


def test_events_are_linked_in_their_order(log):
    links = list(LINKS.order_by("number").select_related("event"))
    assert [link.number for link in links] == [1, 2, 3, 4, 5, 6]
    assert [link.event.action for link in links][:3] == ["login", "open", "start"]
    assert bytes(links[0].previous) == audit_proof.START
    for before, after in pairwise(links):
        assert bytes(after.previous) == bytes(before.hash)
    assert not PENDING.exists()


def test_linking_again_links_nothing(log):
    assert audit_chain.link_pending() == 0
    assert LINKS.count() == 6


def test_each_workspace_has_a_chain_of_its_own(alice, other):
    for person in (alice, other, None, alice):
        audit.record(person, "login")
    assert audit_chain.link_pending() == 4
    for whose, events in ((alice.workspace_id, 2), (other.workspace_id, 1), (None, 1)):
        verdict = audit_chain.verify_audit(whose)
        assert verdict.fault is None
        assert verdict.head == audit_chain.head_of(whose)
        assert verdict.head.number == events


def test_a_batch_is_as_large_as_it_may_be_and_the_rest_follows(alice):
    for _ in range(30):
        audit.record(alice, "open")
    assert audit_chain.link_pending(limit=0) == 0
    assert audit_chain.link_pending() == 30


@pytest.mark.django_db(transaction=True)
def test_an_event_that_commits_late_is_linked_when_it_is_there(alice):
    with uncommitted(lambda: audit.record(alice, "late")):
        audit.record(alice, "quick")
        assert audit_chain.link_pending() == 1
    late, quick = EVENTS.order_by("position")
    assert (late.action, quick.action) == ("late", "quick")
    assert audit_chain.link_pending() == 1
    assert (quick.link.number, late.link.number) == (1, 2)
    assert audit_chain.verify_audit(alice.workspace_id).fault is None


@pytest.mark.django_db(transaction=True)
def test_many_linkers_at_once_make_one_chain(alice, other):
    for _ in range(200):
        audit.record(alice, "open")
        audit.record(other, "open")
    done: list[int] = []

    def link() -> None:
        done.append(audit_chain.link_pending())
        connection.close()

    linkers = [threading.Thread(target=link) for _ in range(8)]
    for linker in linkers:
        linker.start()
    for linker in linkers:
        linker.join()
    assert sum(done) + audit_chain.link_pending() == 400
    for person in (alice, other):
        verdict = audit_chain.verify_audit(person.workspace_id)
        assert (verdict.head.number, verdict.fault) == (200, None)


@pytest.mark.django_db(transaction=True)
def test_a_linker_does_not_wait_for_another(alice):
    audit.record(alice, "open")
    with uncommitted(lambda: audit_chain._alone(alice.workspace_id)) as holder:
        assert audit_chain.link_pending() == 0
    assert holder.result() is True
    assert audit_chain.link_pending() == 1


def test_a_row_slipped_in_among_what_waits_stops_no_linker(log, alice, other):
    linked = EVENTS.get(pk=event_at(2))
    audit.record(alice, "later")
    audit.record(other, "elsewhere")
    later, elsewhere = PENDING.order_by("position")
    for event, workspace_id in (
        (linked.pk, alice.workspace_id),  # it is linked already
        (uuid7(), alice.workspace_id),  # there is no such event
        (elsewhere.event_id, alice.workspace_id),  # it is another workspace's
    ):
        tamper(
            "INSERT INTO checkpoints_auditpending (event_id, workspace_id, position)"
            " VALUES (%s, %s, 1) ON CONFLICT (event_id)"
            " DO UPDATE SET workspace_id = excluded.workspace_id",
            [event, workspace_id],
        )
    audit_chain.link_pending()
    assert not PENDING.exists()
    assert LINKS.get(event=later.event_id).number == 7
    assert audit_chain.verify_audit(alice.workspace_id).fault is None
    # What was led astray is linked nowhere, and is named where it belongs.
    tamper(
        "UPDATE checkpoints_auditevent SET at = at - interval '2 minutes' WHERE id = %s",
        [elsewhere.event_id],
    )
    fault = audit_chain.verify_audit(other.workspace_id).fault
    assert fault is not None
    assert (fault.what, fault.event) == ("unlinked", str(elsewhere.event_id))


def test_what_is_rolled_back_waits_for_nothing(alice):
    with transaction.atomic():
        audit.record(alice, "open")
        transaction.set_rollback(True)
    assert not PENDING.exists()


# Verifying


def fault(workspace_id, **more):
    found = audit_chain.verify_audit(workspace_id, **more).fault
    return found and (found.number, found.what)


def test_what_is_as_it_was_holds(log):
    verdict = audit_chain.verify_audit(log)
    assert verdict.fault is None
    assert verdict.head == audit_chain.head_of(log)
    assert verdict.head.number == 6


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("action", "reject"),
        ("outcome", "refused"),
        ("actor_id", None),
        ("at", "2026-01-01T00:00:00Z"),
        ("position", 1_000_000),
        ("address", "192.0.2.1"),
        ("session", "x"),
        ("object_type", "x"),
        ("object_id", "01900000-0000-7000-8000-000000000001"),
        ("purpose", "x"),
        ("via", "admin"),
        ("detail", '{"count": 4}'),
    ],
)
def test_an_altered_event_is_named(log, column, value):
    tamper(
        "UPDATE checkpoints_auditevent SET @ = %s WHERE id = %s".replace("@", column),
        [value, event_at(4)],
    )
    assert fault(log) == (4, "altered")


def test_a_hash_that_was_made_to_fit_is_named(log):
    tamper(
        "UPDATE checkpoints_auditevent SET action = 'x' WHERE id = %s", [event_at(4)]
    )
    row = list(audit_chain.rows(log))[3]
    tamper(
        "UPDATE checkpoints_auditlink SET hash = %s WHERE number = 4",
        [audit_proof.link(row.previous, row.event)],
    )
    assert fault(log) == (4, "altered")


@pytest.mark.parametrize("column", ["hash", "previous"])
def test_an_altered_link_is_named(log, column):
    tamper(
        "UPDATE checkpoints_auditlink SET @ = %s WHERE number = 4".replace("@", column),
        [b"x" * 32],
    )
    assert fault(log) == (4, "altered")


@pytest.mark.parametrize("number", [1, 3])
def test_a_row_that_is_gone_is_named(log, number):
    event = event_at(number)
    tamper("DELETE FROM checkpoints_auditlink WHERE event_id = %s", [event])
    tamper("DELETE FROM checkpoints_auditevent WHERE id = %s", [event])
    assert fault(log) == (number, "missing")


def test_a_row_that_is_gone_with_the_gap_closed_is_named(log):
    event = event_at(3)
    tamper("DELETE FROM checkpoints_auditlink WHERE event_id = %s", [event])
    renumber(4, -1)
    verdict = audit_chain.verify_audit(log)
    assert verdict.head.number == 2  # the last that can be trusted to be there
    assert "one between them was taken out" in str(verdict.fault)


def test_a_beginning_that_is_gone_with_the_gap_closed_is_named(log):
    tamper("DELETE FROM checkpoints_auditlink WHERE number = 1")
    renumber(2, -1)
    assert fault(log) == (1, "missing")


def test_a_row_that_was_slipped_in_is_named(log, alice):
    audit.record(alice, "forged")
    forged = PENDING.get()
    renumber(4, 1)
    third = LINKS.get(number=3)
    (event,) = audit_chain._events([forged.event_id])
    LINKS.create(
        event_id=forged.event_id,
        workspace_id=log,
        number=4,
        previous=bytes(third.hash),
        hash=audit_proof.link(bytes(third.hash), event),
    )
    assert fault(log) == (4, "inserted")


def test_rows_that_changed_places_are_named(log):
    for old, new in ((3, 100), (5, 3), (100, 5)):
        tamper(
            "UPDATE checkpoints_auditlink SET number = %s WHERE number = %s", [new, old]
        )
    assert fault(log) == (3, "reordered")


def test_a_row_of_another_workspace_is_named(log, other):
    tamper(
        "UPDATE checkpoints_auditevent SET workspace_id = %s WHERE id = %s",
        [other.workspace_id, event_at(2)],
    )
    assert fault(log) == (2, "foreign")
    tamper("UPDATE checkpoints_auditevent SET workspace_id = %s", [other.workspace_id])
    assert fault(log) == (1, "foreign")


def test_an_event_that_no_linker_was_told_of_is_named(log, alice):
    audit.record(alice, "forged")
    assert audit_chain.verify_audit(log).fault is None  # it may be linked any moment
    tamper("DELETE FROM checkpoints_auditpending")
    tamper(
        "UPDATE checkpoints_auditevent SET at = %s WHERE action = 'forged'",
        [now() - timedelta(hours=1)],
    )
    assert fault(log) == (7, "unlinked")


def test_a_log_that_was_cut_off_is_found_by_an_anchor_only(log):
    head = audit_chain.head_of(log)
    tamper("DELETE FROM checkpoints_auditlink WHERE number > 4")
    tamper(
        "DELETE FROM checkpoints_auditevent AS event WHERE NOT EXISTS "
        "(SELECT FROM checkpoints_auditlink WHERE event_id = event.id)"
    )
    assert fault(log) is None
    assert fault(log, anchors=[head]) == (6, "missing")


def test_a_log_that_was_written_anew_is_found_by_an_anchor(log):
    anchor = audit_chain.head_at(log, 3)
    tamper("UPDATE checkpoints_auditevent SET actor_id = NULL")
    head = Head()
    for row in list(audit_chain.rows(log)):
        digest = audit_proof.link(head.hash, row.event)
        tamper(
            "UPDATE checkpoints_auditlink SET previous = %s, hash = %s "
            "WHERE number = %s",
            [head.hash, digest, row.number],
        )
        head = Head(row.number, digest)
    assert fault(log) is None
    assert fault(log, anchors=[anchor]) == (3, "rewritten")
    assert fault(log, anchors=[Head(3, bytes(32))]) == (3, "rewritten")


def test_what_is_known_to_be_good_can_be_left_out(log):
    start = audit_chain.head_at(log, 4)
    tamper("UPDATE checkpoints_auditevent SET via = 'x' WHERE id = %s", [event_at(2)])
    verdict = audit_chain.verify_audit(log, start=start)
    assert (verdict.start, verdict.head.number, verdict.fault) == (start, 6, None)
    assert fault(log) == (2, "altered")
    assert fault(log, start=Head(4, b"x" * 32)) == (4, "altered")
