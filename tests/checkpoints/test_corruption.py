"""No change of what is stored is taken for what was written: flipped, cut, moved, forged."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any

import pytest
from django.db import models

from checkpoints import gate
from checkpoints.access import Reason, SystemPrincipal
from checkpoints.errors import (
    BrokenChain,
    CheckpointsError,
    DecryptionError,
    UnknownKey,
)
from checkpoints.ids import uuid7
from checkpoints.keys import hierarchy
from checkpoints.log.append import NewStep, StepMeta, commit, writer
from checkpoints.log.pack import pack_branch
from checkpoints.log.step import META_COLUMNS
from checkpoints.log.threads import fork
from checkpoints.log.verify import verify
from checkpoints.models import (
    Branch,
    Checkpoint,
    CheckpointDelta,
    DataKey,
    Segment,
    Thread,
    ThreadInput,
    Workspace,
    WorkspaceKey,
)
from checkpoints.pure import envelope, ops
from checkpoints.pure.envelope import NIL, Context
from tests.conftest import make_workspace
from tests.tampering import tamper

pytestmark = pytest.mark.django_db

CORRUPTIONS = 100_000
SEED = 20_250_722  # the same corruptions each time


@dataclass(frozen=True)
class Stored:
    """A record as it lies in the database, and what opens it."""

    name: str
    record: bytes
    key: envelope.DataKey
    place: Context

    @property
    def wrapped(self) -> bool:
        return self.name.startswith("key")

    def open(self, record: bytes, place: Context | None = None) -> bytes:
        place = place or self.place
        if self.wrapped:
            return envelope.unwrap(record, wrapping=self.key, context=place)
        return envelope.open_sealed(record, key=self.key, context=place)


def with_steps(branch: Branch, texts: str) -> Branch:
    at = writer(branch)
    for text in texts:
        said = {"id": text, "role": "user", "content": text * 50}
        step = NewStep("model", [ops.append("/messages", said)], text)
        at = commit(at, step)
    branch.refresh_from_db()
    return branch


@pytest.fixture
def branch(make_thread, alice) -> Branch:
    """A thread of eight steps; a fork with two more, and of that one with three,
    packed; two messages that wait."""
    branch = with_steps(make_thread(owner=alice), "abcdefg")
    source = rows(Checkpoint).get(branch=branch, step=3)
    side = with_steps(fork(source, name="side", by_id=alice.user_id), "xy")
    third = fork(
        rows(Checkpoint).get(branch=side, step=5), name="packed", by_id=alice.user_id
    )
    pack_branch(with_steps(third, "uvw").pk, force=True)
    for text in ("And a hotel.", "A" * 3000):
        said = ThreadInput(
            workspace_id=branch.workspace_id, thread=branch.thread, branch=branch
        )
        said.content = gate.seal(said, "content", text)
        said.save(force_insert=True)
    return branch


@pytest.fixture
def untouched(make_thread, alice) -> Branch:
    return with_steps(make_thread(owner=alice), "pqrs")


def rows(model: Any) -> Any:
    return model.objects.unscoped(Reason.TEST)


def stored(branch: Branch) -> list[Stored]:
    """Everything of the thread that is sealed, with the keys that wrap its keys."""
    found = [
        _of(row, column)
        for model, column in (
            (CheckpointDelta, "record"),
            (Segment, "record"),
            (Thread, "title"),
            (Branch, "name"),
            (ThreadInput, "content"),
        )
        for row in rows(model).filter(
            **{"pk" if model is Thread else "thread_id": branch.thread_id}
        )
    ]
    return found + [
        _of_key(row)
        for row in rows(DataKey)
        .filter(workspace=branch.workspace_id)
        .exclude(
            thread__isnull=False, thread__in=rows(Thread).exclude(pk=branch.thread_id)
        )
        .select_related("workspace_key")
    ]


def _of(row: Any, column: str) -> Stored:
    record = bytes(getattr(row, column))
    (key,) = hierarchy.data_keys([envelope.key_id(record)]).values()
    return Stored(
        f"{row._meta.model_name}.{column}", record, key, gate.context(row, column)
    )


def _of_key(row: DataKey) -> Stored:
    return Stored(
        name=f"key {row.purpose}",
        record=bytes(row.wrapped or b""),
        key=hierarchy.unwrapped(row.workspace_key),
        place=Context(
            purpose=f"key.{row.purpose}",
            workspace=row.workspace_id,
            thread=row.thread_id or NIL,
            object=row.pk,
            step=row.version,
            schema=1,
        ),
    )


@pytest.fixture
def records(branch) -> list[Stored]:
    found = stored(branch)
    assert {one.name for one in found} >= {
        *("checkpointdelta.record", "segment.record", "thread.title", "branch.name"),
        *("threadinput.content", "key data", "key mac", "key detail"),
    }
    assert len(found) >= 20
    for one in found:
        assert one.open(one.record)
    return found


def refused(one: Stored, record: bytes) -> bool:
    try:
        one.open(record)
    except DecryptionError:
        return True
    return False


def test_every_single_flipped_bit_of_every_record_is_refused(records):
    flips = taken = 0
    for one in records:
        record = bytearray(one.record)
        for at in range(len(record)):
            for bit in range(8):
                record[at] ^= 1 << bit
                flips += 1
                taken += not refused(one, bytes(record))
                record[at] ^= 1 << bit
    assert flips > 20 * envelope.OVERHEAD * 8
    assert taken == 0


def test_a_hundred_thousand_random_corruptions_are_refused(records):
    dice = random.Random(SEED)
    made = taken = 0
    while made < CORRUPTIONS:
        one, other = dice.choices(records, k=2)
        corrupt = dice.choice(CORRUPT)(dice, one.record, other.record)
        if corrupt != one.record:
            made += 1
            taken += not refused(one, corrupt)
    assert taken == 0


def flip(dice: random.Random, record: bytes, other: bytes) -> bytes:
    changed = bytearray(record)
    for _ in range(dice.choice((1, 1, 2, 5, 50))):
        changed[dice.randrange(len(changed))] ^= dice.randrange(1, 256)
    return bytes(changed)


def insert(dice: random.Random, record: bytes, other: bytes) -> bytes:
    at = dice.randrange(len(record) + 1)
    return record[:at] + dice.randbytes(dice.randint(1, 40)) + record[at:]


def delete(dice: random.Random, record: bytes, other: bytes) -> bytes:
    at = dice.randrange(len(record))
    return record[:at] + record[at + dice.randint(1, 40) :]


def truncate(dice: random.Random, record: bytes, other: bytes) -> bytes:
    return record[: dice.randrange(len(record))]


def splice(dice: random.Random, record: bytes, other: bytes) -> bytes:
    """Head of one, tail of the other: at the same place, or anywhere."""
    at = dice.randrange(len(record) + 1)
    there = at if dice.random() < 0.5 else dice.randrange(len(other) + 1)
    return record[:at] + other[there:]


def transplant(dice: random.Random, record: bytes, other: bytes) -> bytes:
    """Some bytes of another record, at their own place."""
    at = dice.randrange(min(len(record), len(other)))
    to = at + dice.randint(1, 64)
    return record[:at] + other[at:to] + record[min(to, len(other)) :]


CORRUPT: list[Callable[[random.Random, bytes, bytes], bytes]] = [
    *(flip, insert, delete, truncate, splice, transplant)
]


@pytest.mark.parametrize("dimension", [field.name for field in fields(Context)])
def test_no_record_opens_elsewhere(records, dimension):
    for one in records:
        here = getattr(one.place, dimension)
        match here:
            case str():
                elsewhere: Any = f"{here}s"
            case int():
                elsewhere = here + 1
            case _:
                elsewhere = uuid7()
        with pytest.raises(DecryptionError):
            one.open(one.record, replace(one.place, **{dimension: elsewhere}))


def test_no_record_opens_in_the_place_of_another(records):
    for one in records:
        for other in records:
            if other.place != one.place:
                with pytest.raises(DecryptionError):
                    one.open(one.record, other.place)
                with pytest.raises(DecryptionError):
                    other.open(one.record)


# Stored, and read the way everyone reads


def title(branch: Branch) -> Any:
    return _opened(branch, Thread, "title", pk=branch.thread_id)


def name(branch: Branch) -> Any:
    return _opened(branch, Branch, "name", pk=branch.pk)


def _opened(branch: Branch, model: Any, column: str, **where: Any) -> Any:
    seen = gate.admit(
        SystemPrincipal("test", branch.workspace_id),
        purpose="test",
        threads=[branch.thread],
    )
    return seen.open(rows(model).get(**where), column)


DELTA = "UPDATE checkpoints_checkpointdelta SET record = %s WHERE checkpoint_id = %s"


def delta(branch: Branch, step: int) -> CheckpointDelta:
    found: CheckpointDelta = rows(CheckpointDelta).get(branch=branch, step=step)
    return found


@pytest.fixture
def rival(join, make_thread, other) -> Branch:
    """A thread of another workspace, whose steps have the same numbers."""
    workspace = Workspace.objects.get(pk=other.workspace_id)
    return with_steps(make_thread(workspace=workspace, owner=other), "klmn")


@pytest.fixture
def twins(
    branch, untouched, rival
) -> dict[str, Callable[[], tuple[CheckpointDelta, bytes]]]:
    """By what differs: a delta, and a record for it that belongs elsewhere."""
    here = delta(branch, 2)
    (key,) = hierarchy.data_keys([envelope.key_id(bytes(here.record))]).values()
    place = gate.context(here, "record")
    plain = envelope.open_sealed(bytes(here.record), key=key, context=place)
    side = rows(Branch).get(parent=branch)

    def sealed(**changed: Any) -> bytes:
        return envelope.seal(plain, key=key, context=replace(place, **changed))

    return {
        "workspace": lambda: (here, bytes(delta(rival, 2).record)),
        "thread": lambda: (here, bytes(delta(untouched, 2).record)),
        "object": lambda: (delta(branch, 4), bytes(delta(side, 4).record)),
        "step": lambda: (here, bytes(delta(branch, 3).record)),
        "schema": lambda: (here, sealed(schema=2)),
        "purpose": lambda: (here, sealed(purpose="checkpoints.segment.record")),
    }


@pytest.mark.parametrize(
    "dimension", ["workspace", "thread", "object", "step", "schema", "purpose"]
)
def test_a_delta_from_elsewhere_is_refused_where_it_is_read(
    twins, branch, untouched, history, dimension
):
    row, record = twins[dimension]()
    assert tamper(DELTA, [record, row.pk])
    with pytest.raises(DecryptionError, match=rf"Step {row.step}\b"):
        history(branch)
    assert len(history(untouched).records) == 5
    (found,) = verify(branch.workspace_id)
    assert found.row == row.pk


def test_a_title_and_a_name_do_not_stand_in_for_each_other(branch, untouched):
    assert (title(branch), name(branch)) == ("A flight", "main")
    tamper(
        "UPDATE checkpoints_thread SET title = (SELECT name FROM checkpoints_branch"
        " WHERE id = %s) WHERE id = %s",
        [branch.pk, branch.thread_id],
    )
    tamper(
        "UPDATE checkpoints_branch SET name = (SELECT name FROM checkpoints_branch"
        " WHERE id = %s) WHERE id = %s",
        [untouched.pk, branch.pk],
    )
    for read in (title, name):
        with pytest.raises(DecryptionError):
            read(branch)
    assert (title(untouched), name(untouched)) == ("A flight", "main")


@pytest.mark.parametrize(
    "forged",
    [
        b"",
        b"null",
        b'"main"',
        b'{"context":null,"label":"","ops":[["reset",{"messages":[]}]]}',
        b"\x28\xb5\x2f\xfd" + bytes(120),  # zstd
        b"\x80\x04" + bytes(120),  # a pickle
        bytes(200),
    ],
)
def test_text_that_nobody_sealed_is_refused_everywhere(branch, history, forged):
    tamper(DELTA, [forged, delta(branch, 2).pk])
    tamper(
        "UPDATE checkpoints_thread SET title = %s WHERE id = %s",
        [forged, branch.thread_id],
    )
    tamper("UPDATE checkpoints_branch SET name = %s WHERE id = %s", [forged, branch.pk])
    for read in (title, name, history):
        with pytest.raises(DecryptionError):
            read(branch)


def test_a_record_under_a_key_of_the_forgers_own_is_refused(branch, history):
    """Whoever writes the database can add a key row, but not wrap a key."""
    mine = envelope.DataKey(uuid7(), secrets.token_bytes(32))
    here = delta(branch, 2)
    record = envelope.seal(
        b'{"context":null,"label":"forged","ops":[]}',
        key=mine,
        context=gate.context(here, "record"),
    )
    tamper(DELTA, [record, here.pk])
    with pytest.raises(DecryptionError):
        history(branch)
    tamper(
        "UPDATE checkpoints_checkpoint SET data_key = %s WHERE id = %s",
        [mine.id, here.pk],
    )
    with pytest.raises(UnknownKey, match=str(mine.id)):
        history(branch)
    workspace = rows(WorkspaceKey).get(workspace=branch.workspace_id)
    place = Context(
        "key.data", branch.workspace_id, branch.thread_id, mine.id, step=2, schema=1
    )
    for wrapped in (
        mine.secret,
        envelope.check_value(mine.secret, mine.id) + mine.secret,
        envelope.wrap(mine.secret, wrapping=mine, context=place),
        envelope.wrap(
            mine.secret,
            wrapping=envelope.DataKey(workspace.pk, mine.secret),
            context=place,
        ),
    ):
        tamper("DELETE FROM checkpoints_datakey WHERE id = %s", [mine.id])
        tamper(
            "INSERT INTO checkpoints_datakey (id, workspace_id, thread_id, purpose,"
            " version, workspace_key_id, wrapped) VALUES (%s, %s, %s, 'data', 2, %s, %s)",
            [mine.id, branch.workspace_id, branch.thread_id, workspace.pk, wrapped],
        )
        with pytest.raises(DecryptionError):
            history(branch)


# Metadata

VERIFY_ONLY = {
    # Not under the MAC: given by the database in the statement that stores it, and
    # changed when a record is sealed anew; and thread and workspace, which the keys
    # and contexts of what is sealed have.
    "created_at": "created_at - interval '2 days'",
    "workspace": "(SELECT id FROM checkpoints_workspace WHERE slug = 'rival')",
    "thread": "(SELECT id FROM checkpoints_thread WHERE id <> thread_id LIMIT 1)",
}
CHANGE = {
    models.CharField: "'changed'",
    models.UUIDField: "gen_random_uuid()",
    models.FloatField: "coalesce({0}, 0) + 0.5",
    models.DecimalField: "coalesce({0}, 0) + 0.5",
    models.IntegerField: "coalesce({0}, 0) + 1",
    models.BigIntegerField: "coalesce({0}, 0) + 1",
    models.PositiveIntegerField: "coalesce({0}, 0) + 70",
    models.PositiveSmallIntegerField: "coalesce({0}, 0) + 1",
    models.BinaryField: "sha256({0})",
}
COLUMNS = [
    column
    for column in Checkpoint._meta.concrete_fields
    if column.name not in {*VERIFY_ONLY, "id"}
]
FULL = StepMeta(
    name="look",
    model_requested="gpt",
    model_returned="gpt-1",
    temperature=0.5,
    top_p=0.9,
    seed=7,
    fingerprint="fp",
    tokens_in=1,
    tokens_out=2,
    tokens_cached=3,
    cost=Decimal("0.1"),
    latency_ms=9,
)


def _changes() -> Iterator[Any]:
    for column in COLUMNS:
        db = column.column
        if column.is_relation:
            made = {
                "branch": "(SELECT id FROM checkpoints_branch WHERE id <> branch_id"
                " AND parent_id IS NULL LIMIT 1)",
                "parent": "id",
                "actor": "(SELECT min(id) FROM auth_user)",
            }[column.name]
        else:
            made = CHANGE[type(column)].format(db)
        yield pytest.param(f"{db} = {made}", id=column.name)
        if column.null:
            yield pytest.param(f"{db} = NULL", id=f"no {column.name}")


@pytest.mark.parametrize("change", list(_changes()))
def test_a_change_of_any_column_of_a_step_is_seen(
    make_thread, alice, bob, untouched, history, change
):
    branch = make_thread(owner=alice)
    meta = replace(FULL, actor_id=bob.user_id, run=uuid7(), agent_version=uuid7())
    at = commit(writer(branch), NewStep("model", [], "one", meta))
    commit(at, NewStep("model", [], "two"))
    branch.refresh_from_db()
    assert tamper(
        f"UPDATE checkpoints_checkpoint SET {change} WHERE branch_id = %s AND step = 1",  # noqa: S608
        [branch.pk],
    )
    with pytest.raises((BrokenChain, DecryptionError, UnknownKey)):
        history(branch)
    found = {one.thread_id for one in verify()}
    # A step that was moved into another branch is too many there.
    moved = change.startswith("branch_id")
    assert found in ([{branch.thread_id, untouched.thread_id}] if moved else []) + [
        {branch.thread_id}
    ]


@pytest.mark.parametrize("column", VERIFY_ONLY)
def test_what_no_mac_covers_is_seen_by_verifying(branch, untouched, column):
    make_workspace("rival")
    db = column if column == "created_at" else f"{column}_id"
    tamper(
        f"UPDATE checkpoints_checkpoint SET {db} = {VERIFY_ONLY[column]}"  # noqa: S608
        " WHERE branch_id = %s AND step = 1",
        [branch.pk],
    )
    found = list(verify())
    assert rows(Checkpoint).get(branch=branch, step=1).pk in {f.row for f in found}
    assert len(found) == (2 if column == "thread" else 1)  # there and here


def test_every_column_of_a_step_is_covered_or_accounted_for():
    assert set(META_COLUMNS) <= {column.attname for column in COLUMNS}


def test_a_refusal_is_one_of_ours_and_tells_no_text(branch, history):
    tamper(DELTA, [b"a secret of the state", delta(branch, 2).pk])
    with pytest.raises(CheckpointsError) as refusal:
        history(branch)
    assert "secret" not in str(refusal.value)
