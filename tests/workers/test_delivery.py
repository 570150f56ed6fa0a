"""Requests are told of by e-mail and webhook: at least once, signed, and never with state."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from ipaddress import IPv4Address
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone

from agents import queue
from agents.approvals import decide
from agents.approvals.undo import undo
from agents.delivery import address, channels, message, outbox, send, webhook
from agents.delivery.trouble import NotDelivered
from agents.models import Approval, Channel, Delivery
from agents.pure.terms import Step, Terms
from agents.runs import reaper
from agents.runs.housekeeping import DUTIES, Housekeeper
from checkpoints.access import Role
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import NotPermitted
from checkpoints.ids import first_at
from checkpoints.models import AuditEvent, Group, Membership, Thread
from tests.agents.waiting import GOOD, make_waiting
from tests.browser.hostile import CORPUS, is_hidden
from tests.conftest import as_owner
from tests.workers.conftest import pending, wait_until
from tests.workers.receivers import Hooks, Post, hooks, post_office, raw

pytestmark = pytest.mark.django_db(transaction=True)

ALL = ["asked", "decided", "executed", "expired", "escalated"]
Status = Delivery.Status


@pytest.fixture(autouse=True)
def here(settings) -> None:
    """Receivers are on this machine, as in the demo."""
    settings.LOCAL = True
    settings.WEBHOOK_PRIVATE_ADDRESSES = True
    settings.PUBLIC_URL = "https://holdpoint.example"


@pytest.fixture
def admin(join) -> Any:
    return join("ada", Role.ADMIN, can_approve=True)


@pytest.fixture
def receiver() -> Iterator[Hooks]:
    with hooks() as found:
        yield found


@pytest.fixture
def office(settings) -> Iterator[Post]:
    with post_office() as found:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", found.port
        yield found


@pytest.fixture
def hook(admin, receiver) -> Callable[..., tuple[Channel, str]]:
    def hook(name: str = "ops", **more: Any) -> tuple[Channel, str]:
        more = {"events": ALL, "address": f"{receiver.address}/in?to=ops", **more}
        with as_owner():
            return channels.make(
                channels.Draft(kind="webhook", name=name, **more), by=admin
            )

    return hook


@pytest.fixture
def mailbox(admin, office) -> Callable[..., Channel]:
    def mailbox(name: str = "desk", address: str = "desk@acme.example", **more: Any):
        more = {"events": ALL, **more}
        with as_owner():
            return channels.make(
                channels.Draft(kind="email", name=name, address=address, **more),
                by=admin,
            )[0]

    return mailbox


@pytest.fixture
def ask(make_thread, alice) -> Callable[..., Approval]:
    def ask(*calls: Any, **more: Any) -> Approval:
        (approval,) = make_waiting(make_thread(owner=alice, **more), alice, *calls)
        return approval

    return ask


@pytest.fixture
def certificate(tmp_path, monkeypatch) -> ssl.SSLContext:
    """Of this machine, and trusted."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    here = x509.IPAddress(IPv4Address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(timezone.now() - timedelta(days=1))
        .not_valid_after(timezone.now() + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([here]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "trusted").write_bytes(pem)
    (tmp_path / "own").write_bytes(pem + private)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "own")
    return context


def due_now() -> None:
    """Rests and leases are over."""
    Delivery.objects.filter(status=Status.QUEUED).update(next_at=ClockTimestamp())


def statuses() -> list[str]:
    return sorted(Delivery.objects.values_list("status", flat=True))


# Webhooks


def test_the_signature_is_that_of_the_specification():
    """The example of Standard Webhooks' own documentation."""
    made = webhook.signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1614265330,
        body=b'{"test": 2432232314}',
    )
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_request_is_told_when_it_is_asked_decided_and_run(
    hook, receiver, begin, server, work, bob
):
    _, secret = hook()
    server.will_call("c1", "book", item="TP 209", price="1200")
    server.will_say("Booked.")
    run = begin()
    work()
    (approval,) = pending(run)
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    assert send.work_off() == 3
    assert [came.said["type"] for came in receiver.came] == [
        *("approval.asked", "approval.decided", "approval.executed"),
    ]
    assert [came.said["data"]["status"] for came in receiver.came] == [
        *("pending", "approved", "succeeded"),
    ]
    for came in receiver.came:
        assert came.path == "/in?to=ops"
        assert came.is_signed_with(secret)
        assert not came.is_signed_with(webhook.new_secret())
        assert abs(int(came.headers["webhook-timestamp"]) - time.time()) < 300
        data = came.said["data"]
        assert data["approval"] == str(approval.pk)
        assert (data["tool"], data["risk"]) == ("book", approval.risk)
        assert data["url"] == f"https://holdpoint.example/inbox/{approval.pk}/"
        assert b"TP 209" not in came.body
        assert b"1200" not in came.body
    assert len({came.id for came in receiver.came}) == 3
    assert send.work_off() == 0


