"""`manage.py keys`: what it says, what it refuses, what it asks before it destroys."""

from __future__ import annotations

import hashlib
import io
import json
from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from checkpoints import clock, gate
from checkpoints.access import Reason, Role
from checkpoints.errors import Shredded
from checkpoints.ids import short
from checkpoints.keys import hierarchy
from checkpoints.log import hydrate
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.log.pack import pack_branch
from checkpoints.models import (
    AuditEvent,
    Deletion,
    Thread,
    Workspace,
    WorkspaceKey,
)
from checkpoints.pure import ops
from tests.agents.waiting import make_waiting
from tests.conftest import make_workspace

# A command of the server's: it has the owner's rights.
pytestmark = pytest.mark.owner

OLD, NEW = (hashlib.sha256(name).digest() for name in (b"old", b"new"))


@pytest.fixture(autouse=True)
def cold():
    hierarchy.forget()
    yield
    hierarchy.forget()


def keys(*arguments: object) -> str:
    said = io.StringIO()
    call_command("keys", *map(str, arguments), stdout=said, stderr=said)
    return said.getvalue()


@pytest.fixture
def typed(monkeypatch):
    """What the person at the keyboard types."""

    def typed(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))

    return typed


# Status


@pytest.mark.django_db
def test_status_says_what_there_is_and_what_to_do(settings, make_thread, bob):
    settings.KEY_ENCRYPTION_KEYS = {"old": OLD}
    made = make_workspace("one")
    thread = make_thread(workspace=made).thread_id
    make_thread(workspace=made)
    hierarchy.destroy_thread_keys(thread, by_id=bob.user_id)
    WorkspaceKey.objects.unscoped(Reason.TEST).filter(workspace=made).update(
        created_at=clock.now() - timedelta(days=400)
    )
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW, "old": OLD}
    said = keys("status", "--workspace", "one")
    assert "kek:keyring:new:1 (current): 0 workspace keys" in said
    assert "kek:keyring:old:1: 1 workspace key, since" in said
    assert "one: key v1, 400 days old, under kek:keyring:old:1; 5 data keys" in said
    assert "data     v1: 1, 1 destroyed" in said
    assert "manage.py keys rotate-kek." in said
    assert "manage.py keys rotate-workspace one." in said


@pytest.mark.django_db
def test_status_works_where_a_key_is_missing_and_says_so(settings):
    settings.KEY_ENCRYPTION_KEYS = {"old": OLD}
    make_workspace("one")
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW}
    assert "'kek:keyring:old:1' is not in KEY_ENCRYPTION_KEYS" in keys("status")


@pytest.mark.django_db
def test_status_for_a_program(workspace, make_thread):
    make_thread()
    Workspace.objects.create(slug="bare", name="Bare")
    told = json.loads(keys("status", "--json"))
    assert told["keks"][0]["id"] == "kek:keyring:demo:1"
    by_slug = {one["workspace"]: one for one in told["workspaces"]}
    assert by_slug["acme"]["version"] == 1
    assert {key["purpose"] for key in by_slug["acme"]["data_keys"]} == {
        *("data", "mac", "detail", "index", "decision")
    }
    assert by_slug["bare"]["advice"] == ["It has no key: nothing can be stored in it."]
    assert "bare: no key" in keys("status")


@pytest.mark.django_db
def test_status_lists_the_first_workspaces_only(workspace):
    for number in range(51):
        Workspace.objects.create(slug=f"w{number}", name="W")
    said = keys("status")
    assert "The first 50 workspaces" in said
    assert said.count("no key") <= 50 * 2


# Rotations


@pytest.mark.django_db
def test_a_new_kek_is_said_to_be_all_there_is(settings):
    settings.KEY_ENCRYPTION_KEYS = {"old": OLD}
    make_workspace("one")
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW, "old": OLD}
    dry = keys("rotate-kek", "--dry-run")
    assert "Dry run, nothing is written: 1 of 1 workspace keys wrapped by" in dry
    assert "older ones may leave" not in dry
    with pytest.raises(CommandError, match="No workspace key is under 'kek:x'; used"):
        keys("rotate-kek", "--from", "kek:x")
    said = keys("rotate-kek", "--from", "kek:keyring:old:1")
    assert "1 of 1 workspace keys wrapped by kek:keyring:new:1." in said
    assert "older ones may leave the list" in said


@pytest.mark.django_db
def test_what_did_not_open_is_listed_and_the_command_fails(settings):
    settings.KEY_ENCRYPTION_KEYS = {"old": OLD}
    lost = make_workspace("lost")
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW}
    with pytest.raises(CommandError, match="1 did not open and are as they were"):
        keys("rotate-kek")
    with pytest.raises(CommandError, match="1 did not open"):
        keys("rotate-workspace", "--all", "--older-than", "0")
    assert WorkspaceKey.objects.unscoped(Reason.TEST).get(workspace=lost).version == 1


