"""The admin's page of keys: ages, counts, what to do; metadata only, few queries."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from checkpoints import clock
from checkpoints.access import Reason
from checkpoints.keys import hierarchy, rewrap, rotation
from checkpoints.models import DataKey, WorkspaceKey
from tests.conftest import make_workspace

OLD, NEW = (hashlib.sha256(name).digest() for name in (b"old", b"new"))


@pytest.fixture
def operator(client, db):
    user = User.objects.create_superuser("root", password="root")
    client.force_login(user)
    return client


def text(answer) -> str:
    return re.sub(
        r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", answer.content.decode()))
    )


def page(client) -> str:
    answer = client.get(reverse("admin:checkpoints_keys"))
    assert answer.status_code == 200
    return text(answer)


def test_it_shows_ages_and_counts_and_no_key(operator, workspace, make_thread, bob):
    make_thread()
    gone = make_thread()
    rotation.rotate_threads(clock.now())
    hierarchy.destroy_thread_keys(gone.thread_id, by_id=bob.user_id)
    WorkspaceKey.objects.unscoped(Reason.TEST).update(
        created_at=clock.now() - timedelta(days=400)
    )
    shown = page(operator)
    assert "kek:keyring:demo:1 (current) 1" in shown
    assert "Acme v1, 400 days old kek:keyring:demo:1" in shown
    assert "data v1: 1 data v2: 1" in shown
    assert re.search(r"mac v1: 1 \d{4}-\d\d-\d\d 3", shown)  # destroyed
    assert "Its key is 400 days old: manage.py keys rotate-workspace acme." in shown
    for row in DataKey.objects.unscoped(Reason.TEST).exclude(wrapped=None):
        assert bytes(row.wrapped or b"").hex() not in shown


def test_it_says_what_ought_to_be_done(operator, settings):
    settings.KEY_ENCRYPTION_KEYS = {"old": OLD}
    made = make_workspace("acme")
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW, "old": OLD}
    hierarchy.forget()
    assert "Wrap it with the current key: manage.py keys rotate-kek." in page(operator)
    rewrap.rewrap()
    rotation._replace_workspace_key(made, clock.now(), "command", None)
    shown = page(operator)
    assert "3 data keys wait for the newest workspace key" in shown
    settings.KEY_ENCRYPTION_KEYS = {"other": OLD}
    assert "is not in KEY_ENCRYPTION_KEYS" in page(operator)


def test_the_queries_do_not_grow_with_the_keys(operator, workspace, make_thread):
    def count() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            page(operator)
        return len(seen)

    make_thread()
    few = count()
    for number in range(3):
        make_thread(workspace=make_workspace(f"w{number}"))
        make_thread()
    assert count() == few


def test_the_index_and_the_list_of_workspace_keys_lead_there(operator, workspace):
    address = reverse("admin:checkpoints_keys")
    for place in ("admin:index", "admin:checkpoints_workspacekey_changelist"):
        assert f'href="{address}"' in operator.get(reverse(place)).content.decode()


def test_it_is_for_staff_who_may_see_keys(client, alice, workspace):
    address = reverse("admin:checkpoints_keys")
    person = User.objects.get(pk=alice.user_id)
    client.force_login(person)
    assert client.get(address).status_code == 302  # to sign in as staff
    person.is_staff = True
    person.save()
    assert client.get(address).status_code == 403
    person.user_permissions.add(Permission.objects.get(codename="view_workspacekey"))
    assert client.get(address).status_code == 200
