"""What people say about threads, below the pages: races, expiry, archives, guards."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from agents.debug import remarks as service
from agents.debug.remarks import About
from agents.errors import InvalidRemark
from checkpoints import gate
from checkpoints.access import Reason, SystemPrincipal, unscoped
from checkpoints.db.session import DatabaseRole, acting_as, enter
from checkpoints.errors import NotPermitted, Pruned, Shredded
from checkpoints.log import archive, expire
from checkpoints.log.restore import restore
from checkpoints.models import Remark, Thread
from tests.checkpoints.archives import empty_database, looking_at, stored
from tests.elsewhere import Elsewhere, uncommitted

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def everything_visible():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def branch(make_thread, alice):
    return make_thread(owner=alice)


@pytest.fixture
def about(branch):
    return About(branch.thread)


@pytest.fixture
def as_web(alice):
    """Does it with the rights of a page's process."""

    def as_web(act):
        def inner():
            with acting_as(DatabaseRole.WEB), unscoped(Reason.TEST):
                enter(alice.workspace_id)
                return act()

        return inner

    return as_web


def words(row: Remark) -> str | None:
    row.refresh_from_db()
    by = SystemPrincipal("test", row.workspace_id)
    return gate.admit(by, purpose="test", threads=[row.thread]).open(row, "text")


# At once


def test_two_equal_labels_at_once_are_one(about, alice, as_web):
    def put():
        return service.label(about, alice, text="urgent").pk

    with uncommitted(as_web(put)) as first:
        second = Elsewhere(as_web(put))
        second.wait_until_it_waits()
    assert first.result() == second.result()
    assert Remark.objects.count() == 1


def test_the_last_place_for_a_label_is_given_once(about, alice, as_web):
    for n in range(service.MOST_LABELS - 1):
        service.label(about, alice, text=f"label {n}")
    with uncommitted(as_web(lambda: service.label(about, alice, text="a"))):
        second = Elsewhere(as_web(lambda: service.label(about, alice, text="b")))
        second.wait_until_it_waits()
    with pytest.raises(InvalidRemark, match="20 labels on this already"):
        second.result()
    assert Remark.objects.count() == service.MOST_LABELS


def test_two_stars_at_once_are_one(about, alice, as_web):
    with uncommitted(as_web(lambda: service.star(about, alice))):
        second = Elsewhere(as_web(lambda: service.star(about, alice)))
        second.wait_until_it_waits()
    assert second.result() is False
    assert Remark.objects.count() == 1


def test_one_who_removes_and_one_who_was_slower(about, alice, as_web):
    note = service.note(about, alice, text="A hasty word.")

    def remove():
        return service.remove(about.thread, alice, note.pk)

    with uncommitted(as_web(remove)) as first:
        second = Elsewhere(as_web(remove))
        second.wait_until_it_waits()
    assert (first.result(), second.result()) == (True, False)


def test_nothing_is_written_to_a_thread_that_is_being_shredded(about, alice, as_web):
    with uncommitted(lambda: expire.shred(about.thread.pk)):
        late = Elsewhere(as_web(lambda: service.note(about, alice, text="Too late.")))
        late.wait_until_it_waits()
    with pytest.raises(Shredded, match="was shredded"):
        late.result()
    assert not Remark.objects.exists()


# Expiry, archives


def test_what_was_said_goes_with_the_content_and_comes_back(about, alice):
    note = service.note(about, alice, text="Ask Helen first.")
    label = service.label(about, alice, text="urgent")
    archived = archive.write(about.thread.pk)
    assert expire.prune(archived)
    for row in (note, label):
        row.refresh_from_db()
        assert (row.text, row.blind_index) == (None, None)
    assert not service.labelled(alice, "urgent").exists()
    with pytest.raises(Pruned, match="an operator can restore it"):
        service.note(about, alice, text="And then?")
    with pytest.raises(Pruned):
        service.remove(about.thread, alice, note.pk)
    service.star(about, alice)  # has no words
    restore(stored(archived))
    assert words(note) == "Ask Helen first."
    assert service.labelled(alice, "URGENT").get() == label


