"""Querysets that are compiled once: they find what they find without that, for everyone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints import audit
from checkpoints.access import Role, UserPrincipal
from checkpoints.compiled import Compiled
from checkpoints.errors import Unscoped
from checkpoints.models import AuditEvent, Group, Membership, Thread
from tests.conftest import as_owner

pytestmark = pytest.mark.django_db


def by_id(by, pk):
    return Thread.objects.for_user(by).filter(pk=pk).select_related("owner")


def visible(by):
    return Thread.objects.for_user(by).order_by("pk")


@pytest.fixture
def threads(workspace, alice, bob):
    """Everyone's, Alice's and Bob's own, and those of two groups."""
    with as_owner():
        groups = [Group.objects.create(workspace=workspace, name=n) for n in "ab"]
    made = [
        Thread.objects.create(workspace=workspace, visibility="workspace"),
        Thread.objects.create(
            workspace=workspace, visibility="private", owner_id=alice.user_id
        ),
        Thread.objects.create(
            workspace=workspace, visibility="private", owner_id=bob.user_id
        ),
        *(
            Thread.objects.create(workspace=workspace, visibility="group", group=one)
            for one in groups
        ),
    ]
    return made, groups


def test_each_person_sees_what_the_queryset_shows_them(threads, alice, bob):
    found = Compiled(visible)
    _, (a, b) = threads
    people = [
        alice,
        bob,
        replace(alice, groups=frozenset([a.pk])),
        replace(bob, groups=frozenset([b.pk])),
        replace(bob, groups=frozenset([a.pk, b.pk])),
        replace(alice, groups=frozenset([b.pk, a.pk])),
    ]
    seen = []
    for person in people * 2:  # the second time from what was compiled
        rows = found.rows(person)
        assert rows == list(visible(person))
        seen.append(frozenset(row.pk for row in rows))
    assert len(set(seen)) == len(people)


def test_rows_are_the_models_with_what_was_joined(threads, alice):
    (_, own, *_), _ = threads
    find = Compiled(by_id)
    find.first(alice, pk=own.pk)
    with CaptureQueriesContext(connection) as asked:
        found = find.first(alice, pk=own.pk)
        assert found.owner.pk == alice.user_id
    assert len(asked) == 1
    assert find.first(alice, pk=uuid4()) is None


def test_it_is_built_once_for_a_kind_of_person(workspace, alice, bob):
    built: list[UserPrincipal] = []

    def build(by):
        built.append(by)
        return visible(by)

    found = Compiled(build)
    for person in (alice, bob, alice):
        found.rows(replace(person, role=Role.OPERATOR, can_approve=True))
    assert len(built) == 1
    assert built[0].user_id not in (alice.user_id, bob.user_id)
    found.rows(replace(alice, role=Role.VIEWER))
    assert len(built) == 2


def test_what_nobody_can_find_asks_nothing(alice, django_assert_num_queries):
    nothing = Compiled(lambda by: Thread.objects.for_user(by).filter(pk__in=[]))
    with django_assert_num_queries(0):
        assert nothing.rows(alice) == []


def test_ids_inside_json_are_the_requests_own(workspace, alice):
    """The Inbox asks for requests of one's groups by ids within their terms."""

    def of_group(by):
        (group,) = by.groups
        asked = AuditEvent.objects.for_user(by)
        return asked.filter(action="note", detail__groups__contains=[str(group)])

    first, second = uuid4(), uuid4()
    audit.record(alice, "note", groups=[str(second)])
    found = Compiled(of_group)
    assert found.rows(replace(alice, groups=frozenset([first]))) == []
    (event,) = found.rows(replace(alice, groups=frozenset([second])))
    assert event.detail["groups"] == [str(second)]


@pytest.mark.parametrize(
    "build",
    [
        lambda by, name: Membership.objects.for_user(by),
        lambda by, name: Group.objects.for_user(by).filter(name__contains=name),
    ],
    ids=["nowhere", "into another"],
)
def test_a_value_that_goes_elsewhere_is_an_error(alice, build):
    with pytest.raises(AssertionError):
        Compiled(build).rows(alice, name="ops")


LONG = "a key that is longer than what psycopg shows of JSON"


@pytest.mark.parametrize(
    "build",
    [
        lambda by: Thread.objects.for_user(by)[: by.user_id],
        lambda by: AuditEvent.objects.for_user(by).exclude(
            detail__contains={LONG: LONG, "by": str(by.user_id)}
        ),
        lambda by: AuditEvent.objects.for_user(by).exclude(
            detail__by=by.workspace_id.hex
        ),
    ],
    ids=["a limit", "deep in JSON", "another form"],
)
def test_nor_does_the_person_go_elsewhere(alice, build):
    with pytest.raises(AssertionError):
        Compiled(build).rows(alice)


def test_a_value_may_be_named_as_the_person_is(threads, alice, bob):
    """It takes the place of nothing that is the principal's own."""

    def not_mine(by, user, workspace):
        mine = Thread.objects.for_user(by).exclude(owner_id=by.user_id)
        return mine.exclude(pk=workspace).exclude(owner_id=user)

    (_, own, *_), _ = threads
    found = Compiled(not_mine)
    values = {"user": bob.user_id, "workspace": uuid4()}
    rows = found.rows(alice, **values)
    assert rows == list(not_mine(alice, **values))
    assert own not in rows


def test_what_could_be_taken_for_another_value_is_refused(alice):
    """True is 1: every 1 of the statement would be the value."""
    mine = Compiled(lambda by, on: Membership.objects.for_user(by).filter(pk__gt=on))
    with pytest.raises(AssertionError):
        mine.rows(alice, on=True)


@pytest.mark.django_db(transaction=True)
def test_whoever_compiles_first_nobody_gets_what_is_of_another(threads, alice, bob):
    """Several people ask at once for what was never compiled."""
    _, (a, b) = threads
    people = [
        alice,
        bob,
        replace(alice, groups=frozenset([a.pk])),
        replace(bob, groups=frozenset([b.pk])),
    ]
    expected = [list(visible(person)) for person in people]
    start = Barrier(len(people))
    found: list[Compiled] = []

    def ask(who: int) -> list[Thread]:
        try:
            start.wait()
            return found[-1].rows(people[who])
        finally:
            connection.close()

    with ThreadPoolExecutor(len(people)) as pool:
        for _ in range(20):
            found.append(Compiled(visible))
            assert list(pool.map(ask, range(len(people)))) == expected


def test_a_queryset_of_nobody_is_refused(alice):
    with pytest.raises(Unscoped):
        Compiled(lambda by: Thread.objects.all()).rows(alice)