def test_nobody_is_told_twice_of_one_revision(hook, ask):
    hook()
    approval = ask()
    with transaction.atomic():
        outbox.queue(approval, "asked")
    assert Delivery.objects.count() == 1
    approval.revision += 1
    approval.save(update_fields=["revision"])
    with transaction.atomic():
        outbox.queue(approval, "asked")
    assert Delivery.objects.count() == 2


def test_each_step_of_an_escalation_is_told_once(hook, ask):
    hook()
    approval = ask()
    for level in (1, 2, 2):
        Approval.objects.filter(pk=approval.pk).update(level=level)
        with transaction.atomic():
            outbox.queue(approval, "escalated")
    told = Delivery.objects.filter(event="escalated").values_list("level", flat=True)
    assert sorted(told) == [1, 2]


def test_what_is_rolled_back_is_not_told(hook, make_thread, alice):
    hook()
    branch = make_thread(owner=alice)
    with transaction.atomic():
        make_waiting(branch, alice)
        assert Delivery.objects.exists()
        transaction.set_rollback(True)
    assert not Delivery.objects.exists()


def test_a_try_that_failed_is_repeated_later_under_the_same_id(hook, receiver, ask):
    hook()
    ask()
    receiver.answers = [500, 302, 204]
    for expected in (0, 0, 1):
        before = Delivery.objects.get()
        assert send.work_off() == expected
        after = Delivery.objects.get()
        assert after.attempts == before.attempts + 1
        assert send.work_off() == 0  # not due
        due_now()
    assert len({came.id for came in receiver.came}) == 1
    assert len(receiver.came) == 3  # nobody followed the redirect
    assert {came.path for came in receiver.came} == {"/in?to=ops"}
    assert statuses() == [Status.SENT]


def test_rests_grow_to_about_a_day_then_it_is_undelivered(hook, receiver, ask):
    hook()
    approval = ask()
    receiver.answers = [503] * send.TRIES
    rests = []
    for _ in range(send.TRIES):
        due_now()
        send.work_off()
        row = Delivery.objects.get()
        rests.append(row.next_at - row.created_at)
    assert rests[: len(send.BACKOFF)] == sorted(rests[: len(send.BACKOFF)])
    assert timedelta(hours=20) < sum(send.BACKOFF, timedelta()) < timedelta(hours=30)
    assert (row.status, row.error_class) == (Status.UNDELIVERED, "http_503")
    event = AuditEvent.objects.get(action="deliver", object_id=approval.pk)
    assert (event.outcome, event.detail["error"]) == ("undelivered", "http_503")
    due_now()
    assert send.work_off() == 0
    assert len(receiver.came) == send.TRIES == 8


def test_who_is_gone_for_good_is_not_asked_again(hook, receiver, ask):
    hook()
    ask()
    receiver.answers = [410]
    send.work_off()
    assert statuses() == [Status.UNDELIVERED]


def test_an_admin_tries_again_or_leaves_it(hook, receiver, ask, admin, alice):
    hook()
    ask()
    receiver.answers = [410, 410]
    send.work_off()
    (pk,) = Delivery.objects.values_list("pk", flat=True)
    with pytest.raises(NotPermitted):
        channels.retry(pk, by=alice)
    assert channels.retry(pk, by=admin)
    assert not channels.retry(pk, by=admin)
    send.work_off()
    assert channels.leave(pk, by=admin)
    assert statuses() == [Status.SKIPPED]
    receiver.answers = []
    assert send.work_off() == 0


