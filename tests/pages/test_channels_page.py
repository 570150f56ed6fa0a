"""The Channels page, and what is counted where messages did not get through."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from agents.delivery import channels
from agents.models import Approval, Channel, Delivery
from checkpoints.access import Reason, Role, unscoped
from checkpoints.models import AuditEvent
from tests.agents.waiting import make_waiting

NEW = {
    "do": "make",
    "kind": "webhook",
    "name": "ops",
    "address": "https://ops.example/in",
    "events": ["asked", "decided"],
}


@pytest.fixture(autouse=True)
def everything_visible():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def ada(join):
    return join("ada", Role.ADMIN, can_approve=True)


@pytest.fixture
def admin(browser, ada) -> Client:
    return browser(ada)


@pytest.fixture
def failed(ada, make_thread, alice):
    """A message about a request, that was given up."""

    def failed(**more) -> Delivery:
        channel = (
            Channel.objects.filter(name="ops").first()
            or channels.make(
                channels.Draft("webhook", "ops", "https://ops.example/", ["asked"]),
                by=ada,
            )[0]
        )
        (approval,) = make_waiting(make_thread(owner=alice, **more), alice)
        delivery, _ = Delivery.objects.get_or_create(
            workspace_id=ada.workspace_id,
            channel=channel,
            approval=approval,
            event="asked",
            revision=1,
        )
        delivery.status = Delivery.Status.UNDELIVERED
        delivery.error_class = "http_503"
        delivery.save()
        return delivery

    return failed


def page(client: Client, path: str = "/channels/") -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_webhook_is_made_and_its_secret_shown_once(admin):
    answer = admin.post("/channels/", NEW)
    text = answer.content.decode()
    secret = text.partition('id="secret" hx-ignore>')[2].partition("<")[0]
    assert secret.startswith("whsec_")
    again = page(admin)
    assert secret not in again
    assert "https://ops.example/in" in again
    channel = Channel.objects.get()
    assert (channel.events, channel.include_title) == (["asked", "decided"], False)
    event = AuditEvent.objects.get(action="channel_make")
    assert event.object_id == channel.pk
    assert "ops" not in str(event.detail)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"name": ""}, "Give the channel a name"),
        ({"address": ""}, "An address begins with https://"),
        ({"address": "http://ops.example/"}, "Only https:// addresses"),
        ({"kind": "email"}, "This is no e-mail address"),
        ({"events": []}, "Choose at least one"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_said_and_what_was_typed_is_kept(admin, more, said):
    answer = admin.post("/channels/", NEW | more)
    assert answer.status_code == 422
    text = answer.content.decode()
    assert said in text
    assert f'value="{(NEW | more)["address"]}"' in text
    assert not Channel.objects.exists()


def test_a_name_is_given_once(admin):
    admin.post("/channels/", NEW)
    answer = admin.post("/channels/", NEW)
    assert answer.status_code == 422
    assert "There is a channel of this name already" in answer.content.decode()


def test_it_is_tried_and_switched(admin):
    admin.post("/channels/", NEW)
    channel = Channel.objects.get()
    admin.post("/channels/", {"do": "test", "id": channel.pk})
    assert Delivery.objects.get().event == "test"
    assert "Switch off" in page(admin)
    for do, active in (("off", False), ("off", False), ("on", True)):
        admin.post("/channels/", {"do": do, "id": channel.pk})
        channel.refresh_from_db()
        assert channel.active is active
    actions = AuditEvent.objects.filter(action__startswith="channel_")
    assert list(actions.order_by("position").values_list("action", flat=True)) == [
        *("channel_make", "channel_test", "channel_off", "channel_on"),
    ]


def test_what_was_given_up_is_counted_until_it_is_dealt_with(
    admin, browser, alice, failed
):
    one, two = failed(), failed()
    for client, path in ((admin, "/inbox/"), (browser(alice), "/inbox/")):
        text = page(client, path)
        assert "2 requests were not delivered." in text
        assert "requests of which a message was not delivered" in text
    assert "http_503" in page(admin)
    admin.post("/channels/", {"do": "retry", "id": one.pk})
    assert "1 request was not delivered." in page(admin, "/inbox/")
    admin.post("/channels/", {"do": "leave", "id": two.pk})
    assert "not delivered" not in page(admin, "/inbox/")
    one.refresh_from_db()
    assert (one.status, one.attempts) == ("queued", 0)


def test_who_does_not_see_the_request_does_not_count_it(browser, bob, failed):
    failed(visibility="private")
    assert "not delivered" not in page(browser(bob), "/inbox/")


def test_requests_that_nobody_decided_in_time_are_counted_for_a_week(
    browser, alice, make_thread
):
    for days in (1, 8):
        (approval,) = make_waiting(make_thread(owner=alice), alice)
        Approval.objects.filter(pk=approval.pk).update(
            status="expired", due_at=timezone.now() - timedelta(days=days)
        )
    text = page(browser(alice), "/threads/")
    assert "request undecided in the last week" in text


def test_probes_count_what_was_not_delivered(client, failed, settings):
    failed()
    found = client.get("/readyz").json()
    assert found["deliveries"]["undelivered"] == 1
    assert found["expired_undecided"] == 0
    settings.METRICS_TOKEN = "t"
    text = client.get(
        "/metrics", headers={"Authorization": "Bearer t"}
    ).content.decode()
    assert "holdpoint_deliveries_undelivered 1\n" in text
    assert "holdpoint_approvals_expired_7d 0\n" in text


def test_another_workspaces_channel_is_not_there(admin, browser, other):
    admin.post("/channels/", NEW)
    channel = Channel.objects.get()
    for do in ("test", "off"):
        answer = browser(other).post("/channels/", {"do": do, "id": channel.pk})
        assert answer.status_code == 404
    assert not Delivery.objects.exists()