def test_what_was_taken_back_does_not_come_back_with_an_archive(about, alice):
    note = service.note(about, alice, text="A hasty word.")
    label = service.label(about, alice, text="urgent")
    archived = archive.write(about.thread.pk)
    for row in (note, label):
        service.remove(about.thread, alice, row.pk)
    assert expire.prune(archived)
    restore(stored(archived))
    assert words(note) is None
    assert not service.labelled(alice, "urgent").exists()


def test_a_note_that_came_after_the_archive_keeps_the_thread(about, alice):
    archived = archive.write(about.thread.pk)
    note = service.note(about, alice, text="Ask Helen first.")
    assert not expire.prune(archived)
    assert words(note) == "Ask Helen first."


def test_shredding_leaves_who_and_when(about, alice):
    note = service.judge(about, alice, good=False, reason="The fare is stale.")
    label = service.label(about, alice, text="urgent")
    expire.shred(about.thread.pk)
    for row in (note, label):
        row.refresh_from_db()
        assert (row.text, row.blind_index, row.by_id) == (None, None, alice.user_id)


@pytest.mark.owner  # `archive restore` makes a workspace and people
def test_an_empty_database_gets_what_was_said_too(about, branch, alice):
    step = branch.checkpoints.get()
    note = service.note(About(about.thread, None, step), alice, text="Ask Helen first.")
    gone = service.note(about, alice, text="A hasty word.")
    service.remove(about.thread, alice, gone.pk)
    label = service.label(about, alice, text="urgent")
    archived = archive.write(about.thread.pk)
    with empty_database() as name, looking_at(name):
        restore(stored(archived))
        there = {row.pk: row for row in Remark.objects.all()}
        assert there.keys() == {note.pk, gone.pk, label.pk}
        assert there[note.pk].checkpoint_id == step.pk
        assert words(there[note.pk]) == "Ask Helen first."
        assert there[gone.pk].removed_by_id == there[note.pk].by_id
        assert bytes(there[label.pk].blind_index) == label.blind_index


# What the database refuses


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "good"},
        {"text": b"other"},
        {"text": None},
        {"blind_index": b"other"},
        {"by_id": None},
        {"branch_id": "itself"},
    ],
)
@pytest.mark.parametrize("role", [DatabaseRole.WEB, DatabaseRole.WORKER])
def test_it_is_written_once(about, branch, alice, change, role):
    note = service.note(about, alice, text="As I said.")
    if change.get("branch_id"):
        change = {"branch_id": branch.pk}
    with acting_as(role):
        enter(alice.workspace_id)
        with pytest.raises(IntegrityError):
            Remark.objects.filter(pk=note.pk).update(**change)
    assert words(note) == "As I said."


def test_what_was_taken_back_stays_so_and_by_whom(about, alice, bob):
    note = service.note(about, alice, text="A hasty word.")
    service.remove(about.thread, alice, note.pk)
    mine = Remark.objects.filter(pk=note.pk)
    for change in (
        {"removed_at": None, "removed_by": None},
        {"removed_by": bob.user_id},
    ):
        with pytest.raises(IntegrityError, match="written once"), transaction.atomic():
            mine.update(**change)
    assert mine.update(text=b"back again") == 1  # as a restore would
    assert words(note) is None


@pytest.mark.owner  # who may delete at all
def test_even_its_owner_deletes_none(about, alice):
    service.note(about, alice, text="As I said.")
    with pytest.raises(IntegrityError, match="not deleted"), transaction.atomic():
        Remark.objects.all().delete()


def test_somebody_of_another_workspace_may_not(about, other):
    for act in (service.star, lambda a, by: service.note(a, by, text="Hello.")):
        with pytest.raises(NotPermitted, match="not shared with you"):
            act(about, other)
    assert Thread.objects.get().remarks.count() == 0