def test_what_is_over_is_forgotten_after_a_month(hook, ask):
    hook(address="https://ops.example/in")
    rows = {}
    for status in Status.values:
        for days in (29, 31):
            ask()
            told = Delivery.objects.latest("created_at")
            made = timezone.now() - timedelta(days=days)
            with as_owner():  # its id says when it was made
                Delivery.objects.filter(pk=told.pk).update(
                    id=first_at(made), status=status, created_at=made
                )
            rows[status, days] = first_at(made)
    ask()
    late = Delivery.objects.get(created_at__gt=timezone.now() - timedelta(days=1))
    made = timezone.now() - timedelta(days=32)
    with as_owner():
        Delivery.objects.filter(pk=late.pk).update(
            id=first_at(made), status=Status.SENT, sent_at=timezone.now()
        )
    now = iter([0.0, 60.0, 60.0])
    tidy = [duty for duty in DUTIES if duty.name == "deliveries"]
    assert Housekeeper(tidy, clock=lambda: next(now, 60.0)).turn() == ["deliveries"]
    gone = {(Status.SENT, 31), (Status.SKIPPED, 31)}
    assert set(Delivery.objects.values_list("pk", flat=True)) == {
        *(pk for of, pk in rows.items() if of not in gone),
        first_at(made),  # sent a moment ago, though it was made long before
    }


def test_a_channel_that_hangs_holds_up_no_other(hook, receiver, ask, monkeypatch):
    monkeypatch.setattr(webhook, "SECONDS", 0.2)
    with raw(b"", hold=True) as nowhere:
        hook("slow", address=nowhere)
        hook("quick")
        for _ in range(3):
            ask()
        began = time.monotonic()
        assert send.work_off() == 3
        assert len(receiver.came) == 3
        # One of the slow channel's was tried in this turn.
        tried = Delivery.objects.exclude(error_class="")
        assert [row.error_class for row in tried] == ["timeout"]
        assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "no_answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "no_answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"a" * 100_000 + b"\r\n\r\n", "no_answer"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "http_404"),
    ],
)
def test_what_answers_oddly(answer, code):
    with raw(answer) as url, pytest.raises(NotDelivered) as told:
        webhook.post(url, secret=webhook.new_secret(), message_id="m", body=b"{}")
    assert told.value.code == code


def test_a_handshake_drawn_out_is_cut(certificate):
    """Else whoever is slow with it could be slow without end after it."""
    began, time_is_up = threading.Event(), threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = listener.accept()
        peer.recv(1, socket.MSG_PEEK)  # the handshake has begun
        began.set()
        time_is_up.wait()
        with suppress(OSError), certificate.wrap_socket(peer, server_side=True) as tls:
            tls.recv(1)

    target = address.target_of(f"https://127.0.0.1:{listener.getsockname()[1]}/")
    connection = webhook._Connection(target, "127.0.0.1")

    def cut() -> None:
        began.wait()
        connection.cut()
        time_is_up.set()

    others = [threading.Thread(target=each, daemon=True) for each in (serve, cut)]
    for each in others:
        each.start()
    with listener, pytest.raises(TimeoutError):
        connection.connect()
    connection.close()
    for each in others:
        each.join()


def test_of_a_long_answer_nothing_but_its_status_is_read():
    with raw(
        b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\nx", hold=True
    ) as url:
        webhook.post(url, secret=webhook.new_secret(), message_id="m", body=b"{}")


# Where it may not go


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "http://127.0.0.1:1/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://name:word@example.com/",
        "https:///path",
        "https://example.com/\r\nX: y",
        "https://exämple.com/",
        "https://example.com:99999/",
        "//example.com/",
        "",
    ],
)
def test_what_is_no_address_of_a_webhook(url, settings, admin):
    settings.LOCAL = False
    draft = channels.Draft(kind="webhook", name="x", address=url, events=["asked"])
    with as_owner(), pytest.raises(channels.ChannelRefused) as told:
        channels.make(draft, by=admin)
    assert list(told.value.fields) == ["address"]


@pytest.mark.parametrize(
    "ip",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254"),
        *("0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255", "::", "::1"),  # noqa: S104
        *("fe80::1", "fc00::1", "ff02::1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"),
        *("64:ff9b::a00:1", "2002:a00:1::", "fe80::1%eth0", "no address"),
        *("fec0::1", "::7f00:1", "64:ff9b:1::a00:1"),
    ],
)
def test_private_addresses_are_not_gone_to(ip, settings):
    settings.WEBHOOK_PRIVATE_ADDRESSES = False
    assert not address.is_allowed(ip)


@pytest.mark.parametrize("ip", ["1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1"])
def test_public_addresses_are(ip, settings):
    settings.WEBHOOK_PRIVATE_ADDRESSES = False
    assert address.is_allowed(ip)


