"""`verify_checkpoints` looks at archives, too: of what was removed they are all there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checkpoints.access import Reason, unscoped
from checkpoints.log import archive, expire
from checkpoints.log.verify import Finding, Tally, verify
from checkpoints.models import Archive, Branch
from tests.checkpoints.archives import grow
from tests.tampering import tamper

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.owner]


@pytest.fixture(autouse=True)
def everything_visible() -> Iterator[None]:
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def untouched(make_thread) -> Branch:
    return grow(make_thread())[0]


@pytest.fixture
def archived(make_thread, alice) -> Archive:
    made = archive.write(grow(make_thread(owner=alice))[0].thread_id)
    assert expire.prune(made)
    return made


def only(found: list[Finding], archived: Archive) -> Finding:
    (one,) = found
    assert one.thread_id == archived.thread_id
    return one


def test_an_archive_that_is_whole_is_counted(archived, untouched):
    tally = Tally()
    assert list(verify(tally=tally)) == []
    assert (tally.archives, tally.pruned) == (1, 1)


ARCHIVED = {
    "no row": ("DELETE FROM checkpoints_archive", "checkpoints.thread"),
    "another status": (
        "UPDATE checkpoints_archive SET status = 'deleted'",
        "checkpoints.thread",
    ),
    "another digest": (
        "UPDATE checkpoints_archive SET digest = sha256(digest)",
        "checkpoints.archive",
    ),
    "another name": (
        "UPDATE checkpoints_archive SET object_name = '../../etc/passwd'",
        "checkpoints.archive",
    ),
    "no journal": ("DELETE FROM checkpoints_deletion", "checkpoints.thread"),
    "content that is said to be here": (
        "UPDATE checkpoints_thread SET pruned_at = NULL WHERE pruned_at IS NOT NULL",
        "checkpoints.checkpoint",
    ),
}


@pytest.mark.parametrize("change", ARCHIVED)
def test_what_was_changed_of_an_archive_is_named(archived, untouched, change):
    sql, table = ARCHIVED[change]
    assert tamper(sql)
    assert only(list(verify()), archived).table == table


def test_an_archive_whose_file_changed_is_named(archived, untouched, blob_dir):
    (file,) = blob_dir.rglob("*.zst")
    good = file.read_bytes()
    for bad in (good[:-1], bytes([good[0] ^ 1]) + good[1:], None):
        file.unlink()
        if bad is not None:
            file.write_bytes(bad)
        found = only(list(verify()), archived)
        assert (found.table, found.row) == ("checkpoints.archive", archived.pk)
