"""Keys wrapped anew and replaced: everything stays readable, nothing is written twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import ParamSpec, TypeVar

import pytest
from django.conf import settings as live
from django.db import connection

from checkpoints import clock, gate
from checkpoints.access import Reason
from checkpoints.errors import (
    DecryptionError,
    KeysUnavailable,
    Shredded,
    UnknownKey,
)
from checkpoints.ids import uuid7
from checkpoints.keys import hierarchy, material, rewrap, rotation
from checkpoints.keys.keyring import Keyring
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.models import (
    AuditEvent,
    Checkpoint,
    DataKey,
    Workspace,
    WorkspaceKey,
)
from checkpoints.pure import envelope, ops
from tests.conftest import as_owner, make_workspace

P = ParamSpec("P")
R = TypeVar("R")


def commanded(act: Callable[P, R]) -> Callable[P, R]:
    """As `manage.py keys` does it, with the owner's rights; the rest is workers' work."""

    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        with as_owner():
            return act(*args, **kwargs)

    return inner


rewrap_all = commanded(rewrap.rewrap)
rewrap_data_keys = commanded(rewrap.rewrap_data_keys)
rotate_thread_keys = commanded(rotation.rotate_thread_keys)
rotate_threads = commanded(rotation.rotate_threads)
rotate_workspace_key = commanded(rotation.rotate_workspace_key)
replace_workspace_key = commanded(rotation._replace_workspace_key)

OLD, NEW = (hashlib.sha256(name).digest() for name in (b"old", b"new"))


@pytest.fixture(autouse=True)
def cold():
    """Each test begins with no key in the process."""
    hierarchy.forget()
    yield
    hierarchy.forget()


@pytest.fixture
def two(settings) -> list[Workspace]:
    """Two workspaces under the key "old", when "new" has just come."""
    settings.KEY_ENCRYPTION_KEYS = {"old": OLD}
    made = [make_workspace("one"), make_workspace("two")]
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW, "old": OLD}
    hierarchy.forget()
    return made


def keks() -> set[str]:
    rows = WorkspaceKey.objects.unscoped(Reason.TEST)
    return set(rows.values_list("kek", flat=True))


def key_of(workspace: Workspace) -> WorkspaceKey:
    rows = WorkspaceKey.objects.unscoped(Reason.TEST).filter(workspace=workspace)
    return rows.latest("version")


def events(action: str) -> list[AuditEvent]:
    rows = AuditEvent.objects.unscoped(Reason.TEST).filter(action=action)
    return list(rows.order_by("position"))


def rows_of(*tables: str) -> bytes:
    """Every row, and the transaction that wrote it."""
    found = []
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"SELECT xmin, t::text FROM {table} t ORDER BY 2")  # noqa: S608
            found.append(str(cursor.fetchall()).encode())
    return b"".join(found)


# The key-encryption key


@pytest.mark.django_db
def test_after_a_rewrap_the_old_key_is_needed_no_more(
    two, settings, make_thread, history
):
    branch = make_thread(workspace=two[0])
    sealed = rows_of(
        "checkpoints_checkpointdelta",
        "checkpoints_segment",
        "checkpoints_blob",
        "checkpoints_datakey",
    )
    tally = rewrap_all()
    assert (tally.due, tally.done, tally.failed) == (2, 2, [])
    assert keks() == {"kek:keyring:new:1"}
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW}
    hierarchy.forget()
    hierarchy.thread_keys(branch.thread_id)
    hierarchy.workspace_mac(two[1].pk, "index")
    assert sealed == rows_of(
        "checkpoints_checkpointdelta",
        "checkpoints_segment",
        "checkpoints_blob",
        "checkpoints_datakey",
    )


@pytest.mark.django_db
def test_each_workspace_can_read_in_its_log_that_its_key_was_wrapped_anew(two, alice):
    rewrap_all(actor_id=alice.user_id)
    found = {
        (event.workspace_id, event.object_id, event.actor_id, event.via)
        for event in events("key_rewrap")
    }
    assert found == {(one.pk, key_of(one).pk, alice.user_id, "command") for one in two}
    assert events("key_rewrap")[0].detail == {"kek": "kek:keyring:new:1"}
    assert key_of(two[0]).rewrapped_at is not None


@pytest.mark.django_db
def test_a_second_run_finds_nothing_to_do(two):
    rewrap_all()
    before = rows_of("checkpoints_workspacekey", "checkpoints_auditevent")
    assert rewrap_all() == rewrap.Tally()
    assert rows_of("checkpoints_workspacekey", "checkpoints_auditevent") == before


@pytest.mark.django_db
def test_a_dry_run_says_what_would_be_done_and_writes_nothing(two):
    before = rows_of("checkpoints_workspacekey", "checkpoints_auditevent")
    tally = rewrap_all(dry_run=True)
    assert (tally.due, tally.done) == (2, 2)
    assert rows_of("checkpoints_workspacekey", "checkpoints_auditevent") == before


@pytest.mark.django_db
def test_a_key_taken_from_the_ring_too_early_is_named_and_hinders_no_other(
    two, settings
):
    settings.KEY_ENCRYPTION_KEYS = {"middle": hashlib.sha256(b"m").digest()}
    lost = make_workspace("lost")
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW, "old": OLD}
    hierarchy.forget()
    tally = rewrap_all()
    assert (tally.due, tally.done) == (3, 2)
    [line] = tally.failed
    assert str(lost.pk) in line
    assert "'kek:keyring:middle:1' is not in KEY_ENCRYPTION_KEYS" in line
    assert keks() == {"kek:keyring:new:1", "kek:keyring:middle:1"}


@pytest.mark.django_db
def test_swapped_rows_are_named_and_left_as_they_are(two, settings):
    third = make_workspace("third")
    WorkspaceKey.objects.unscoped(Reason.TEST).filter(workspace=third).update(
        kek="kek:keyring:old:1"
    )
    rows = [key_of(one) for one in two]
    for row, wrapped in zip(rows, [rows[1].wrapped, rows[0].wrapped], strict=True):
        WorkspaceKey.objects.unscoped(Reason.TEST).filter(pk=row.pk).update(
            wrapped=wrapped
        )
    tally = rewrap_all()
    assert (tally.due, tally.done, len(tally.failed)) == (3, 0, 3)
    assert all("does not open" in line for line in tally.failed)


@pytest.mark.django_db(transaction=True)
@pytest.mark.owner  # `manage.py keys` asks outside a transaction, with nothing to tell
def test_each_batch_is_written_while_the_next_one_is_wrapped(settings):
    settings.KEY_ENCRYPTION_KEYS = {"old": OLD}
    made = [make_workspace(f"w{number}") for number in range(6)]
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW, "old": OLD}
    hierarchy.forget()
    seen: list[tuple[int, int]] = []
    tally = rewrap.rewrap(batch=2, progress=lambda *of: seen.append(of))
    assert (tally.due, tally.done, tally.failed) == (6, 6, [])
    assert [seen[0], seen[-1]] == [(0, 6), (6, 6)]
    assert sorted(seen) == seen
    assert keks() == {"kek:keyring:new:1"}
    assert len(events("key_rewrap")) == 6
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW}
    hierarchy.forget()
    for one in made:
        hierarchy.workspace_mac(one.pk, "index")


class Fleeting(Keyring):
    """Answers twice, and then is away."""

    met = 0

    def wrap(self, items):
        Fleeting.met += 1
        if Fleeting.met > 2:
            raise KeysUnavailable("It is away.")
        return super().wrap(items)


@pytest.mark.django_db(transaction=True)
@pytest.mark.owner  # as above
def test_what_is_on_its_way_when_the_service_goes_away_is_stored(settings):
    settings.KEY_ENCRYPTION_KEYS = {"old": OLD}
    for number in range(6):
        make_workspace(f"w{number}")
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW, "old": OLD}
    settings.KEY_PROVIDERS = [f"{__name__}.Fleeting"]
    Fleeting.met = 0
    with pytest.raises(KeysUnavailable):
        rewrap.rewrap(batch=2)
    left = rewrap.outdated().values_list("pk", flat=True)
    changed = {event.object_id for event in events("key_rewrap")}
    assert (len(left), len(changed), changed & set(left)) == (2, 4, set())
    settings.KEY_PROVIDERS = ["checkpoints.keys.keyring.Keyring"]
    assert rewrap.rewrap(batch=2).done == 2
    assert keks() == {"kek:keyring:new:1"}


class Meddling(Keyring):
    """Another process rewraps while this one does."""

    met = 0

    def wrap(self, items):
        wrapped = super().wrap(items)
        Meddling.met += 1
        if Meddling.met == 1:
            live.KEY_PROVIDERS = ["checkpoints.keys.keyring.Keyring"]
            rewrap_all()
        return wrapped


@pytest.mark.django_db
def test_two_at_once_do_not_undo_each_other(two, settings, make_thread):
    branch = make_thread(workspace=two[0])
    Meddling.met = 0
    settings.KEY_PROVIDERS = [f"{__name__}.Meddling"]
    tally = rewrap_all()
    assert (tally.due, tally.done) == (2, 0)
    assert len(events("key_rewrap")) == 2
    hierarchy.forget()
    hierarchy.thread_keys(branch.thread_id)


class Forgetful(Keyring):
    """Wraps what it cannot open again."""

    def wrap(self, items):
        return super().wrap([item._replace(key=bytes(48)) for item in items])


@pytest.mark.django_db
def test_a_provider_that_wraps_badly_replaces_nothing(two, settings):
    settings.KEY_PROVIDERS = [f"{__name__}.Forgetful"]
    before = rows_of("checkpoints_workspacekey")
    with pytest.raises(DecryptionError, match="does not open what it has just wrapped"):
        rewrap_all()
    assert rows_of("checkpoints_workspacekey") == before


@pytest.mark.django_db
def test_the_number_of_queries_follows_the_batches_not_the_keys(
    settings, django_assert_max_num_queries
):
    settings.KEY_ENCRYPTION_KEYS = {"old": OLD}
    with as_owner():
        for number in range(12):
            one = Workspace.objects.create(slug=f"w{number}", name="W")
            key = WorkspaceKey(workspace=one)
            material.wrap_workspace_key(key, OLD)
            key.save(force_insert=True)
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW, "old": OLD}
    with django_assert_max_num_queries(7):  # savepoints among them
        assert rewrap_all().done == 12


# A thread's data key


def data_versions(thread_id) -> list[int]:
    rows = DataKey.objects.unscoped(Reason.TEST).filter(
        thread_id=thread_id, purpose="data"
    )
    return list(rows.order_by("version").values_list("version", flat=True))


@pytest.mark.django_db
def test_after_a_rotation_new_steps_are_under_the_new_key_and_old_ones_open(
    make_thread, alice, history
):
    branch = make_thread()
    before = hierarchy.thread_keys(branch.thread_id)
    made = rotate_thread_keys(branch.thread_id, actor_id=alice.user_id)
    after = hierarchy.thread_keys(branch.thread_id)
    assert after.data.id == made.pk != before.data.id
    assert after.mac == before.mac
    commit(writer(branch), NewStep("model", [ops.set_("/goal", "Rome")], "said"))
    keys = Checkpoint.objects.unscoped(Reason.TEST).filter(branch=branch)
    assert list(keys.order_by("step").values_list("data_key", flat=True)) == [
        before.data.id,
        made.pk,
    ]
    branch.refresh_from_db()
    assert history(branch).state_at(1)["goal"] == "Rome"
    [event] = events("key_rotate")
    assert (event.object_id, event.actor_id) == (branch.thread_id, alice.user_id)


@pytest.mark.django_db
def test_a_process_with_the_old_key_takes_up_the_new_one_and_loses_nothing(
    make_thread, alice, history
):
    branch = make_thread()
    stale = hierarchy.thread_keys(branch.thread_id)
    made = rotate_thread_keys(branch.thread_id)
    hierarchy._threads.put(branch.thread_id, stale)  # another process's cache
    # What is sealed one by one is under the new key at once.
    assert envelope.key_id(gate.seal(branch, "name", "x")) == made.pk
    # A step may be under the old one for some seconds more, and opens all the same.
    commit(writer(branch), NewStep("model", [ops.set_("/goal", "Rome")], "said"))
    branch.refresh_from_db()
    assert history(branch).state_at(1)["goal"] == "Rome"
    assert hierarchy.WRITES_ON <= 10


@pytest.mark.django_db
def test_only_keys_made_before_the_time_are_replaced(make_thread):
    old, young, gone = make_thread(), make_thread(), make_thread()
    rotate_thread_keys(young.thread_id)
    hierarchy.destroy_thread_keys(gone.thread_id)
    DataKey.objects.unscoped(Reason.TEST).exclude(thread=young.thread_id).update(
        created_at=clock.now() - timedelta(days=3)
    )
    before = clock.now() - timedelta(days=1)
    dry = rotate_threads(before, dry_run=True)
    assert (dry.due, dry.done) == (1, 1)
    assert data_versions(old.thread_id) == [1]
    for _ in range(2):  # again: nothing is left
        rotate_threads(before)
    assert data_versions(old.thread_id) == [1, 2]
    assert data_versions(young.thread_id) == [1, 2]
    assert data_versions(gone.thread_id) == [1]


@pytest.mark.django_db
def test_threads_of_a_workspace_whose_key_is_missing_are_passed_over(
    two, settings, make_thread
):
    branches = [make_thread(workspace=one) for one in two]
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW, "old": OLD}
    rewrap_all()
    WorkspaceKey.objects.unscoped(Reason.TEST).filter(workspace=two[0]).update(
        kek="kek:keyring:lost:1"
    )
    hierarchy.forget()
    tally = rotate_threads(clock.now(), batch=1)
    assert (tally.due, tally.done) == (2, 1)
    [line] = tally.failed
    assert "kek:keyring:lost:1" in line
    assert data_versions(branches[1].thread_id) == [1, 2]
    with pytest.raises(UnknownKey, match="lost"):
        rotate_thread_keys(branches[0].thread_id)


@pytest.mark.django_db
def test_only_one_workspaces_threads_when_one_is_named(two, make_thread):
    one, other = (make_thread(workspace=workspace) for workspace in two)
    tally = rotate_threads(clock.now(), workspace_id=two[0].pk)
    assert tally.done == 1
    assert data_versions(one.thread_id) == [1, 2]
    assert data_versions(other.thread_id) == [1]


@pytest.mark.django_db
def test_a_shredded_thread_gets_no_new_key(make_thread, bob):
    branch = make_thread()
    hierarchy.destroy_thread_keys(branch.thread_id, by_id=bob.user_id)
    with pytest.raises(Shredded, match="by Bob"):
        rotate_thread_keys(branch.thread_id)
    with pytest.raises(UnknownKey):
        rotate_thread_keys(uuid7())
    assert data_versions(branch.thread_id) == [1]


# A workspace's key


@pytest.mark.django_db
def test_a_new_workspace_key_wraps_every_data_key_and_all_opens_as_before(
    make_thread, workspace, history, alice
):
    branch = make_thread()
    gone = make_thread()
    hierarchy.destroy_thread_keys(gone.thread_id)
    digests = [hierarchy.workspace_mac(workspace.pk, p) for p in ("index", "decision")]
    detail = hierarchy.workspace_key(workspace.pk, "detail")
    sealed = rows_of("checkpoints_checkpointdelta")
    tally = rotate_workspace_key(workspace, clock.now(), actor_id=alice.user_id)
    assert (tally.due, tally.done, tally.failed) == (5, 5, [])
    hierarchy.forget()
    key = key_of(workspace)
    assert key.version == 2
    living = DataKey.objects.unscoped(Reason.TEST).filter(destroyed_at=None)
    assert set(living.values_list("workspace_key", flat=True)) == {key.pk}
    assert rows_of("checkpoints_checkpointdelta") == sealed
    assert len(history(branch).records) == 1
    assert digests == [
        hierarchy.workspace_mac(workspace.pk, p) for p in ("index", "decision")
    ]
    # What is sealed for the workspace goes on under a new key, and the old one opens.
    assert hierarchy.workspace_key(workspace.pk, "detail").id != detail.id
    assert hierarchy.data_keys([detail.id])[detail.id] == detail
    [rotated] = events("key_rotate")
    assert rotated.detail == {"version": 2}


@pytest.mark.django_db
def test_a_rotation_that_was_cut_short_goes_on_and_begins_no_other(
    make_thread, workspace
):
    for _ in range(3):
        make_thread()
    started = clock.now()
    replace_workspace_key(workspace, started, "command", None)
    dry = rotate_workspace_key(workspace, started, dry_run=True)
    assert (dry.due, dry.done) == (9, 9)
    tally = rotate_workspace_key(workspace, started)
    assert (tally.due, tally.done) == (9, 9)
    assert key_of(workspace).version == 2
    assert rotate_workspace_key(workspace, started) == rewrap.Tally()
    dry = rotate_workspace_key(workspace, clock.now(), dry_run=True)
    assert (dry.due, dry.done) == (10, 10)
    assert key_of(workspace).version == 2


@pytest.mark.django_db
def test_of_two_rotations_the_newer_keeps_what_it_wrapped(make_thread, workspace):
    make_thread()
    slower = replace_workspace_key(workspace, clock.now(), "command", None)
    faster = replace_workspace_key(workspace, clock.now(), "command", None)
    # Three of a thread and workspace, two detail keys before this one's.
    assert rewrap_data_keys(faster).done == 6
    assert rewrap_data_keys(slower) == rewrap.Tally()
    living = DataKey.objects.unscoped(Reason.TEST)
    assert set(living.values_list("workspace_key", flat=True)) == {faster.pk}


@pytest.mark.django_db
def test_a_swapped_data_key_row_is_named_and_the_others_are_done(
    make_thread, workspace
):
    one, two = make_thread(), make_thread()
    rows = DataKey.objects.unscoped(Reason.TEST).filter(purpose="data")
    first, second = rows.get(thread=one.thread_id), rows.get(thread=two.thread_id)
    rows.filter(pk=first.pk).update(wrapped=second.wrapped)
    tally = rotate_workspace_key(workspace, clock.now())
    assert (tally.due, tally.done) == (7, 6)
    [line] = tally.failed
    assert str(first.pk) in line
    hierarchy.forget()
    with pytest.raises(DecryptionError):
        hierarchy.thread_keys(one.thread_id)
    assert hierarchy.thread_keys(two.thread_id).data.id == second.pk


@pytest.mark.django_db
def test_a_workspace_without_a_key_has_nothing_to_replace():
    with as_owner():
        bare = Workspace.objects.create(slug="bare", name="Bare")
    with pytest.raises(UnknownKey, match="has no key"):
        rotate_workspace_key(bare, clock.now())