def test_a_name_that_leads_inside_is_not_followed(hook, receiver, ask, settings):
    """`localhost` stands for any name that somebody points at a private address."""
    settings.WEBHOOK_PRIVATE_ADDRESSES = False
    port = receiver.address.rpartition(":")[2]
    hook(address=f"http://localhost:{port}/")
    ask()
    send.work_off()
    row = Delivery.objects.get()
    assert (row.status, row.error_class) == (Status.UNDELIVERED, "private_address")
    assert not receiver.came


# E-mail


def test_a_mailbox_is_told_in_plain_text_with_a_link(mailbox, office, ask):
    mailbox()
    approval = ask()
    assert send.work_off() == 1
    (mail,) = office.came
    assert office.to == ["desk@acme.example"]
    assert mail.get_content_type() == "text/plain"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert str(Delivery.objects.get().pk) in mail["Message-ID"]
    assert mail["Subject"] == f"[Holdpoint] {approval}: book waits for a decision"
    text = mail.get_content()
    assert f"https://holdpoint.example/inbox/{approval.pk}/" in text
    assert "high" in text
    assert "TP 209" not in mail.as_string()


def test_those_who_may_decide_are_told_at_their_own_address(
    mailbox, office, ask, join, alice, bob, omar, auditor, workspace
):
    mailbox(address="")
    with as_owner():
        for person in (alice, bob, omar, auditor):
            name = User.objects.get(pk=person.user_id).username
            User.objects.filter(pk=person.user_id).update(email=f"{name}@acme.example")
    ask()
    assert send.work_off() == 2
    assert sorted(office.to) == ["alice@acme.example", "bob@acme.example"]
    # A question is for those who operate, too.
    ask(("ask_traveller", {"question": "When?"}))
    assert send.work_off() == 3
    # What only its owner sees is told to nobody else.
    office.to.clear()
    ask(visibility="private")
    assert send.work_off() == 1
    assert office.to == ["alice@acme.example"]


def test_a_request_to_a_group_is_told_to_its_members(
    mailbox, hook, receiver, office, ask, alice, bob, workspace
):
    mailbox(address="")
    with as_owner():
        group = Group.objects.create(workspace=workspace, name="Finance")
        other = Group.objects.create(workspace=workspace, name="Sales")
        group.members.add(Membership.objects.get(user_id=bob.user_id))
        User.objects.filter(pk=alice.user_id).update(email="alice@acme.example")
        User.objects.filter(pk=bob.user_id).update(email="bob@acme.example")
    hook("finance", groups=[str(group.pk)])
    hook("sales", groups=[str(other.pk)])
    approval = ask()
    Delivery.objects.all().update(status=Status.SKIPPED)
    terms = {
        "groups": [str(group.pk)],
        "escalation": [{"after": 1, "group": str(other.pk)}],
    }
    Approval.objects.filter(pk=approval.pk).update(terms=terms, revision=2)
    with transaction.atomic():
        outbox.queue(approval, "asked")
    send.work_off()
    assert office.to == ["bob@acme.example"]
    assert len(receiver.came) == 1
    Approval.objects.filter(pk=approval.pk).update(level=1)
    with transaction.atomic():
        outbox.queue(approval, "escalated")
    told = Delivery.objects.filter(event="escalated")
    assert [row.channel.name for row in told] == ["sales"]


def test_a_step_that_names_a_person_tells_them_alone(
    mailbox, office, ask, alice, bob, workspace
):
    mailbox(address="")
    with as_owner():
        User.objects.filter(pk=alice.user_id).update(email="alice@acme.example")
        User.objects.filter(pk=bob.user_id).update(email="bob@acme.example")
    approval = ask()
    Delivery.objects.all().update(status=Status.SKIPPED)
    terms = {"escalation": [{"after": 1, "person": bob.user_id}]}
    Approval.objects.filter(pk=approval.pk).update(terms=terms, level=1)
    with transaction.atomic():
        outbox.queue(approval, "escalated")
    send.work_off()
    assert office.to == ["bob@acme.example"]


