"""The state chain: a MAC changes with everything that it covers."""

from __future__ import annotations

import hmac
from hashlib import sha256
from itertools import combinations
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.errors import NotStorable
from checkpoints.pure import codec
from checkpoints.pure.chain import MAC_BYTES, START, keyed_digest, link, link_digest
from tests.checkpoints.strategies import near_twins, values

KEY = b"k" * 32
BRANCH, PARENT = UUID(int=1), UUID(int=2)
STEP: dict[str, Any] = {
    "mac_key": KEY,
    "previous": b"p" * 32,
    "branch": BRANCH,
    "step": 3,
    "parent": PARENT,
    "metadata": b'{"kind":"model"}',
    "operations": b'[["unset","/a"]]',
}
OTHERWISE: dict[str, Any] = {
    "mac_key": b"l" * 32,
    "previous": START,
    "branch": PARENT,
    "step": 4,
    "parent": None,
    "metadata": b'{"kind":"tool"}',
    "operations": b'[["unset","/b"]]',
}


def test_a_link_is_what_the_documentation_says():
    message = b"".join(
        len(part).to_bytes(8, "big") + part
        for part in (
            b"holdpoint state chain 1",
            STEP["previous"],
            BRANCH.bytes,
            (3).to_bytes(8, "big"),
            PARENT.bytes,
            STEP["metadata"],
            sha256(STEP["operations"]).digest(),
        )
    )
    assert link(**STEP) == hmac.digest(KEY, message, "sha256")
    assert len(link(**STEP)) == len(START) == MAC_BYTES


def test_every_part_of_a_step_changes_its_mac():
    macs = {link(**STEP)}
    for names in [*combinations(STEP, 1), *combinations(STEP, 2)]:
        macs.add(link(**{**STEP, **{name: OTHERWISE[name] for name in names}}))
    assert len(macs) == 1 + 7 + 21


def test_bytes_do_not_wander_from_one_part_to_the_next():
    shifted = {**STEP, "previous": b"p" * 31, "metadata": STEP["metadata"] + b"p"}
    assert link(**shifted) != link(**STEP)
    no_parent = {**STEP, "parent": None}
    moved = {**no_parent, "metadata": PARENT.bytes + STEP["metadata"]}
    assert link(**moved) != link(**STEP)


def test_a_link_can_be_made_without_the_operations_from_their_digest():
    rest = {name: part for name, part in STEP.items() if name != "operations"}
    digest = sha256(STEP["operations"]).digest()
    assert link_digest(**rest, operations_digest=digest) == link(**STEP)


@given(near_twins() | st.tuples(values, values))
def test_digests_are_equal_exactly_when_values_are_the_same(pair):
    one, other = (keyed_digest(KEY, "arguments", value) for value in pair)
    assert (one == other) == codec.same(*pair)


def test_digests_differ_by_key_and_purpose_and_are_no_links():
    digests = {
        keyed_digest(KEY, "arguments", {}),
        keyed_digest(KEY, "cache", {}),
        keyed_digest(b"l" * 32, "arguments", {}),
    }
    assert len(digests) == 3
    assert {len(digest) for digest in digests} == {32}


def test_what_cannot_be_stored_has_no_digest():
    with pytest.raises(NotStorable):
        keyed_digest(KEY, "arguments", {"at": object()})
