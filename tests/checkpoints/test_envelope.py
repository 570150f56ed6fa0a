"""Sealed records: they open where they belong, under their key, and not otherwise."""

from __future__ import annotations

import hmac
import json
import random
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.errors import DecryptionError, NotSealed
from checkpoints.ids import uuid7
from checkpoints.pure import envelope
from checkpoints.pure.envelope import (
    NIL,
    OVERHEAD,
    Content,
    Context,
    DataKey,
    check_value,
    open_sealed,
    seal,
    unwrap,
    wrap,
)

KEY = DataKey(uuid7(), bytes(range(32)))
HERE = Context("app.model.field", uuid7(), uuid7(), uuid7(), step=7, schema=1)
ELSEWHERE = Context("app.model.fielt", uuid7(), uuid7(), uuid7(), step=8, schema=2)
PLAIN = b'{"messages":["hold hold hold hold hold hold hold hold hold hold hold"]}'


@pytest.fixture(scope="module")
def record() -> bytes:
    return seal(PLAIN, key=KEY, context=HERE)


@given(st.binary() | st.binary(max_size=4).map(lambda some: some * 1000))
def test_what_was_sealed_opens_again(plain):
    record = seal(plain, key=KEY, context=HERE)
    assert open_sealed(record, key=KEY, context=HERE) == plain
    assert len(record) <= len(plain) + OVERHEAD


def test_a_record_from_the_database_opens(record):
    assert open_sealed(memoryview(record), key=KEY, context=HERE) == PLAIN
    assert envelope.key_id(memoryview(record)) == KEY.id


def test_the_same_text_is_never_sealed_alike(record):
    again = seal(PLAIN, key=KEY, context=HERE)
    assert again[24:48] != record[24:48]
    assert again[48:80] != record[48:80]
    assert again[80:] != record[80:]


def test_a_record_shows_its_key_and_content_type_and_nothing_else(record):
    assert envelope.key_id(record) == KEY.id
    assert envelope.content(record) is Content.JSON
    text = seal(b"hold", key=KEY, context=HERE, content=Content.TEXT)
    assert envelope.content(text) is Content.TEXT
    assert b"hold" not in text


def test_a_key_does_not_show_its_secret():
    key = DataKey(uuid7(), b"open sesame open sesame open ses")
    assert "sesame" not in f"{key!r} {key}"


def test_a_key_has_the_length_that_its_use_needs():
    with pytest.raises(ValueError, match="32 bytes, not 16"):
        DataKey(uuid7(), bytes(16))


def test_every_flipped_bit_is_noticed(record):
    for bit in range(8 * len(record)):
        flipped = bytearray(record)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DecryptionError):
            open_sealed(bytes(flipped), key=KEY, context=HERE)


def test_every_truncation_and_extension_is_noticed(record):
    for length in range(len(record)):
        with pytest.raises(DecryptionError):
            open_sealed(record[:length], key=KEY, context=HERE)
    with pytest.raises(DecryptionError):
        open_sealed(record + b"\0", key=KEY, context=HERE)


def test_random_corruptions_are_noticed(record):
    chance = random.Random(7)
    for _ in range(5_000):
        start, length = chance.randrange(len(record)), chance.randrange(1, 20)
        noise = chance.randbytes(len(record[start : start + length]))
        corrupt = record[:start] + noise + record[start + length :]
        if corrupt != record:
            with pytest.raises(DecryptionError):
                open_sealed(corrupt, key=KEY, context=HERE)


def test_parts_of_two_records_do_not_make_a_third(record):
    other = seal(PLAIN, key=KEY, context=HERE)
    for cut in (30, 48, 80, len(record) - 16):
        with pytest.raises(DecryptionError):
            open_sealed(record[:cut] + other[cut:], key=KEY, context=HERE)


@pytest.mark.parametrize("name", [field.name for field in fields(Context)])
def test_a_record_opens_only_in_its_own_place(record, name):
    moved = replace(HERE, **{name: getattr(ELSEWHERE, name)})
    with pytest.raises(DecryptionError):
        open_sealed(record, key=KEY, context=moved)