def asked_again(hook: Any, ask: Any, workspace: Any, *people: Any) -> Approval:
    """A request to Finance, and since its escalation to Sales, told of once already."""
    with as_owner():
        groups = [
            Group.objects.create(workspace=workspace, name=name)
            for name in ("Finance", "Sales", "Legal")
        ]
        for person in people:
            groups[0].members.add(Membership.objects.get(user_id=person.user_id))
    for group in groups:
        hook(group.name, groups=[str(group.pk)])
    approval = ask()
    terms = Terms(
        approvers=2,
        groups=(str(groups[0].pk),),
        escalation=(
            Step(after=60, group=str(groups[1].pk)),
            Step(after=90, group=str(groups[2].pk)),
        ),
        grace=60,
    )
    Approval.objects.update(terms=terms.as_json(), approvers=2, level=1)
    Delivery.objects.all().delete()
    approval.refresh_from_db()
    return approval


def told_again() -> list[tuple[str, str, int]]:
    rows = Delivery.objects.select_related("channel").order_by("channel__name")
    return [(row.event, row.channel.name, row.revision) for row in rows]


AGAIN = [("asked", "Finance", 2), ("asked", "Sales", 2)]


def test_an_edit_that_dismisses_approvals_tells_those_who_are_asked(
    hook, ask, workspace, alice, bob
):
    """What was queued of the revision before is not sent any more."""
    approval = asked_again(hook, ask, workspace, alice, bob)
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    arguments = {**GOOD, "price": "1100.00"}
    decide.edit(approval, seen=approval.as_shown(), by=alice, arguments=arguments)
    assert told_again() == AGAIN


def test_an_approval_that_is_withdrawn_tells_those_who_are_asked(
    hook, ask, workspace, alice, bob
):
    approval = asked_again(hook, ask, workspace, alice, bob)
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    undo(approval, bob)
    assert told_again() == AGAIN


def test_a_decision_that_is_taken_back_tells_those_who_are_asked(
    hook, ask, workspace, bob
):
    approval = asked_again(hook, ask, workspace, bob)
    decide.reject(approval, seen=approval.as_shown(), by=bob, reason="Too dear.")
    Delivery.objects.all().delete()  # of the rejection
    undo(approval, bob)
    assert told_again() == AGAIN


def test_a_deadline_that_takes_every_step_tells_each_of_their_groups(
    hook, ask, workspace
):
    with as_owner():
        names = ("Finance", "Sales", "Board")
        groups = [
            Group.objects.create(workspace=workspace, name=name) for name in names
        ]
    for group in groups:
        hook(group.name, groups=[str(group.pk)])
    steps = [
        {"after": 3600 * n, "group": str(one.pk)} for n, one in enumerate(groups, 2)
    ]
    terms = {"deadline": 60, "then": "escalate", "escalation": steps}
    past = ClockTimestamp() - timedelta(seconds=1)
    Approval.objects.filter(pk=ask().pk).update(terms=terms, due_at=past)
    with as_owner():
        for group in groups:
            group.members.set(Membership.objects.filter(can_approve=True))
    assert reaper.sweep().expired == 1
    told = Delivery.objects.filter(event="escalated").order_by("level")
    assert [row.channel.name for row in told] == ["Finance", "Sales", "Board"]


def test_what_is_due_is_looked_for_in_its_index():
    """However many messages rest between two tries."""
    looked_for = send._CLAIM._sql.partition("SELECT")[2].partition("FOR UPDATE")[0]
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        listed = looked_for.replace("$2", "'{}'").replace("$1", "60")
        cursor.execute(f"EXPLAIN SELECT {listed}")
        plan = " ".join(line for (line,) in cursor.fetchall())
        cursor.execute("RESET enable_seqscan")
    assert "delivery_due" in plan
    assert "Index Cond: (next_at" in plan


def test_private_threads_are_told_to_no_address(hook, receiver, ask):
    hook()
    ask(visibility="private")
    assert not Delivery.objects.exists()


@pytest.mark.parametrize(
    "gone",
    [
        lambda person: Membership.objects.filter(user_id=person).delete(),
        lambda person: Membership.objects.filter(user_id=person).update(role="auditor"),
        lambda person: User.objects.filter(pk=person).update(is_active=False),
        lambda person: Thread.objects.update(visibility="private"),
    ],
    ids=["left", "reads the log only", "switched off", "made private"],
)
def test_who_may_see_it_no_more_is_not_told(
    mailbox, hook, office, receiver, ask, bob, gone
):
    """A message waits up to a day, and a title may be in it."""
    mailbox(address="", include_title=True)
    mailbox("list", include_title=True)
    hook(include_title=True)
    with as_owner():
        User.objects.filter(pk=bob.user_id).update(email="bob@acme.example")
    ask()
    with as_owner():
        gone(bob.user_id)
    send.work_off()
    to_all = Thread.objects.get().visibility == "workspace"
    assert office.to == ["desk@acme.example"] * to_all
    assert len(receiver.came) == to_all
    row = Delivery.objects.get(recipient=bob.user_id)
    assert (row.status, row.error_class) == (Status.SKIPPED, "not_theirs")