@pytest.mark.django_db
def test_a_rotation_leaves_young_keys_alone(workspace, make_thread, alice):
    branch = make_thread()
    for arguments in (["rotate-thread", "--all"], ["rotate-workspace", "acme"]):
        said = keys(*arguments)
        assert "0 of 0 " in said
        assert "younger than a day are left alone; --older-than 0 replaces" in said
        assert "younger" not in keys(*arguments, "--older-than", "1")
    dry = keys("rotate-workspace", "--all", "--older-than", "0", "--dry-run")
    assert "nothing is written: 5 of 5 data keys" in dry
    said = keys("rotate-thread", branch.thread_id, "--by", "alice")
    assert "1 of 1 threads given a new data key." in said
    event = AuditEvent.objects.unscoped(Reason.TEST).get(action="key_rotate")
    assert (event.object_id, event.actor_id) == (branch.thread_id, alice.user_id)
    said = keys("rotate-workspace", "acme", "--older-than", "0", "--by", "alice")
    assert "6 of 6 data keys" in said
    assert "1 of 1 threads" in keys(
        *("rotate-thread", "--workspace", "acme", "--older-than", "0", "--dry-run")
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["status", "--workspace", "nobody"], "'nobody'; there are: acme"),
        (["rotate-workspace", "nobody"], "'nobody'; there are: acme"),
        (["rotate-thread", uuid4()], "There is no thread"),
        (["rotate-thread", "--all", "--older-than", "-1"], "must be from 0"),
        (["rotate-thread", "--all", "--older-than", "nan"], "must be from 0"),
        (["rotate-thread", "--all", "--by", "nobody"], "no active user 'nobody'"),
        (["rotate-thread"], "one of the arguments"),
        (["rotate-thread", "7f3a"], "invalid UUID value"),
        ([], "required: command"),
        (["destroy", uuid4(), "--by", "x", "--reason", "y"], "There is no thread"),
        (["destroy", uuid4(), "--by", "x"], "required: --reason"),
    ],
)
def test_what_does_not_exist_is_said(workspace, arguments, why):
    with pytest.raises(CommandError, match=why):
        keys(*arguments)


# Destroy


@pytest.mark.django_db(transaction=True)
def test_destroying_asks_for_the_name_and_records_who_and_why(
    make_thread, join, typed, alice
):
    mira = join("mira", Role.ADMIN)
    branch = make_thread()
    thread, name = branch.thread_id, short(branch.thread_id)
    command = ["destroy", thread, "--by", "mira", "--reason", "Request 4711"]
    for wrong, why in (("yes\n", f"That was not {name}"), ("", "Give --yes")):
        typed(wrong)
        with pytest.raises(CommandError, match=f"{why}.*Nothing was destroyed"):
            keys(*command)
    hierarchy.thread_keys(thread)
    typed(f"{name}\n")
    said = keys(*command)
    assert f"Thread {name} of Acme: 1 step," in said
    assert f"Thread {name} is shredded." in said
    with pytest.raises(Shredded, match="by Mira"):
        hierarchy.thread_keys(thread)
    done = Deletion.objects.unscoped(Reason.TEST).get(thread=thread)
    assert done.by_id == mira.user_id
    opened = gate.admit(alice, purpose="test", threads=[branch.thread])
    assert opened.open(done, "reason") == "Request 4711"
    event = AuditEvent.objects.unscoped(Reason.TEST).get(action="key_destroy")
    assert (event.actor_id, event.via) == (mira.user_id, "command")
    # Again: it says what is so, and asks nothing.
    assert "was shredded on" in keys(*command)


@pytest.mark.django_db
def test_what_must_stay_is_not_destroyed(make_thread, alice, other):
    branch = make_thread()
    rows = Thread.objects.unscoped(Reason.TEST).filter(pk=branch.thread_id)
    command = ["destroy", branch.thread_id, "--by", "alice", "--yes", "--reason"]
    with pytest.raises(CommandError, match="--reason is empty"):
        keys(*command, " ")
    rows.update(legal_hold=True)
    with pytest.raises(CommandError, match="legal hold"):
        keys(*command, "Why")
    rows.update(legal_hold=False, pinned=True)
    with pytest.raises(CommandError, match="pinned"):
        keys(*command, "Why")
    rows.update(pinned=False)
    with pytest.raises(CommandError, match="oscar is no member of Acme"):
        keys("destroy", branch.thread_id, "--by", "oscar", "--yes", "--reason", "Why")
    hierarchy.thread_keys(branch.thread_id)


@pytest.mark.django_db
def test_a_thread_where_an_approval_waits_is_not_destroyed(make_thread, alice):
    [waiting] = make_waiting(make_thread(), alice)
    with pytest.raises(CommandError, match="not over"):
        keys(
            *("destroy", waiting.thread_id, "--by", "alice"),
            *("--yes", "--reason", "Why"),
        )


# What it looks like afterwards


@pytest.mark.django_db(transaction=True)
def test_every_reader_says_when_and_by_whom(make_thread, alice, bob, client):
    branch = make_thread()
    at = writer(branch)
    for number in range(70):
        at = commit(at, NewStep("model", [ops.set_("/goal", str(number))], "said"))
    assert pack_branch(branch.pk) == 1
    branch.refresh_from_db()
    opened = gate.admit(alice, purpose="test", threads=[branch.thread])
    # A process that has everything in its caches, and another that has nothing.
    hydrate.read(opened, branch)
    warm = hierarchy.thread_keys(branch.thread_id)
    hierarchy.destroy_thread_keys(branch.thread_id, by_id=bob.user_id)
    shredded = rf"Thread {short(branch.thread_id)} was shredded on \d{{4}}-.* by Bob"
    for cached in (True, False):
        if cached:
            hierarchy._threads.put(branch.thread_id, warm)
        for met in (
            lambda: hydrate.read(opened, branch),
            lambda: hydrate.state(opened, branch),
            lambda: hydrate.state(opened, branch, step=3),
            lambda: hydrate.history_states(opened, branch),
            lambda: opened.open(branch.thread, "title"),
            lambda: gate.seal(branch, "name", "x"),
            lambda: pack_branch(branch.pk, force=True),
        ):
            with pytest.raises(Shredded, match=shredded):
                met()
    client.force_login(User.objects.get(pk=alice.user_id))
    page = client.get(f"/threads/{branch.thread_id}/")
    assert page.status_code == 410
    assert "by Bob" in page.content.decode()
