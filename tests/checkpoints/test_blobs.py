"""Blobs: large values beside the log, sealed, bound to their thread, opened by the gate."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from checkpoints import blobs, gate, stores
from checkpoints.access import Reason, unscoped
from checkpoints.errors import (
    DecryptionError,
    Fenced,
    MissingObject,
    NotPermitted,
    NotStorable,
    Shredded,
    StoreFull,
    WrongStore,
)
from checkpoints.keys.hierarchy import destroy_thread_keys, forget
from checkpoints.log.append import commit, writer
from checkpoints.log.step import NewStep
from checkpoints.models import Blob, Branch, Checkpoint, StoreMark
from checkpoints.pure import ops, refs
from checkpoints.stores import mark
from tests.checkpoints.stores import *  # noqa: F403  # fixtures
from tests.conftest import STATE
from tests.elsewhere import Elsewhere, uncommitted

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("everything_visible")]

LONG = "Not for everyone's eyes. " * 4000
PNG = b"\x89PNG\r\n\x1a\n" + bytes(400)
URL = f"data:image/png;base64,{b64encode(PNG).decode()}"
MESSAGES = {"m2": LONG, "m3": [{"type": "image_url", "image_url": {"url": URL}}]}


@pytest.fixture
def branch(make_thread, alice) -> Branch:
    return make_thread(owner=alice)


@pytest.fixture
def said(branch) -> Branch:
    """The branch after a long message and one with an image."""
    holder = writer(branch)
    for id, content in MESSAGES.items():
        message = {"id": id, "role": "user", "content": content}
        holder = commit(
            holder,
            NewStep(kind="input", ops=[ops.append("/messages", message)], label=""),
        )
    branch.refresh_from_db()
    return branch


@pytest.fixture
def opened(branch, alice) -> gate.Pass:
    return gate.admit(alice, purpose="test", threads=[branch.thread])


def names() -> list[str]:
    return [name for name in stores.configured().names() if name != mark.NAME]


def a_blob() -> Blob:
    return Blob.objects.earliest("created_at")


def messages(branch, history) -> list[dict[str, Any]]:
    return history(branch).state_at(branch.head_step)["messages"]


def test_large_values_are_kept_apart_and_found_again(store, said, opened, history):
    _, text, image = messages(said, history)
    assert text["content"] == {
        "$blob": str(Blob.objects.get(media_type="text/plain").pk),
        "size": len(LONG),
        "media_type": "text/plain",
        "digest": refs.first_words(LONG),
    }
    assert refs.is_ref(image["content"][0]["image_url"]["url"])
    contents = blobs.Contents(opened, said.thread_id)
    assert contents.restore(text)["content"] == LONG
    assert contents.restore(image)["content"] == MESSAGES["m3"]
    assert {blob.store for blob in Blob.objects.all()} == {store.kind}


def test_what_a_commit_stored_is_what_folds_to_the_state(branch, history):
    message = {"id": "m2", "role": "user", "content": LONG}
    step = NewStep(kind="input", ops=[ops.append("/messages", message)], label="")
    after = commit(writer(branch), step)
    branch.refresh_from_db()
    assert history(branch).state_at(1) == ops.fold(STATE, after.stored)


def test_objects_hold_no_plain_text(said, blob_dir):
    files = [path.read_bytes() for path in blob_dir.rglob("*") if path.is_file()]
    assert len(files) == 3  # two blobs and the mark
    assert not any(b"everyone" in data or b"PNG" in data for data in files)


def test_a_small_step_asks_the_store_nothing(branch, django_assert_num_queries):
    first, second = (
        NewStep(
            kind="input",
            ops=[ops.append("/messages", {"content": "data: x"})],
            label="",
        )
        for _ in range(2)
    )
    after = commit(writer(branch), first)  # from now on its statement is prepared
    with django_assert_num_queries(1):
        commit(after, second)
    assert names() == []


def test_a_thread_keeps_the_same_value_once(said, make_thread, alice):
    holder = writer(said)
    put = NewStep(kind="tool", ops=[ops.put("/vars", "page", LONG)], label="")
    commit(holder, put)
    assert len(names()) == Blob.objects.count() == 2
    elsewhere = make_thread(owner=alice)
    commit(writer(elsewhere), replace(put, id=elsewhere.pk))
    assert len(names()) == Blob.objects.count() == 3
    texts = Blob.objects.filter(media_type="text/plain")
    assert len({bytes(blob.digest) for blob in texts}) == 2  # which tells nobody


def test_a_step_that_is_not_stored_leaves_no_row(branch):
    stale = replace(writer(branch), fence=99)
    step = NewStep(kind="tool", ops=[ops.put("/vars", "page", LONG)], label="")
    with pytest.raises(Fenced):
        commit(stale, step)
    assert not Blob.objects.exists()
    assert len(names()) == 1  # the sweep finds it


def test_the_object_is_there_before_the_row(branch, monkeypatch):
    """Killed between the two, nothing refers to what is not there."""
    seen: list[bytes] = []
    insert = Blob.objects.bulk_create

    def look(rows, **how):
        seen.extend(stores.of(row.store).read(row.object_name) for row in rows)
        return insert(rows, **how)

    monkeypatch.setattr(Blob.objects, "bulk_create", look)
    blobs.put(branch.thread, b"x", media_type="text/plain")
    assert len(seen) == 1


@pytest.mark.parametrize("size", [50_000_000])
def test_fifty_megabytes_are_one_small_step(branch, opened, history, size):
    step = NewStep(kind="tool", ops=[ops.put("/vars", "page", "y" * size)], label="")
    commit(writer(branch), step)
    branch.refresh_from_db()
    page = history(branch).state_at(1)["vars"]["page"]
    assert page["size"] == size
    assert blobs.Contents(opened, branch.thread_id).restore({"page": page}) == {
        "page": "y" * size
    }


def test_more_than_a_blob_may_hold_is_refused(branch):
    large = "y" * (blobs.MAX_BYTES + 1)
    with pytest.raises(NotStorable, match="holds a value of 67,108,865 bytes; a blob"):
        blobs.offload(branch.thread, [ops.put("/vars", "page", large)])


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, {"k": b"bytes"}])
def test_what_is_no_json_is_refused_before_anything_is_put_away(branch, value):
    step = NewStep(kind="tool", ops=[ops.append("/vars", [LONG, value])], label="")
    with pytest.raises(NotStorable):
        commit(writer(branch), step)
    assert names() == []


# Who may not


def test_a_reference_reaches_no_blob_of_another_thread(
    said, make_thread, alice, history
):
    """Same person, same workspace: a model that was told an id gets nothing by it."""
    ref = messages(said, history)[1]["content"]
    holder = make_thread(owner=alice)
    commit(
        writer(holder),
        NewStep(kind="tool", ops=[ops.put("/vars", "stolen", ref)], label=""),
    )
    holder.refresh_from_db()
    state = history(holder).state_at(1)
    assert state["vars"]["stolen"] == ref  # a value like any other
    opened = gate.admit(alice, purpose="test", threads=[holder.thread, said.thread])
    contents = blobs.Contents(opened, holder.thread_id)
    assert contents.restore(state) == state
    assert contents.row(ref) is None


def test_a_blob_opens_only_by_a_pass_for_its_thread(said, make_thread, alice, other):
    blob = a_blob()
    elsewhere = make_thread(owner=alice)
    for_elsewhere = gate.admit(alice, purpose="test", threads=[elsewhere.thread])
    with pytest.raises(NotPermitted):
        blobs.read(for_elsewhere, blob)
    with pytest.raises(NotPermitted):
        blobs.Contents(for_elsewhere, said.thread_id).row(blobs.ref_to(blob))
    with pytest.raises(NotPermitted):
        blobs.read(gate.admit(other, purpose="test"), blob)


def test_rows_that_were_tampered_with_do_not_open(said, opened, make_thread, alice):
    text = Blob.objects.get(media_type="text/plain")
    image = Blob.objects.get(media_type="image/png")
    elsewhere = make_thread(owner=alice)
    blobs.put(elsewhere.thread, b"hers", media_type="text/plain")
    other = Blob.objects.get(thread=elsewhere.thread)
    for changed in (
        {"media_type": "text/html"},
        {"size": 3},
        {"digest": bytes(32)},
        {"object_name": image.object_name},
        {"object_name": other.object_name},
    ):
        blob = Blob.objects.get(pk=text.pk)
        for name, value in changed.items():
            setattr(blob, name, value)
        with pytest.raises(DecryptionError):
            blobs.read(opened, blob)
    moved = Blob.objects.get(pk=other.pk)
    moved.thread_id = said.thread_id
    with pytest.raises(DecryptionError):
        blobs.read(opened, moved)
    assert blobs.read(opened, text).decode() == LONG


def test_every_flipped_byte_of_an_object_is_found(said, opened, blob_dir):
    blob = Blob.objects.get(media_type="image/png")
    file = blob_dir / blob.object_name
    whole = file.read_bytes()
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(DecryptionError):
            blobs.read(opened, blob)
    file.write_bytes(whole[:-1])
    with pytest.raises(DecryptionError):
        blobs.read(opened, blob)
    file.write_bytes(whole)
    assert blobs.read(opened, blob) == PNG


def test_a_shredded_threads_blobs_are_gone_even_where_their_objects_lie(said, alice):
    opened = gate.admit(alice, purpose="test", threads=[said.thread])
    blob = a_blob()
    assert blobs.read(opened, blob)
    destroy_thread_keys(said.thread_id)
    with pytest.raises(Shredded):
        blobs.read(opened, blob)
    forget()
    with pytest.raises(Shredded):
        blobs.read(opened, blob)


def test_a_missing_object_is_named(said, opened):
    blob = a_blob()
    stores.of(blob.store).delete(blob.object_name)
    with pytest.raises(MissingObject, match=blob.object_name):
        blobs.read(opened, blob)


# Which store


def test_the_first_use_leaves_a_mark_that_the_next_ones_compare(store, branch):
    blobs.put(branch.thread, b"x", media_type="text/plain")
    known = StoreMark.objects.get(kind=store.kind)
    assert known.claimed_at is not None
    assert store.read(mark.NAME).decode() == str(known.mark)
    mark.require_same(store)


def test_a_directory_of_the_same_name_on_another_machine_is_refused(
    said, opened, settings, tmp_path
):
    settings.BLOB_DIR = tmp_path / "another machine's"
    with pytest.raises(WrongStore, match=r"it has no mark\. Mount the shared"):
        mark.require_same(stores.configured())
    with pytest.raises(WrongStore):
        blobs.put(said.thread, b"new", media_type="text/plain")
    with pytest.raises(WrongStore):  # not: that the object is missing
        blobs.read(opened, a_blob())
    stores.configured().write(mark.NAME, b"00000000-0000-0000-0000-000000000001")
    with pytest.raises(WrongStore, match="the mark of another one"):
        mark.require_same(stores.configured())
    mark.adopt(stores.configured())
    mark.require_same(stores.configured())
    settings.BLOB_DIR = tmp_path / "a third one"
    mark.adopt(stores.configured())
    mark.require_same(stores.configured())


def test_another_databases_store_is_not_taken_by_itself(said):
    StoreMark.objects.update(mark=uuid4(), claimed_at=None)
    with pytest.raises(WrongStore, match="belongs to another database"):
        mark.require_same(stores.configured())
    mark.adopt(stores.configured())
    mark.require_same(stores.configured())


def test_an_empty_store_with_a_mark_is_taken(store):
    mark.require_same(store)
    StoreMark.objects.update(mark=uuid4(), claimed_at=None)
    mark.require_same(store)
    mark.require_same(store)


def test_a_mark_that_is_none_of_ours_is_named(store):
    store.write(mark.NAME, b"someone's")
    with pytest.raises(WrongStore, match="is not a mark of ours"):
        mark.require_same(store)


def test_a_full_store_loses_nothing(branch, small_files):
    step = NewStep(
        kind="tool",
        ops=[ops.put("/vars", "page", "".join(map(str, range(200_000))))],
        label="",
    )
    with pytest.raises(StoreFull):
        commit(writer(branch), step)
    branch.refresh_from_db()
    assert branch.head_step == 0
    assert names() == []
    small = NewStep(kind="tool", ops=[ops.put("/vars", "n", 1)], label="")
    commit(writer(branch), small)  # other steps go on


@pytest.mark.django_db(transaction=True)
def test_two_branches_that_store_the_same_at_once_agree(make_thread, alice):
    branch = make_thread(owner=alice)

    def put() -> Blob:
        with unscoped(Reason.TEST):
            return blobs.put(branch.thread, b"x", media_type="text/plain")

    with uncommitted(put) as first:
        second = Elsewhere(put)
        second.wait_until_it_waits()
    assert first.result().pk == second.result().pk == Blob.objects.get().pk
    assert Checkpoint.objects.count() == 1