def test_a_mail_that_came_too_late_is_not_sent(
    mailbox, office, hook, receiver, ask, bob
):
    mailbox(events=["asked"])
    hook(events=["asked"])
    approval = ask()
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    send.work_off()
    assert not office.came
    assert len(receiver.came) == 1  # programs are told everything
    assert statuses() == [Status.SENT, Status.SKIPPED]


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        ("450 later", Status.QUEUED, "smtp_450"),
        ("550 no such box", Status.UNDELIVERED, "smtp_550"),
    ],
)
def test_what_a_mail_server_refuses(mailbox, office, ask, answer, status, code):
    mailbox()
    ask()
    office.answers = [answer]
    send.work_off()
    row = Delivery.objects.get()
    assert (row.status, row.error_class) == (status, code)


def test_without_a_mail_server_it_says_so(mailbox, settings, ask):
    mailbox()
    settings.EMAIL_BACKEND = ""
    ask()
    send.work_off()
    assert Delivery.objects.get().error_class == "no_mail_server"


# Foreign text


HOSTILE = (
    "x\r\nBcc: eve@evil.example\r\n\r\n<script>alert(1)</script> "
    "![a](https://evil.example/p.png) \u202egnp.exe www.evil.example \u200bpay"
)


@pytest.mark.parametrize("include", [False, True])
def test_hostile_titles(mailbox, hook, office, receiver, ask, include):
    mailbox(include_title=include)
    hook(include_title=include)
    ask(("book", {"flight": HOSTILE, "price": "1200"}))
    assert send.work_off() == 2
    (mail,), (came,) = office.came, receiver.came
    assert office.to == ["desk@acme.example"]
    assert mail["Bcc"] is None
    told = mail.get_content() + mail["Subject"] + came.body.decode()
    assert ("alert(1)" in told) == include
    title = came.said["data"].get("title", "")
    for text in (mail.get_content(), title):
        own = text.replace("https://holdpoint.example/", "").replace("\r\n", "\n")
        assert "://" not in own
        assert not re.search(r"evil\.example", own)
        assert "](" not in own
        for hidden in "\u202e\u200b\r":
            assert hidden not in own
    openings = AuditEvent.objects.filter(action="open", purpose="deliver title")
    assert openings.count() == (2 if include else 0)


def test_the_whole_corpus_by_mail_and_webhook(mailbox, hook, office, receiver, ask):
    """Each thing is told to its end, or says where it is cut, and leads nowhere."""
    mailbox(include_title=True)
    hook(include_title=True)
    for text, _ in CORPUS.values():
        ask(("book", {"flight": f"{text} END", "price": "1200"}))
    assert send.work_off() == 2 * len(CORPUS)
    titles = [came.said["data"]["title"] for came in receiver.came]
    assert len(titles) == len(office.came) == len(CORPUS)
    bodies = [mail.get_content().replace("\r\n", "\n") for mail in office.came]
    for title in titles:
        assert "END" in title or "…" in title
        assert any(title in body for body in bodies)
    for text in [*titles, *bodies, *(mail["Subject"] for mail in office.came)]:
        own = text.replace("https://holdpoint.example/", "")
        assert not any(map(is_hidden, own)), own
        assert "://" not in own
        assert "](" not in own
        assert not re.search(r"(evil|rates|nd)\.example", own)
    assert {mail.get_content_type() for mail in office.came} == {"text/plain"}


def test_a_harmless_title_stays_as_it_is():
    title = "Book TP 209, $1,200.00 (2 seats)"
    assert message.harmless(title) == title
    assert len(message.harmless("a" * 1_000_000)) <= message.TITLE + 1


# Channels


def test_what_lies_in_the_tables_is_sealed(hook, receiver):
    channel, secret = hook()
    row = Channel.objects.get(pk=channel.pk)
    for sealed in (row.address, row.secret):
        assert receiver.address.encode() not in bytes(sealed)
        assert secret.encode() not in bytes(sealed)


