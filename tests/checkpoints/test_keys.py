"""Keys: made, kept for a while, destroyed; and what lies in the database without them."""

from __future__ import annotations

import base64
import hashlib

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from checkpoints import clock, gate
from checkpoints.access import Reason
from checkpoints.errors import Fenced, NotPermitted, Shredded, UnknownKey
from checkpoints.ids import uuid7
from checkpoints.keys import hierarchy, keyring, material, providers
from checkpoints.keys.cache import KeyCache
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.log.hydrate import read
from checkpoints.log.threads import fork
from checkpoints.models import (
    AuditEvent,
    Checkpoint,
    DataKey,
    Thread,
    Workspace,
    WorkspaceKey,
)
from checkpoints.pure import envelope, ops
from tests.conftest import as_owner, make_workspace

RANDOM = hashlib.sha256(b"one").digest()
OTHER = hashlib.sha256(b"two").digest()
DEMO = b"anyone can read this in the code"


@pytest.fixture(autouse=True)
def cold():
    """Each test begins with no key in the process."""
    hierarchy.forget()
    yield
    hierarchy.forget()


# The cache


class Clock:
    """Time, as an argument."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_key_stays_for_its_time():
    clock = Clock()
    cache = KeyCache[bytes](seconds=300, clock=clock)
    cache.put("a", b"secret")
    clock.now = 299
    assert cache.get("a") == b"secret"
    clock.now = 300
    assert cache.get("a") is None


def test_the_least_recently_used_goes_first():
    cache = KeyCache[bytes](size=2)
    cache.put("a", b"1")
    cache.put("b", b"2")
    cache.get("a")
    cache.put("c", b"3")
    assert [cache.get(name) for name in "abc"] == [b"1", None, b"3"]


def test_no_repr_shows_a_key(settings):
    settings.KEY_ENCRYPTION_KEYS = {"k": DEMO}
    cache = KeyCache[bytes]()
    cache.put("a", b"secret")
    keys = hierarchy.ThreadKeys(envelope.DataKey(uuid7(), DEMO), DEMO)
    shown = f"{cache} {keys} {providers.provider()}"
    assert "secret" not in shown
    assert "anyone" not in shown


# The hierarchy


@pytest.mark.django_db
def test_each_thread_has_keys_of_its_own(make_thread):
    one, two = make_thread(), make_thread()
    mine, theirs = (hierarchy.thread_keys(b.thread_id) for b in (one, two))
    secrets = {mine.data.secret, mine.mac, theirs.data.secret, theirs.mac}
    assert len(secrets) == 4


@pytest.mark.django_db
def test_keys_come_back_from_the_database(make_thread):
    branch = make_thread()
    before = hierarchy.thread_keys(branch.thread_id)
    digest = hierarchy.workspace_mac(branch.workspace_id, "index")
    hierarchy.forget()
    assert hierarchy.thread_keys(branch.thread_id) == before
    assert hierarchy.workspace_mac(branch.workspace_id, "index") == digest
    assert hierarchy.workspace_mac(branch.workspace_id, "decision") != digest


@pytest.mark.django_db
def test_workspaces_share_no_key(workspace):
    rival = make_workspace("rival")
    for purpose in ("index", "decision", "detail"):
        assert hierarchy.workspace_mac(
            workspace.pk, purpose
        ) != hierarchy.workspace_mac(rival.pk, purpose)


@pytest.mark.django_db
def test_a_key_that_is_not_there(workspace, make_thread):
    with as_owner():
        bare = Workspace.objects.create(slug="bare", name="Bare")
    with pytest.raises(UnknownKey, match="has no key"):
        make_thread(workspace=bare)
    for asked in (
        lambda: hierarchy.thread_keys(uuid7()),
        lambda: hierarchy.data_keys([uuid7()]),
        lambda: hierarchy.workspace_mac(bare.pk, "index"),
    ):
        with pytest.raises(UnknownKey):
            asked()


@pytest.mark.django_db
def test_a_new_key_encryption_key_wraps_and_the_old_one_still_opens(
    settings, make_thread, history
):
    settings.KEY_ENCRYPTION_KEYS = {"2025": RANDOM}
    old = make_thread(workspace=make_workspace("old"))
    settings.KEY_ENCRYPTION_KEYS = {"2026": OTHER, "2025": RANDOM}
    hierarchy.forget()
    hierarchy.thread_keys(old.thread_id)
    new = make_workspace("new")
    keks = WorkspaceKey.objects.unscoped(Reason.TEST)
    assert keks.get(workspace=old.workspace).kek == "kek:keyring:2025:1"
    assert keks.get(workspace=new).kek == "kek:keyring:2026:1"
    settings.KEY_ENCRYPTION_KEYS = {"2026": OTHER}
    hierarchy.forget()
    with pytest.raises(UnknownKey, match=r"2025.*is not in.*2026"):
        hierarchy.thread_keys(old.thread_id)


# Destroyed


@pytest.mark.django_db
def test_a_thread_whose_keys_are_destroyed_is_gone_and_no_other(
    make_thread, alice, history
):
    gone, kept = make_thread(), make_thread()
    pass_ = gate.admit(alice, purpose="x", threads=[gone.thread, kept.thread])
    stale = writer(gone)
    hierarchy.destroy_thread_keys(gone.thread_id)
    for refused in (
        lambda: pass_.open(gone.thread, "title"),
        lambda: read(pass_, gone),
        lambda: gate.seal(gone, "name", "x"),
        lambda: commit(stale, NewStep("model", [], "")),
    ):
        with pytest.raises(Shredded):
            refused()
    assert pass_.open(kept.thread, "title") == "A flight"
    assert len(history(kept).records) == 1
    assert not DataKey.objects.unscoped(Reason.TEST).filter(
        thread=gone.thread, wrapped__isnull=False
    )


@pytest.mark.django_db
def test_what_was_shredded_says_when_and_by_whom(make_thread, alice, bob):
    by_hand, by_policy = make_thread(), make_thread()
    hierarchy.destroy_thread_keys(by_hand.thread_id, by_id=bob.user_id, via="command")
    hierarchy.destroy_thread_keys(by_policy.thread_id)
    today = clock.now().strftime("%Y-%m-%d")
    with pytest.raises(Shredded, match=rf"was shredded on {today} by Bob;"):
        hierarchy.thread_keys(by_hand.thread_id)
    with pytest.raises(Shredded, match=rf"was shredded on {today};"):
        hierarchy.thread_keys(by_policy.thread_id)
    events = AuditEvent.objects.unscoped(Reason.TEST).filter(action="key_destroy")
    assert list(
        events.order_by("position").values_list("object_id", "actor_id", "via")
    ) == [
        (by_hand.thread_id, bob.user_id, "command"),
        (by_policy.thread_id, None, "worker"),
    ]


@pytest.mark.django_db
def test_shredding_twice_keeps_the_first_persons_name(make_thread, alice, bob):
    branch = make_thread()
    hierarchy.destroy_thread_keys(branch.thread_id, by_id=alice.user_id)
    hierarchy.destroy_thread_keys(branch.thread_id, by_id=bob.user_id)
    with pytest.raises(Shredded, match="by Alice"):
        hierarchy.thread_keys(branch.thread_id)


@pytest.mark.django_db
def test_a_legal_hold_keeps_the_keys(make_thread):
    branch = make_thread()
    Thread.objects.unscoped(Reason.TEST).update(legal_hold=True)
    with pytest.raises(NotPermitted, match="legal hold"):
        hierarchy.destroy_thread_keys(branch.thread_id)
    hierarchy.thread_keys(branch.thread_id)


@pytest.mark.django_db
def test_a_process_that_still_has_the_keys_opens_nothing_either(make_thread, alice):
    branch = make_thread()
    pass_ = gate.admit(alice, purpose="x", threads=[branch.thread])
    stale = writer(branch)
    keys = hierarchy.thread_keys(branch.thread_id)
    hierarchy.destroy_thread_keys(branch.thread_id)
    # Another process's caches, as they were:
    hierarchy._threads.put(branch.thread_id, keys)
    material.known.put(keys.data.id, keys.data.secret)
    for refused in (
        lambda: pass_.open(branch.thread, "title"),
        lambda: read(pass_, branch),
    ):
        with pytest.raises(Shredded):
            refused()
    with pytest.raises(Fenced):
        commit(stale, NewStep("model", [], ""))


# At the start


def test_random_keys_are_accepted(settings):
    settings.LOCAL = False
    settings.KEY_ENCRYPTION_KEYS = {"k": RANDOM}
    keyring.check_settings()


@pytest.mark.parametrize(
    "weak", [DEMO, bytes(32), bytes(range(16)) * 2, b"correct horse battery staple 123"]
)
def test_a_weak_key_stops_the_start(settings, weak):
    settings.LOCAL = False
    settings.KEY_ENCRYPTION_KEYS = {"ok": RANDOM, "k": weak}
    with pytest.raises(ImproperlyConfigured, match=r"'k' is not random.*openssl") as no:
        keyring.check_settings()
    assert weak.decode("latin1") not in str(no.value)


def test_a_local_installation_may_have_any_key(settings):
    settings.LOCAL = True
    settings.KEY_ENCRYPTION_KEYS = {"demo": DEMO}
    keyring.check_settings()


@pytest.mark.parametrize("keys", [{}, {"k": b"short"}])
def test_no_key_or_a_short_one_stops_the_start_anywhere(settings, keys):
    settings.LOCAL = True
    settings.KEY_ENCRYPTION_KEYS = keys
    with pytest.raises(ImproperlyConfigured, match="KEY_ENCRYPTION_KEYS"):
        keyring.check_settings()


# What a thief of the database finds

CANARY = "canary-7c1f2a9e5b"


@pytest.mark.django_db
def test_nothing_of_the_text_lies_in_the_database(make_thread, alice, history):
    branch = make_thread(
        title=CANARY,
        label=CANARY,
        state={"messages": [{"content": CANARY}], CANARY: {"n": 1}, "params": {}},
    )
    commit(
        writer(branch),
        NewStep(
            "tool",
            [ops.put("/params", CANARY, CANARY)],
            CANARY,
            context={"sent": CANARY},
        ),
    )
    source = Checkpoint.objects.unscoped(Reason.TEST).get(branch=branch, step=1)
    side = fork(
        source,
        name=CANARY,
        by_id=alice.user_id,
        ops=[ops.set_("/params/seed", CANARY)],
        label=CANARY,
    )
    assert CANARY in str(history(side).state_at(2))  # it is there, for who may open it
    with as_owner():
        found = everything_in_the_database()
    assert str(branch.pk).encode() in found
    plain = CANARY.encode()
    for form in (
        plain,
        plain.hex().encode(),
        base64.b64encode(plain)[:-4],
        hashlib.sha256(plain).hexdigest().encode(),
        hashlib.md5(plain).hexdigest().encode(),  # noqa: S324
    ):
        assert form not in found


def everything_in_the_database() -> bytes:
    """Every row of every table, as a dump would have it."""
    tables = connection.introspection.table_names()
    with connection.cursor() as cursor:
        rows: list[bytes] = []
        for table in tables:
            with cursor.copy(f'COPY "{table}" TO STDOUT') as copy:
                rows.extend(bytes(block) for block in copy)
    return b"".join(rows)
