"""`manage.py archive` and `manage.py retention`: what they do, say and refuse."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from checkpoints import clock, stores
from checkpoints.access import Reason, unscoped
from checkpoints.models import Archive, Branch, RetentionPolicy, Thread
from tests.checkpoints.archives import grow, say, states

# Commands of the server's: they have the owner's rights.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.owner]


@pytest.fixture(autouse=True)
def everything_visible(settings):
    settings.RETENTION_DAYS = 30
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def thread(make_thread, alice) -> Thread:
    return grow(make_thread(owner=alice))[0].thread


def manage(*arguments: object) -> str:
    said = io.StringIO()
    try:
        call_command(*map(str, arguments), stdout=said, stderr=said)
    except CommandError as error:
        raise CommandError(f"{said.getvalue()}{error}") from None
    return said.getvalue()


def content_is_here(thread: Thread) -> bool:
    thread.refresh_from_db()
    return thread.pruned_at is None


# archive


def test_a_thread_is_archived_listed_and_removed_only_when_that_is_said(thread):
    said = manage("archive", "thread", thread.pk)
    archived = Archive.objects.get()
    steps = thread.checkpoints.count()
    assert f"{thread.pk}: {steps} steps, {archived.size:,} bytes in" in said
    assert "went" not in said
    assert content_is_here(thread)
    assert str(archived.pk) in manage("archive", "list", "--workspace", "acme")
    assert archived.object_name in manage("archive", "list", "--store")

    said = manage("archive", "thread", thread.pk, "--prune")
    assert said.strip().endswith("its content went")
    assert not content_is_here(thread)
    assert "archived already" in manage("archive", "thread", thread.pk, "--prune")


def test_no_archives_are_said_to_be_none(workspace):
    assert manage("archive", "list") == "There are no archives.\n"


def test_it_comes_back_by_its_id_and_from_a_file(thread, tmp_path):
    before = states(thread.pk)
    manage("archive", "thread", thread.pk, "--prune")
    archived = Archive.objects.get()
    file = tmp_path / "kept.jsonl.zst"
    said = manage("archive", "export", archived.pk, file)
    assert f"{file} and {file}.keys are written" in said
    with pytest.raises(CommandError, match="is there already"):
        manage("archive", "export", archived.pk, file)

    steps = thread.checkpoints.count()
    assert f"{steps} steps restored" in manage("archive", "restore", thread.pk)
    assert states(thread.pk) == before
    assert "is here already" in manage("archive", "restore", file)
    manage("archive", "thread", thread.pk, "--prune")
    assert f"{steps} steps restored" in manage("archive", "restore", file)
    assert states(thread.pk) == before


def test_what_keeps_a_thread_is_said_and_nothing_is_removed(thread):
    Thread.objects.update(pinned=True)
    with pytest.raises(CommandError, match=r"it is pinned\. Unpin it first"):
        manage("archive", "thread", thread.pk, "--prune")
    assert content_is_here(thread)


def test_keys_are_brought_up_to_date_one_bad_archive_or_not(
    thread, make_thread, settings
):
    other = say(make_thread(), "hello").thread
    manage("archive", "thread", thread.pk, other.pk)
    assert "keys of 2 archives are as" in manage("archive", "keys")
    archived = Archive.objects.get(thread=thread)
    store = stores.of(archived.store)
    store.delete(f"{archived.object_name}/keys.json")
    assert "keys of 2 archives are as" in manage("archive", "keys")
    assert store.read(f"{archived.object_name}/keys.json")
    Archive.objects.filter(thread=thread).update(store="s3")  # which is not set up
    with pytest.raises(CommandError) as refused:
        manage("archive", "keys")
    assert f"{archived.object_name}: " in str(refused.value)
    assert "keys of 1 archives are as" in str(refused.value)
    assert "1 were left as they are" in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["archive", "thread", uuid4()], "There is no thread"),
        (["archive", "thread", "7f3a"], "invalid UUID value"),
        (["archive", "list", "--workspace", "nobody"], "'nobody'; there are: acme"),
        (
            ["archive", "export", "No/Name", "x"],
            "No/Name is no archive here, and no name",
        ),
        (["archive", "restore", "nothing"], "is no file, no archive here"),
        (["archive", "restore", "archive/00/none"], "archive/00/none: "),
        (["archive", "restore", __file__], "is not an archive of Holdpoint"),
        (["retention", "--workspace", "nobody", "status"], "there are: acme"),
        (["retention"], "required: part"),
    ],
)
def test_what_does_not_exist_is_said(workspace, arguments, why):
    with pytest.raises(CommandError, match=why):
        manage(*arguments)


def test_what_cannot_be_written_is_said(thread, tmp_path):
    manage("archive", "thread", thread.pk)
    nowhere = tmp_path / "none" / "kept"
    with pytest.raises(CommandError, match=r"cannot be written.*another place"):
        manage("archive", "export", Archive.objects.get().pk, nowhere)


def test_a_store_that_is_away_is_said_and_nothing_is_removed(thread, settings):
    settings.BLOB_DIR = Path(__file__)  # no directory
    with pytest.raises(CommandError, match=r"blob store|BLOB_DIR"):
        manage("archive", "thread", thread.pk, "--prune")
    assert content_is_here(thread)


# retention


def age(thread: Thread) -> None:
    then = clock.now() - timedelta(days=40)
    Thread.objects.filter(pk=thread.pk).update(created_at=then)
    Branch.objects.filter(thread=thread).update(updated_at=then)


def test_retention_says_what_is_due_does_it_and_says_what_it_did(thread, make_thread):
    make_thread()
    age(thread)
    said = manage("retention", "status")
    assert "after 30 days without a step, archive it (RETENTION_DAYS)" in said
    said = manage("retention", "run", "--dry-run")
    assert "would archive 1 threads" in said
    assert not Archive.objects.exists()
    assert "acme: 1 archived." in manage("retention", "--workspace", "acme", "run")
    assert content_is_here(thread)  # for its days of grace
    assert "archives, verified: 1" in manage("retention", "status").lower()
    assert "acme: Nothing was due." in manage("retention", "run")
    Archive.objects.update(verified_at=clock.now() - timedelta(days=2))
    assert "acme: 1 pruned." in manage("retention", "run")
    assert "journal, " in manage("retention", "status")


def test_retention_names_the_policies_and_what_they_leave_alone(thread):
    age(thread)
    Thread.objects.update(legal_hold=True)
    RetentionPolicy.objects.create(
        workspace=thread.workspace, keep_days=10, then="archive", archive_days=90
    )
    RetentionPolicy.objects.create(workspace=thread.workspace, agent="desk")
    said = manage("retention", "status")
    assert "after 10 days without a step" in said
    assert "after 90 more, destroy its keys" in said
    assert "desk: kept for ever" in said
    assert "1 kept: it is on legal hold" in manage("retention", "run", "--dry-run")
    assert "Nothing was due" in manage("retention", "run")