def test_a_channel_is_tried_and_switched_off(hook, receiver, admin, ask):
    channel, secret = hook()
    with as_owner():
        channels.test(channel, by=admin)
    send.work_off()
    (came,) = receiver.came
    assert came.said["type"] == "test"
    assert came.is_signed_with(secret)
    ask()
    with as_owner():
        assert channels.switch(channel, on=False, by=admin)
    ask()
    send.work_off()
    assert len(receiver.came) == 1
    assert statuses() == [Status.SENT, Status.SKIPPED]


# Workers


LOCAL = {"HOLDPOINT_DEMO": "True", "WEBHOOK_PRIVATE_ADDRESSES": "True"}


def test_a_worker_that_dies_after_sending_leaves_it_to_another(
    hook, receiver, ask, workers, tmp_path
):
    _, secret = hook()
    ask()
    armed = {
        "HOLDPOINT_FAILPOINTS": "after delivery",
        "HOLDPOINT_FAILPOINTS_REACHED": str(tmp_path),
    }
    first = workers.start(1, **LOCAL, **armed)
    wait_until(lambda: (tmp_path / "after delivery").exists())
    wait_until(lambda: len(receiver.came) == 1)
    assert statuses() == [Status.QUEUED]
    due_now()
    wait_until(lambda: statuses() == [Status.SENT])
    one, two = receiver.came
    assert one.id == two.id
    assert one.said == two.said
    assert two.is_signed_with(secret)
    assert first.poll() is None  # the supervisor replaced its child


def test_a_lost_ring_loses_nothing(hook, receiver, ask, workers):
    hook()
    ask()
    workers.forget_rings()
    workers.start(1, **LOCAL)
    wait_until(lambda: statuses() == [Status.SENT])
    assert len(receiver.came) == 1


def test_a_ring_names_one_function_and_wakes_whoever_delivers(hook, ask):
    hook()
    approval = ask()
    heard: list[str] = []
    queue.listen(
        lambda run: None,
        name="listener",
        stopping=lambda: False,
        burst=True,
        deliver=heard.append,
    )
    assert heard == [str(approval.pk)]


def test_workers_at_once_send_each_message_once(hook, receiver, ask, workers):
    hook()
    for _ in range(20):
        ask()
    workers.start(3, **LOCAL)
    wait_until(lambda: statuses() == [Status.SENT] * 20)
    assert len({came.id for came in receiver.came}) == len(receiver.came) == 20


def test_a_title_says_what_would_run(mailbox, hook, office, receiver, ask, bob):
    """Not what the agent proposed, where a person put other arguments in its place."""
    hook(include_title=True, events=["decided"])
    mailbox(include_title=True, events=["decided"])
    approval = ask()
    dearer = {"flight": "TP 210", "price": "1300.00"}
    decide.edit(approval, seen=approval.as_shown(), by=bob, arguments=dearer)
    assert send.work_off() == 2
    (mail,), (came,) = office.came, receiver.came
    assert came.said["data"]["title"] == "Book TP 210, 1,300.00"
    assert "Book TP 210, 1,300.00" in mail.get_content()
    assert "TP 209" not in mail.get_content() + came.body.decode()


# A name server that says nothing


def test_a_name_server_that_says_nothing_is_waited_for_so_long(settings):
    settings.WEBHOOK_PRIVATE_ADDRESSES = False
    target = address.target_of("https://slow.example/in")
    answers, asked = threading.Event(), threading.Semaphore(0)

    def slow(host: str, port: int, **kind: Any) -> list[Any]:
        asked.release()
        assert answers.wait(60)
        return [(2, 1, 6, "", ("93.184.216.34", port))]

    try:
        for _ in range(address.LOOKUPS):
            with pytest.raises(NotDelivered, match="lookup_timeout"):
                address.resolve(target, seconds=0.05, ask=slow)
            assert asked.acquire(timeout=10)
        # So many wait for it: no other one is begun.
        with pytest.raises(NotDelivered, match="lookup_timeout"):
            address.resolve(target, seconds=0.05, ask=slow)
        assert not asked.acquire(blocking=False)
    finally:
        answers.set()
    found = address.resolve(target, seconds=30, ask=slow)
    assert found == "93.184.216.34"


def test_a_name_that_nobody_knows(settings):
    def unknown(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror

    target = address.target_of("https://nowhere.example/in")
    with pytest.raises(NotDelivered, match="unknown_host"):
        address.resolve(target, ask=unknown)