def test_nothing_may_be_left_out_of_a_place(record):
    for less in (
        replace(HERE, workspace=NIL),
        replace(HERE, thread=NIL),
        replace(HERE, object=NIL),
    ):
        with pytest.raises(DecryptionError):
            open_sealed(record, key=KEY, context=less)


contexts = st.builds(
    Context,
    st.text(max_size=5),
    *[st.sampled_from([NIL, HERE.workspace, HERE.thread])] * 3,
    step=st.integers(0, 300),
    schema=st.integers(0, 300),
)


@given(contexts, contexts)
def test_no_two_places_look_the_same(one, other):
    assert (one.encode() == other.encode()) == (one == other)


@pytest.mark.parametrize(
    "key",
    [
        DataKey(KEY.id, bytes(32)),  # a wrong secret under the right id
        DataKey(uuid7(), KEY.secret),  # the right secret under a wrong id
        DataKey(uuid7(), bytes(32)),
    ],
    ids=["secret", "id", "both"],
)
def test_a_record_opens_only_under_its_own_key(record, key):
    with pytest.raises(DecryptionError):
        open_sealed(record, key=key, context=HERE)


def test_a_forger_learns_nothing_from_what_the_refusal_says(record):
    tag, commitment = bytearray(record), bytearray(record)
    tag[-1] ^= 1
    commitment[50] ^= 1
    refusals = set()
    for forged, key, context in [
        (bytes(tag), KEY, HERE),
        (bytes(commitment), KEY, HERE),
        (record, KEY, ELSEWHERE),
        (record, DataKey(KEY.id, bytes(32)), HERE),
        (record, DataKey(uuid7(), KEY.secret), HERE),
    ]:
        with pytest.raises(DecryptionError) as refusal:
            open_sealed(forged, key=key, context=context)
        assert type(refusal.value) is DecryptionError
        assert refusal.value.__cause__ is None
        refusals.add(str(refusal.value))
    assert len(refusals) == 1


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        PLAIN * 10,
        b"\x9dHP\x02" + bytes(200),  # another magic
        b"\x9dHP\x01\x02" + bytes(200),  # another suite
        b"\x9dHP\x01\x00" + bytes(200),
        envelope.MAGIC,
    ],
)
def test_what_was_never_sealed_is_not_taken_for_a_record(text):
    for attempt in (
        lambda: open_sealed(text, key=KEY, context=HERE),
        lambda: envelope.key_id(text),
        lambda: envelope.content(text),
    ):
        with pytest.raises(NotSealed):
            attempt()


def as_written_by(
    packed: bytes, *, codec: int = 0, flags: int = 0, content: int = 1
) -> bytes:
    """A record that is authentic, whatever it holds: made from docs/sealed-record.md."""
    salt = bytes(24)
    header = bytes.fromhex("9d48500101") + bytes([codec, content, flags]) + KEY.id.bytes
    header += salt
    okm = HKDF(SHA512(), 76, salt, b"holdpoint sealed record 1").derive(KEY.secret)
    bound = header + okm[44:]
    sealed = AESGCM(okm[:32]).encrypt(okm[32:44], packed, bound + HERE.encode())
    return bound + sealed


def test_an_authentic_record_opens_however_it_was_packed():
    zstd = zstandard.ZstdCompressor(level=19)
    record = as_written_by(zstd.compress(PLAIN), codec=1)
    assert open_sealed(record, key=KEY, context=HERE) == PLAIN
    assert open_sealed(as_written_by(PLAIN), key=KEY, context=HERE) == PLAIN


@pytest.mark.parametrize(
    ("packed", "header"),
    [
        (PLAIN, {"flags": 1}),
        (PLAIN, {"codec": 2}),
        (PLAIN, {"codec": 1}),  # says zstd, is not
        (b"", {"codec": 1}),
        (
            zstandard.ZstdCompressor(write_content_size=False).compress(PLAIN),
            {"codec": 1},
        ),
        (zstandard.ZstdCompressor().compress(PLAIN) + b"more", {"codec": 1}),
        (zstandard.ZstdCompressor().compress(PLAIN)[:-3], {"codec": 1}),
        # Claims a gigabyte.
        (bytes.fromhex("28b52ffda000000040010000"), {"codec": 1}),
    ],
)
def test_even_an_authentic_record_is_read_only_as_version_1_writes_it(packed, header):
    with pytest.raises(NotSealed):
        open_sealed(as_written_by(packed, **header), key=KEY, context=HERE)


