"""The admin: metadata of every row, history read-only, nothing sealed in sight."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.db.models import BinaryField, Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from agents.debug import remarks
from agents.models import (
    ApprovalNote,
    Channel,
    Decision,
    Delivery,
    Policy,
    PolicyUse,
    Price,
    Run,
    Snooze,
    StickyRule,
    ToolCall,
    Worker,
)
from agents.runs import searched
from checkpoints import audit, entries, gate, tokens
from checkpoints.access import Reason, Role, unscoped
from checkpoints.admin.base import ReadOnlyAdmin, ScopedAdmin
from checkpoints.ids import uuid7
from checkpoints.keys import hierarchy
from checkpoints.models import (
    Archive,
    AuditEvent,
    AuditLink,
    Blob,
    Branch,
    DataKey,
    Deletion,
    EntryVector,
    Group,
    Membership,
    RetentionPolicy,
    RetentionTask,
    Segment,
    SignInFailures,
    Thread,
    ThreadInput,
    Workspace,
    WorkspaceKey,
)
from checkpoints.pure.names import Name
from tests.pages.conftest import ASKED, SYSTEM
from tests.pages.test_sweep import on_board

OURS = [
    model
    for app in ("checkpoints", "agents")
    for model in apps.get_app_config(app).get_models()
]
HISTORY = [m for m in OURS if isinstance(admin.site._registry.get(m), ReadOnlyAdmin)]
SECRETS = [
    *(line for text in (SYSTEM, ASKED) for line in text.splitlines()),
    "Board week",
    "TP 209",
    "cheaper-model",
    "Changed model",
    "pineapple",  # in what `rows` adds
]


@pytest.fixture
def rows(trip, make_trip, alice, viewer, other, workspace) -> None:
    """At least one row of each model in each of two workspaces."""
    with unscoped(Reason.TEST):
        add_to(trip, alice)
        rival = Workspace.objects.get(pk=other.workspace_id)
        add_to(make_trip(other, workspace=rival), other)


def add_to(trip: Any, person: Any) -> None:
    decision = Decision(
        workspace_id=person.workspace_id,
        thread=trip.thread,
        approval=trip.approval,
        revision=1,
        verdict="reject",
        by_id=person.user_id,
        role=person.role,
        digest=b"d" * 32,
        mac=b"m" * 32,
    )
    decision.content = gate.seal(decision, "content", {"reason": "pineapple"})
    decision.save()
    said = ThreadInput(
        workspace_id=person.workspace_id,
        thread=trip.thread,
        branch=trip.branch,
        author_id=person.user_id,
    )
    said.content = gate.seal(said, "content", "pineapple")
    said.save()
    searched.store(trip.branch, {"fruit": "pineapple"})
    call = trip.calls["book"]
    call.result = gate.seal(call, "result", "pineapple")
    call.reason = gate.seal(call, "reason", "pineapple")
    call.save()
    trip.run.error = gate.seal(trip.run, "error", "pineapple")
    trip.run.save()
    member = Membership.objects.get(
        user_id=person.user_id, workspace_id=person.workspace_id
    )
    group = Group.objects.create(workspace_id=person.workspace_id, name="Desk")
    group.members.add(member)
    tokens.make(person.workspace_id, name="nightly", scopes=["read"], by=None)
    audit.record(person, "test", obj=trip.thread)
    remarks.label(remarks.About(trip.thread), person, text="pineapple")
    ask_around(trip, person)
    keep(trip, person)


def ask_around(trip: Any, person: Any) -> None:
    """Rows of who looks after requests, and by which rules."""
    here = {"workspace_id": person.workspace_id}
    agent = trip.run.agent_version.agent
    Policy.objects.create(**here, agent=agent, version=1, rules=[])
    used = PolicyUse(**here, window="w" * 64, call=trip.calls["book"])
    used.amount = gate.seal(used, "amount", "pineapple")
    used.save()
    asked = {**here, "thread": trip.thread, "approval": trip.approval}
    sticky = StickyRule(
        **asked,
        agent=agent,
        run=trip.run,
        tool="book",
        scope=StickyRule.Scope.AGENT,
        made_by_id=person.user_id,
        expires_at=timezone.now(),
    )
    sticky.predicate = gate.seal(sticky, "predicate", "pineapple")
    sticky.save()
    note = ApprovalNote(**asked, by_id=person.user_id)
    note.text = gate.seal(note, "text", "pineapple")
    note.save()
    Snooze.objects.create(**asked, by_id=person.user_id, until=timezone.now())
    channel = Channel(**here, kind=Channel.Kind.WEBHOOK, name="ops", events=["asked"])
    channel.address = gate.seal(channel, "address", "https://pineapple.example/")
    channel.secret = gate.seal(channel, "secret", "pineapple")
    channel.save()
    Delivery.objects.create(
        **here, channel=channel, approval=trip.approval, event="asked"
    )


def keep(trip: Any, person: Any) -> None:
    """Rows of what looks after the log: packing, chaining, keeping, removing."""
    here = {"workspace_id": person.workspace_id, "thread": trip.thread}
    key = uuid7()
    segment = Segment(
        **here, branch=trip.branch, first_step=900, last_step=901, data_key=key
    )
    segment.record = gate.seal(segment, "record", "pineapple")
    segment.save()
    stored = {"store": "local", "digest": b"d" * 32}
    Blob.objects.create(
        **here,
        **stored,
        object_name=f"blob-{key}",
        size=9,
        stored_size=105,
        media_type="text/plain",
        data_key=key,
    )
    policy = RetentionPolicy.objects.create(workspace_id=person.workspace_id)
    Archive.objects.create(
        **here, **stored, object_name=f"archive-{key}", policy=policy
    )
    asked = RetentionTask(**here, what=RetentionTask.What.ARCHIVE, by_id=person.user_id)
    asked.reason = gate.seal(asked, "reason", "pineapple")
    asked.save()
    gone = Deletion(**here, what=Deletion.What.ARCHIVED, policy=policy)
    gone.reason = gate.seal(gone, "reason", "pineapple")
    gone.save()
    kept = Name(("fruit", "pineapple"), str(key))
    put = entries.put(person, entries.Scope.WORKSPACE, kept, "pineapple")
    vector = EntryVector(entry=put.entry, workspace_id=person.workspace_id)
    vector.vector = gate.seal(vector, "vector", "pineapple")
    vector.save()
    on_board(trip.run, trip.branch.pk, "pineapple")
    SignInFailures.objects.create(key=str(key), failures=3)
    Price.objects.create(model=f"model-{key}", since="2026-01-01")
    Worker.objects.create(name=str(key), host="host", pid=1, queue="agents")
    event = AuditEvent.objects.filter(workspace_id=person.workspace_id).first()
    assert event  # recorded above
    AuditLink.objects.create(
        event=event,
        workspace_id=person.workspace_id,
        number=1,
        previous=bytes(32),
        hash=b"h" * 32,
    )


@pytest.fixture
def root(db) -> Client:
    """A superuser, who is a member nowhere."""
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="root"))
    return client


@pytest.fixture
def staff(db) -> Any:
    """Signs in a member of staff with these permissions: staff("view_thread")."""

    def staff(*codenames: str) -> Client:
        person = User.objects.create_user("steve", is_staff=True)
        for codename in codenames:
            person.user_permissions.add(Permission.objects.get(codename=codename))
        client = Client()
        client.force_login(person)
        return client

    return staff


def page(model: type[Model], name: str, *args: Any) -> str:
    meta = model._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_{name}", args=args)


def all_of(model: type[Model]) -> list[Any]:
    with unscoped(Reason.TEST):
        return list(model._default_manager.all())


def text_of(response: Any) -> str:
    assert response.status_code == 200, response.status_code
    return unescape(response.content.decode())


def sealed() -> Iterator[str]:
    """Every binary value of ours, and the keys themselves, as text might show them."""
    values: list[bytes] = []
    for model in OURS:
        for row in all_of(model):
            for field in row._meta.fields:
                if isinstance(field, BinaryField):
                    values.append(bytes(field.value_from_object(row) or b""))
    with unscoped(Reason.TEST):
        for thread in Thread.objects.all():
            keys = hierarchy.thread_keys(thread.pk)
            values += [keys.data.secret, keys.mac]
    for value in values:
        if len(value) >= 16:  # less is found by chance
            yield value[:24].hex()
            yield base64.b64encode(value[:24]).decode()
            yield repr(value[:24])[2:-1]


# Looking


def test_every_model_is_registered_and_marked_read_only_but_for_people():
    assert set(OURS) <= set(admin.site._registry)
    changeable = {m.__name__ for m in set(OURS) - set(HISTORY)}
    assert changeable == {"Workspace", "Membership", "Group", "Agent", "Price"}
    unscoped = {
        m.__name__ for m in OURS if not isinstance(admin.site._registry[m], ScopedAdmin)
    }
    assert unscoped == {"Price"}  # of no workspace


def test_the_list_shows_the_rows_of_every_workspace(root, rows):
    for model in OURS:
        found = all_of(model)
        assert len(found) >= 2, model
        shown = text_of(root.get(page(model, "changelist")))
        for row in found[:50]:
            assert page(model, "change", row.pk) in shown


@pytest.mark.unmeasured
@pytest.mark.parametrize("some", [OURS[::2], OURS[1::2]], ids=["even", "odd"])
def test_every_filter_and_every_order_answers(some, root, rows):
    for model in some:
        first = page(model, "changelist")
        links = set(re.findall(r'href="(\?[^"]*)"', root.get(first).content.decode()))
        for link in links:
            url = first + unescape(link)
            assert root.get(url).status_code == 200, url


@pytest.mark.unmeasured
def test_every_search_answers(root, rows):
    numbers = ["7", "9" * 30, "7f3a APR-2001"]
    for model in OURS:
        url = page(model, "changelist")
        for words in (
            "pineapple",
            *numbers,
            "'",
            '"',
            '"a b"',
            "%",
            "\\",
            "é😀",
            "a\0b",
        ):
            assert root.get(url, {"q": words}).status_code == 200, (url, words)


def test_a_row_is_found_by_its_id_where_ids_are_searched(root, rows):
    searched = [m for m in OURS if "=id" in admin.site._registry[m].search_fields]
    assert len(searched) > 10
    for model in searched:
        one, other, *_ = all_of(model)
        shown = text_of(root.get(page(model, "changelist"), {"q": str(one.pk)}))
        assert page(model, "change", one.pk) in shown
        assert page(model, "change", other.pk) not in shown


def test_an_approval_is_found_by_the_name_that_pages_show(root, trip, make_trip, alice):
    another = make_trip(alice)
    shown = text_of(
        root.get(page(type(trip.approval), "changelist"), {"q": str(another.approval)})
    )
    assert page(type(trip.approval), "change", another.approval.pk) in shown
    assert page(type(trip.approval), "change", trip.approval.pk) not in shown


def test_every_row_has_pages_and_nothing_sealed_and_no_key_is_in_them(root, rows):
    hidden = [*SECRETS, *sealed()]
    assert len(hidden) > 100
    urls = [page(model, "changelist") for model in OURS]
    for model in OURS:
        for row in all_of(model)[:6]:
            urls += [page(model, name, row.pk) for name in ("change", "history")]
    for url in urls:
        shown = text_of(root.get(url))
        assert not [text for text in hidden if text in shown], url


def test_a_longer_list_takes_no_more_queries(root, rows, make_trip, alice):
    urls = [page(model, "changelist") for model in OURS]

    def queries(url: str) -> int:
        with CaptureQueriesContext(connection) as asked:
            root.get(url)
        return len(asked)

    for url in urls:
        root.get(url)  # content types are cached
    before = {url: queries(url) for url in urls}
    for _ in range(3):
        make_trip(alice)
    for url in urls:
        # A filter may have more to list, with the same queries.
        assert queries(url) <= min(before[url], 15), url


# Changing


def test_history_is_only_looked_at(root, rows):
    for model in HISTORY:
        row, *_ = before = all_of(model)
        assert root.get(page(model, "add")).status_code == 403
        assert root.post(page(model, "add"), {}).status_code == 403
        assert (
            root.post(page(model, "change", row.pk), {"_save": "1"}).status_code == 403
        )
        assert root.get(page(model, "delete", row.pk)).status_code == 403
        assert (
            root.post(page(model, "delete", row.pk), {"post": "yes"}).status_code == 403
        )
        root.post(
            page(model, "changelist"),
            {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"},
        )
        assert {r.pk for r in before} <= {r.pk for r in all_of(model)}
        shown = text_of(root.get(page(model, "change", row.pk)))
        assert 'name="_save"' not in shown


def events(action: str) -> list[AuditEvent]:
    with unscoped(Reason.TEST):
        return list(AuditEvent.objects.filter(action=action).order_by("position"))


def who(event: AuditEvent) -> str:
    assert event.actor
    return event.actor.username


def test_a_workspace_made_here_can_be_used_at_once(root, make_thread):
    response = root.post(page(Workspace, "add"), {"name": "New", "slug": "new"})
    assert response.status_code == 302
    made = Workspace.objects.get(slug="new")
    with unscoped(Reason.TEST):
        assert WorkspaceKey.objects.filter(workspace=made).count() == 1
        assert DataKey.objects.filter(workspace=made).count() == 3
    make_thread(workspace=made)
    [event] = events("admin_add")
    assert who(event) == "root"
    assert (event.via, event.workspace_id, event.object_id) == (
        "admin",
        made.pk,
        made.pk,
    )


def test_a_workspace_can_be_renamed_but_not_deleted(root, workspace):
    root.post(page(Workspace, "change", workspace.pk), {"name": "N", "slug": "n"})
    workspace.refresh_from_db()
    assert (workspace.name, workspace.slug) == ("N", "n")
    with unscoped(Reason.TEST):
        assert WorkspaceKey.objects.filter(workspace=workspace).count() == 1
    gone = root.post(page(Workspace, "delete", workspace.pk), {"post": "yes"})
    assert gone.status_code == 403


def test_a_slug_that_is_taken_is_shown_by_the_form(root, workspace):
    shown = text_of(root.post(page(Workspace, "add"), {"name": "X", "slug": "acme"}))
    assert "Workspace with this Slug already exists." in shown
    assert events("admin_add") == []


def test_a_person_is_let_in_and_gets_another_role(root, workspace, join):
    person = User.objects.create_user("nina")
    given = {"workspace": workspace.pk, "user": person.pk, "role": "viewer"}
    assert root.post(page(Membership, "add"), given).status_code == 302
    with unscoped(Reason.TEST):
        made = Membership.objects.get(user=person)
    changed = {"role": "operator", "can_approve": "on"}
    assert root.post(page(Membership, "change", made.pk), changed).status_code == 302
    with unscoped(Reason.TEST):
        made.refresh_from_db()
    assert (made.role, made.can_approve) == (Role.OPERATOR, True)
    assert (made.workspace_id, made.user_id) == (workspace.pk, person.pk)
    for action in ("admin_add", "admin_change"):
        [event] = events(action)
        assert (who(event), event.object_id) == ("root", made.pk)
        assert event.workspace_id == workspace.pk


def test_a_membership_moves_neither_to_another_person_nor_workspace(
    root, workspace, alice, bob, other
):
    with unscoped(Reason.TEST):
        hers = Membership.objects.get(user_id=alice.user_id)
    root.post(
        page(Membership, "change", hers.pk),
        {"role": "viewer", "user": bob.user_id, "workspace": other.workspace_id},
    )
    with unscoped(Reason.TEST):
        hers.refresh_from_db()
    assert (hers.role, hers.user_id) == (Role.VIEWER, alice.user_id)
    assert hers.workspace_id == workspace.pk


def test_a_second_membership_is_refused_by_the_form(root, workspace, alice):
    given = {"workspace": workspace.pk, "user": alice.user_id, "role": "admin"}
    shown = text_of(root.post(page(Membership, "add"), given))
    assert "already exists" in shown
    assert events("admin_add") == []


def test_who_leaves_is_deleted_and_that_is_recorded(root, alice, bob):
    with unscoped(Reason.TEST):
        hers = Membership.objects.get(user_id=alice.user_id)
        his = Membership.objects.get(user_id=bob.user_id)
    assert root.get(page(Membership, "delete", hers.pk)).status_code == 200
    root.post(page(Membership, "delete", hers.pk), {"post": "yes"})
    root.post(
        page(Membership, "changelist"),
        {"action": "delete_selected", "_selected_action": [his.pk], "post": "yes"},
    )
    assert all_of(Membership) == []
    assert [event.object_id for event in events("admin_delete")] == [hers.pk, his.pk]


def test_a_group_takes_members_of_its_workspace_only(root, workspace, alice, other):
    with unscoped(Reason.TEST):
        hers = Membership.objects.get(user_id=alice.user_id)
        foreign = Membership.objects.get(user_id=other.user_id)
    given = {"workspace": workspace.pk, "name": "Desk"}
    shown = text_of(
        root.post(page(Group, "add"), {**given, "members": [hers.pk, foreign.pk]})
    )
    assert "Not in this workspace: oscar." in shown
    assert all_of(Group) == []

    made = root.post(page(Group, "add"), {**given, "members": [hers.pk]})
    assert made.status_code == 302
    [group] = all_of(Group)
    changed = root.post(
        page(Group, "change", group.pk),
        {"name": "Desk 2", "members": [foreign.pk], "workspace": other.workspace_id},
    )
    assert "Not in this workspace" in text_of(changed)
    [event] = events("admin_add")
    assert (who(event), event.object_id) == ("root", group.pk)


def test_a_group_name_that_is_taken_is_shown_by_the_form(root, workspace):
    given = {"workspace": workspace.pk, "name": "Desk"}
    assert root.post(page(Group, "add"), given).status_code == 302
    assert "already exists" in text_of(root.post(page(Group, "add"), given))


def test_an_incomplete_form_is_shown_again(root, alice):
    for model in (Workspace, Membership, Group):
        assert "This field is required." in text_of(root.post(page(model, "add"), {}))


def test_an_agent_can_be_switched_off(root, trip):
    agent = trip.run.agent_version.agent
    root.post(page(type(agent), "change", agent.pk), {})
    agent.refresh_from_db()
    assert not agent.enabled
    [event] = events("admin_change")
    assert (event.object_type, event.object_id) == ("agents.agent", agent.pk)
    assert root.post(page(type(agent), "add"), {}).status_code == 403


def test_a_new_password_and_a_new_person_are_recorded(root, alice):
    password = {"password1": "tulip-42-lamp", "password2": "tulip-42-lamp"}
    url = reverse("admin:auth_user_password_change", args=[alice.user_id])
    assert root.post(url, {**password, "usable_password": "true"}).status_code == 302
    given = {"username": "nina", **password, "usable_password": "true"}
    assert root.post(reverse("admin:auth_user_add"), given).status_code == 302
    [changed], [added] = events("admin_change"), events("admin_add")
    assert changed.object_type == added.object_type == "auth.user"
    assert changed.detail == {"id": alice.user_id}
    assert added.detail == {"id": User.objects.get(username="nina").pk}
    assert "tulip" not in str([event.__dict__ for event in all_of(AuditEvent)])


# Who may


def test_nobody_looks_without_permission(staff, browser, alice, rows):
    clerk, member, stranger = staff(), browser(alice), Client()
    for model in OURS:
        row, *_ = all_of(model)
        urls = [
            page(model, "changelist"),
            page(model, "change", row.pk),
            page(model, "delete", row.pk),
            page(model, "history", row.pk),
        ]
        for url in urls:
            assert clerk.get(url).status_code == 403, url
            for client in (member, stranger):
                response = client.get(url)
                assert response.status_code == 302, url
                assert response["Location"].startswith(reverse("admin:login"))


def test_staff_see_what_they_may_see(staff, rows):
    clerk = staff("view_run", "view_membership")
    assert clerk.get(page(Run, "changelist")).status_code == 200
    assert clerk.get(page(ToolCall, "changelist")).status_code == 403
    member, *_ = all_of(Membership)
    assert clerk.get(page(Membership, "change", member.pk)).status_code == 200
    refused = clerk.post(page(Membership, "change", member.pk), {"role": "admin"})
    assert refused.status_code == 403


# Between the admin and the pages


def test_a_row_leads_to_its_page(root, trip, browser, alice):
    User.objects.filter(pk=alice.user_id).update(is_staff=True, is_superuser=True)
    hers = browser(alice)
    checkpoint = trip.run.thread.checkpoints.first()
    for row in (trip.thread, trip.branch, trip.run, trip.approval, checkpoint):
        shown = text_of(hers.get(page(type(row), "change", row.pk)))
        [link] = set(re.findall(r'href="(/admin/r/\d+/[0-9a-f-]+/)"', shown))
        assert hers.get(link, follow=True).status_code == 200


@pytest.mark.parametrize("kind", ["thread", "approval"])
def test_a_page_leads_staff_to_its_row(kind, trip, browser, alice, bob):
    row = {"thread": trip.thread, "approval": trip.approval}[kind]
    link = page(type(row), "change", row.pk)
    User.objects.filter(pk=alice.user_id).update(is_staff=True)
    User.objects.get(pk=alice.user_id).user_permissions.add(
        Permission.objects.get(codename=f"view_{kind}")
    )
    assert link in text_of(browser(alice).get(row.get_absolute_url()))
    assert link not in text_of(browser(bob).get(row.get_absolute_url()))


def test_a_branch_shows_only_what_it_is(root, trip):
    shown = text_of(root.get(page(Branch, "change", trip.branch.pk)))
    assert str(trip.thread) in shown
    assert "head_mac" not in shown
