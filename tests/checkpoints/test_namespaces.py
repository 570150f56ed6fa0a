"""Namespaces do not leak: not to one that is called nearly so, nor to another's."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints import entries
from checkpoints.access import Reason
from checkpoints.entries import Scope
from checkpoints.errors import InvalidEntry
from checkpoints.models import Entry, EntryVersion
from checkpoints.pure.names import (
    DEEPEST,
    LONGEST,
    beginnings,
    name,
    parts,
    path,
    whole,
)

pytestmark = pytest.mark.django_db(transaction=True)

NEAR = [
    "acme", "acme-corp", "acme ", "Acme", "ACME", "acm", "acme%", "acm_", "%", "_", ".",
    "..", "/", "acme/x", "~", "~1", "*", "\\", "'", '"', "[", ",", "\x00", "\n", " ",
    "café", unicodedata.normalize("NFD", "café"), "CAFÉ", "straße", "strasse",
    "\u0131", "i", "ﬁ", "fi", "\u200b", "a\u200bcme", "\uff41\uff43\uff4d\uff45", "顧客", "😀",
]  # fmt: skip
part = st.sampled_from(NEAR) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8
)
names = st.builds(
    lambda of, key: name(of, key), st.lists(part, max_size=3), st.sampled_from(NEAR)
)


def twin(one):
    """A name that differs in one thing at most: the pairs that a lax match confuses."""
    of, key = list(one.namespace), one.key
    joined = [*of[:-2], "".join(of[-2:])] if len(of) > 1 else of
    slashed = ["/".join(of)] if of else of
    return st.sampled_from(
        [
            name(joined, key),
            name(slashed, key),
            name(of[:-1], key),
            name([*of, key], key),
            name([*of[1:], *of[:1]], key),
            *([name(of[:-1], of[-1])] if of else []),
            *(name([*of[:-1], near], key) for near in NEAR if of),
            *(name([*of, near], key) for near in NEAR),
            *(name(of, near) for near in NEAR),
        ]
    )


def hashes(one) -> list[bytes]:
    owner = ["user", "7"]
    return [*beginnings(bytes(32), owner, one.namespace), whole(bytes(32), owner, one)]


pairs = names.flatmap(lambda one: st.tuples(st.just(one), twin(one) | names))


def empty() -> None:
    EntryVersion.objects.unscoped(Reason.TEST).delete()
    Entry.objects.unscoped(Reason.TEST).delete()


def value(by, scope, one) -> Any:
    found = entries.get(by, scope, one)
    return found and found.value


def have(by, scope, prefix=()) -> set[str]:
    return {one.value for one in entries.listed(by, scope, prefix).found}


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pair=pairs)
def test_who_asks_for_one_name_gets_what_was_put_under_it_and_nothing_else(
    pair, alice, bob, other
):
    one, near = pair
    empty()
    places = [
        (who, scope)
        for who in (alice, bob, other)
        for scope in (Scope.USER, Scope.WORKSPACE)
        if not (who is bob and scope == Scope.WORKSPACE)  # it is alice's, too
    ]
    for who, scope in places:
        for n, each in enumerate([one] if one == near else [one, near]):
            entries.put(who, scope, each, f"{who.name} {scope} {n}")
    for who, scope in places:
        mine = f"{who.name} {scope}"
        assert value(who, scope, one) == f"{mine} 0"
        both = {f"{mine} 0", f"{mine} 1"} if one != near else {f"{mine} 0"}
        assert have(who, scope) == both
        for prefix in {one.namespace, near.namespace}:
            below = {
                f"{mine} {n}"
                for n, each in enumerate([one, near])
                if f"{mine} {n}" in both and each.namespace[: len(prefix)] == prefix
            }
            assert have(who, scope, prefix) == below
            found = entries.search(who, scope, mine, prefix, most=9).found
            assert {each.value for each in found} == below
    hashes = [bytes(each.blind_index) for each in Entry.objects.unscoped(Reason.TEST)]
    assert len(set(hashes)) == len(hashes)
    own = [
        {bytes(each) for row in rows for each in row.namespace}
        for rows in (
            Entry.objects.unscoped(Reason.TEST).filter(
                workspace=who.workspace_id, scope=scope, user=user
            )
            for who, scope in places
            for user in [who.user_id if scope == Scope.USER else None]
        )
    ]
    # Equal names of two owners have nothing in common that the database could tell.
    assert sum(map(len, own)) == len(set().union(*own))


@settings(max_examples=1000)
@given(pair=pairs)
def test_two_names_share_hashes_for_as_many_parts_as_they_share(pair):
    one, near = pair
    shared = [a == b for a, b in zip(hashes(one), hashes(near), strict=False)]
    alike = 0
    while (
        alike < min(len(one.namespace), len(near.namespace))
        and one.namespace[alike] == near.namespace[alike]
    ):
        alike += 1
    assert sum(shared) == (len(shared) if one == near else alike)
    assert (hashes(one)[-1] in hashes(near)) == (one == near)


def test_a_neighbour_whose_name_begins_alike_is_not_below_it(alice):
    for customer in ("acme", "acme-corp", "acme/corp"):
        entries.put(alice, Scope.WORKSPACE, name(["c", customer], "tier"), customer)
    assert have(alice, Scope.WORKSPACE, ("c", "acme")) == {"acme"}
    assert have(alice, Scope.WORKSPACE, ("c", "acm")) == set()
    assert have(alice, Scope.WORKSPACE, ("c",)) == {"acme", "acme-corp", "acme/corp"}
    assert have(alice, Scope.WORKSPACE, ("c", "%")) == set()
    assert have(alice, Scope.WORKSPACE, ("c/acme",)) == set()


@given(one=names)
def test_a_name_is_read_back_from_how_people_read_it(one):
    assert parts(one.path) == (*one.namespace, one.key)
    assert path(*parts(one.path)) == one.path


@pytest.mark.parametrize(
    ("of", "key"),
    [
        ([""], "k"),
        (["a", ""], "k"),
        (["a"], ""),
        (["a" * (LONGEST + 1)], "k"),
        (["a"] * (DEEPEST + 1), "k"),
        (["\ud800"], "k"),
    ],
)
def test_a_name_that_is_none_is_refused_in_words(of, key):
    with pytest.raises(InvalidEntry, match=r"part|key"):
        name(of, key)


@pytest.mark.parametrize("typed", ["a//b", "/a", "a~b", "a/~2"])
def test_a_path_that_is_none_is_refused_in_words(typed):
    with pytest.raises(InvalidEntry, match=r"path|characters"):
        parts(typed)