def test_an_unknown_content_type_has_no_name():
    with pytest.raises(NotSealed):
        envelope.content(as_written_by(PLAIN, content=9))


def test_no_record_is_made_that_could_not_be_opened():
    with pytest.raises(ValueError, match="too many for one record"):
        seal(bytes(envelope.MAX_PLAIN + 1), key=KEY, context=HERE)


THREAD_KEY = uuid7()
KEY_ROW = replace(HERE, purpose="key", object=THREAD_KEY)


def test_a_wrapped_key_is_unwrapped_again():
    wrapped = wrap(b"s" * 32, wrapping=KEY, context=KEY_ROW)
    assert unwrap(wrapped, wrapping=KEY, context=KEY_ROW) == b"s" * 32
    assert envelope.content(wrapped) is Content.KEY


def test_a_key_swapped_for_another_is_refused():
    other_row = replace(KEY_ROW, object=uuid7())
    wrapped = wrap(b"s" * 32, wrapping=KEY, context=other_row)
    with pytest.raises(DecryptionError):
        unwrap(wrapped, wrapping=KEY, context=KEY_ROW)


def test_what_is_not_a_wrapped_key_is_not_unwrapped():
    secret = b"s" * 32
    check = check_value(secret, THREAD_KEY)
    no_key = seal(check + secret, key=KEY, context=KEY_ROW)
    no_check = seal(bytes(16) + secret, key=KEY, context=KEY_ROW, content=Content.KEY)
    for forged in (no_key, no_check):
        with pytest.raises(DecryptionError):
            unwrap(forged, wrapping=KEY, context=KEY_ROW)


def test_a_check_value_belongs_to_one_secret_and_one_key():
    seen = {
        check_value(s, k) for s in (b"s" * 32, b"t" * 32) for k in (NIL, THREAD_KEY)
    }
    assert len(seen) == 4
    assert {len(check) for check in seen} == {16}


def vectors() -> list[dict[str, Any]]:
    page = Path(__file__).parents[2] / "docs" / "sealed-record.md"
    match = re.search(r"```json\n(.*?)```", page.read_text(), re.DOTALL)
    assert match
    found: list[dict[str, Any]] = json.loads(match[1])
    return found


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector["name"])
def test_the_published_vectors_hold(vector):
    key = DataKey(UUID(vector["key_id"]), bytes.fromhex(vector["secret"]))
    context = Context(
        vector["purpose"],
        workspace=UUID(vector["workspace"]),
        thread=UUID(vector["thread"]),
        object=UUID(vector["object"]),
        step=vector["step"],
        schema=vector["schema"],
    )
    header, commitment, ciphertext, tag, plain = (
        bytes.fromhex(vector[name])
        for name in ("header", "commitment", "ciphertext", "tag", "plain")
    )
    assert context.encode().hex() == vector["context"]
    record = header + commitment + ciphertext + tag
    # As the page tells it, without our code.
    okm = HKDF(SHA512(), 76, header[24:], b"holdpoint sealed record 1").derive(
        key.secret
    )
    assert commitment == okm[44:]
    packed = AESGCM(okm[:32]).decrypt(
        okm[32:44], ciphertext + tag, header + commitment + context.encode()
    )
    unpacked = zstandard.ZstdDecompressor().decompress(packed) if header[5] else packed
    # And with it.
    if header[6] == Content.KEY:
        message = b"holdpoint key check 1" + context.object.bytes
        assert unpacked == hmac.digest(plain, message, "sha256")[:16] + plain
        assert unwrap(record, wrapping=key, context=context) == plain
    else:
        assert unpacked == plain
        assert open_sealed(record, key=key, context=context) == plain
