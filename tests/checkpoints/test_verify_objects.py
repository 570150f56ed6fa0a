"""`verify_checkpoints` looks into the stores: at blobs, and at archives of what went."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from checkpoints import blobs
from checkpoints.keys import hierarchy
from checkpoints.log import archive, expire, source
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.log.pack import pack_branch
from checkpoints.log.verify import Finding, Tally, verify
from checkpoints.models import Archive, Blob, Branch
from checkpoints.pure import ops
from checkpoints.stores import configured
from tests.checkpoints.archives import say
from tests.checkpoints.packing import grow
from tests.checkpoints.vault import TOKEN, Transit, serving
from tests.tampering import tamper

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.owner,
    pytest.mark.usefixtures("everything_visible"),
]


@pytest.fixture
def branch(make_thread, alice) -> Branch:
    return say(make_thread(owner=alice), "one", "two")


@pytest.fixture
def blob(branch) -> Blob:
    """A step's large value."""
    large = NewStep("tool", [ops.put("/facts", "page", "hold " * 20_000)], "page")
    commit(writer(branch), large)
    branch.refresh_from_db()
    return Blob.objects.get()


@pytest.fixture
def archived(branch) -> Archive:
    """The archive of a thread whose content went."""
    made = archive.write(branch.thread_id)
    assert expire.prune(made)
    return made


def command(*words: str) -> tuple[str, int]:
    """What it says, and how it ends."""
    out = StringIO()
    try:
        call_command("verify_checkpoints", *words, stdout=out)
    except CommandError as error:
        return f"{out.getvalue()}{error}", error.returncode
    return out.getvalue(), 0


def only(found: Finding, row: Blob | Archive) -> None:
    assert (found.table, found.row) == (row._meta.label_lower, row.pk)
    assert found.thread_id == row.thread_id


def test_blobs_are_looked_at_in_their_store(blob):
    tally = Tally()
    assert list(verify(tally=tally)) == []
    assert (tally.blobs, tally.unreached) == (1, 0)


def test_a_blob_that_is_gone_or_altered_is_named(blob, blob_dir, make_thread):
    make_thread()  # of which nothing is said
    file: Path = blob_dir / blob.object_name
    content = file.read_bytes()
    for damaged in (content[:-1], content[:90] + b"x" + content[91:]):
        file.write_bytes(damaged)
        [found] = verify()
        only(found, blob)
        assert "does not open" in found.problem
    file.unlink()
    [found] = verify()
    assert f"The object {blob.object_name} is not in" in found.problem
    assert tamper("UPDATE checkpoints_blob SET size = 7 WHERE id = %s", [blob.pk])
    [found] = verify()
    only(found, blob)


@pytest.mark.parametrize("packed", [False, True])
def test_a_blob_without_a_row_is_named_by_the_step_that_made_it(blob, branch, packed):
    if packed:
        grow(branch, 70)
        pack_branch(branch.pk)
    assert list(verify()) == []
    tamper("DELETE FROM checkpoints_blob")
    [found] = verify()
    only(found, blob)
    assert "names it; it has no row" in found.problem
    # Nor is the thread archived so: the content that is left stays.
    with pytest.raises(Exception, match="does not have blob"):
        archive.write(branch.thread_id)


def test_what_only_looks_like_a_reference_is_none(branch, blob):
    """A tool, a model or an imported file may write one."""
    like = {**blobs.ref_to(blob), "$blob": "8d2f0000-0000-5000-8000-000000000000"}
    commit(writer(branch), NewStep("tool", [ops.put("/facts", "like", like)], ""))
    assert list(verify()) == []


def test_a_store_that_is_away_is_no_damage(blob, branch, make_thread, settings):
    settings.BLOB_DIR.rename(settings.BLOB_DIR.with_name("unplugged"))
    settings.BLOB_DIR.write_text("")  # root may write any directory
    tally = Tally()
    assert list(verify(tally=tally)) == []
    assert (tally.blobs, tally.unreached, tally.threads) == (0, 1, 1)
    assert "cannot be used" in tally.away["local"]
    said, code = command()
    assert code == 3
    assert "Store unavailable (local): the directory" in said
    assert "1 blobs and archives were not looked at" in said
    found = json.loads(command("--json")[0].splitlines()[0])
    assert (found["bad"], found["unreached"]) == (0, 1)
    assert "cannot be used" in found["away"]["local"]


def test_damage_counts_for_more_than_a_store_that_is_away(blob, branch, settings):
    settings.BLOB_DIR.rename(settings.BLOB_DIR.with_name("unplugged"))
    settings.BLOB_DIR.write_text("")
    tamper("UPDATE checkpoints_thread SET title = sha256(title)")
    said, code = command()
    assert code == 1
    assert "Its title" in said
    assert "Store unavailable" in said


def test_keys_that_are_away_are_no_damage(branch, settings):
    with serving(Transit()) as transit:
        settings.VAULT_ADDR, settings.VAULT_TOKEN = transit.address, TOKEN
        settings.KEY_PROVIDERS = [
            "tests.checkpoints.vault.Vault",
            "checkpoints.keys.keyring.Keyring",
        ]
        call_command("keys", "rotate-kek", verbosity=0)
    hierarchy.forget()
    said, code = command()
    assert code == 3
    assert said.startswith("Keys unavailable: ")
    assert "bad" not in said


def test_the_archive_of_what_went_is_looked_at(archived, blob_dir):
    tally = Tally()
    assert list(verify(tally=tally)) == []
    assert (tally.pruned, tally.archives) == (1, 1)
    assert "1 archives" in command()[0]
    [part] = blob_dir.rglob("*.zst")
    data = part.read_bytes()
    part.write_bytes(data[:300] + bytes([data[300] ^ 1]) + data[301:])
    [found] = verify()
    only(found, archived)
    part.unlink()
    [found] = verify()
    only(found, archived)
    assert "is not in" in found.problem


def test_an_archive_without_its_keys_is_named_and_can_be_mended(archived):
    configured().delete(source.keys_name(archived.object_name))
    [found] = verify()
    only(found, archived)
    assert "`manage.py archive keys` writes them anew" in found.problem
    call_command("archive", "keys")
    assert list(verify()) == []
