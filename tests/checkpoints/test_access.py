"""Who sees which rows, and queries that name nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asgiref.sync import async_to_sync
from django.db.models import Count

from checkpoints.access import Reason, RunPrincipal, unscoped
from checkpoints.db.prepared import Prepared
from checkpoints.errors import Unscoped
from checkpoints.ids import uuid7
from checkpoints.models import (
    Branch,
    Checkpoint,
    CheckpointDelta,
    Group,
    Membership,
    Thread,
)
from checkpoints.models.threads import VISIBLE
from tests.conftest import as_owner

pytestmark = pytest.mark.django_db

EVALUATIONS = {
    "list": list,
    "len": len,
    "bool": bool,
    "slice": lambda rows: rows[0],
    "iterator": lambda rows: list(rows.iterator()),
    "count": lambda rows: rows.count(),
    "exists": lambda rows: rows.exists(),
    "contains": lambda rows: rows.contains(Thread(pk=uuid7())),
    "get": lambda rows: rows.get(pk=uuid7()),
    "first": lambda rows: rows.first(),
    "last": lambda rows: rows.last(),
    "latest": lambda rows: rows.latest("created_at"),
    "in_bulk": lambda rows: rows.in_bulk([uuid7()]),
    "values": lambda rows: list(rows.values("pk")),
    "values_list": lambda rows: list(rows.values_list("pk", flat=True)),
    "dates": lambda rows: list(rows.datetimes("created_at", "day")),
    "aggregate": lambda rows: rows.aggregate(Count("pk")),
    "explain": lambda rows: rows.explain(),
    "update": lambda rows: rows.update(external_id="x"),
    "delete": lambda rows: rows.all().delete(),
    "bulk_update": lambda rows: rows.bulk_update(
        [Thread(pk=uuid7(), external_id="x")], ["external_id"]
    ),
    "get_or_create": lambda rows: rows.get_or_create(pk=uuid7()),
    "update_or_create": lambda rows: rows.update_or_create(pk=uuid7()),
    "select_for_update": lambda rows: list(rows.select_for_update()),
    "raw": lambda rows: list(rows.raw("SELECT * FROM checkpoints_thread")),
    "union": lambda rows: list(rows.unscoped(Reason.TEST).union(rows)),
    "or": lambda rows: list(rows.unscoped(Reason.TEST) | rows),
    "xor": lambda rows: list(rows.unscoped(Reason.TEST) ^ rows),
    "filtered": lambda rows: list(rows.filter(origin="run").order_by("pk")),
}


@pytest.mark.parametrize("evaluate", EVALUATIONS.values(), ids=EVALUATIONS.keys())
def test_a_query_without_a_scope_does_not_run(make_thread, evaluate):
    make_thread()
    with pytest.raises(Unscoped, match="Thread"):
        evaluate(Thread.objects.all())


@pytest.mark.parametrize(
    "evaluate",
    [
        lambda rows: list(rows.iterator()),
        lambda rows: list(rows.raw("SELECT * FROM checkpoints_thread")),
        lambda rows: list(rows.union(rows)),
        lambda rows: list(rows | rows.filter(origin="run")),
        lambda rows: list(rows ^ rows.none()) and list(rows),
        lambda rows: rows.aggregate(n=Count("pk"))["n"],
        lambda rows: rows.explain(),
        lambda rows: rows.update(external_id="x"),
    ],
)
def test_with_a_scope_it_does(make_thread, alice, evaluate):
    make_thread()
    assert evaluate(Thread.objects.for_user(alice))


def test_nor_does_an_asynchronous_one(make_thread):
    make_thread()

    async def walk() -> list[Thread]:
        return [thread async for thread in Thread.objects.all()]

    with pytest.raises(Unscoped):
        async_to_sync(walk)()


def test_what_a_row_leads_to_is_scoped_by_that_row(make_thread, alice):
    thread = make_thread(owner=alice).thread
    assert thread.branches.count() == 1
    [found] = Thread.objects.for_user(alice).prefetch_related("branches__checkpoints")
    assert found.branches.all()[0].checkpoints.all()[0].step == 0


def test_a_query_that_asks_for_nothing_needs_no_scope():
    assert list(Thread.objects.none()) == []
    assert not Thread.objects.none().exists()


def test_a_block_may_look_everywhere_and_says_why(make_thread):
    make_thread()
    with unscoped(Reason.TEST):
        assert Thread.objects.count() == 1
    with pytest.raises(Unscoped):
        Thread.objects.count()


def test_a_template_cannot_change_rows_through_a_queryset():
    for method in (Thread.objects.none().update, Thread.objects.none().delete):
        assert vars(method)["alters_data"]
    assert not hasattr(Thread.objects, "delete")


def test_another_workspace_sees_nothing(make_thread, alice, other):
    branch = make_thread(owner=alice)
    for model in (Thread, Branch, Checkpoint, CheckpointDelta):
        assert model.objects.for_user(alice).exists()
        assert not model.objects.for_user(other).exists()
    assert not Branch.objects.for_user(other).filter(pk=branch.pk).exists()


def test_a_private_thread_is_its_owners(make_thread, alice, bob):
    branch = make_thread(owner=alice, visibility="private")
    assert Thread.objects.for_user(alice).get() == branch.thread
    assert Checkpoint.objects.for_user(alice).exists()
    assert not Thread.objects.for_user(bob).exists()
    assert not Checkpoint.objects.for_user(bob).exists()


def test_a_groups_thread_is_seen_by_its_members_and_its_owner(
    make_thread, workspace, alice, bob, omar
):
    bobs = Membership.objects.unscoped(Reason.TEST).get(user_id=bob.user_id)
    with as_owner():
        group = Group.objects.create(workspace=workspace, name="Travel")
        group.members.add(bobs)
    make_thread(owner=alice, visibility="group", group=group)
    bob = type(bob)(**{**vars(bob), "groups": frozenset({group.pk})})
    assert Thread.objects.for_user(alice).exists()
    assert Thread.objects.for_user(bob).exists()
    assert not Thread.objects.for_user(omar).exists()


SEEN = Prepared(
    f"SELECT id FROM {Thread._meta.db_table} thread"  # noqa: S608  # our own names
    f" WHERE workspace_id = %(workspace)s AND {VISIBLE}"
)


def test_a_statement_of_our_own_shows_the_same_threads(
    make_thread, workspace, alice, bob, omar
):
    with as_owner():
        group = Group.objects.create(workspace=workspace, name="Travel")
    for owner in (alice, bob, None):
        for visibility in Thread.Visibility.values:
            shared = {"group": group} if visibility == "group" else {}
            make_thread(owner=owner, visibility=visibility, **shared)
    counts = []
    for person, groups in (
        (alice, {group.pk}),
        (bob, ()),
        (omar, ()),
        (omar, {uuid7()}),
    ):
        person = replace(person, groups=frozenset(groups))
        seen = SEEN.execute(
            {
                "workspace": person.workspace_id,
                "user": person.user_id,
                "groups": list(map(str, person.groups)),
            }
        ).fetchall()
        threads = Thread.objects.for_user(person).values_list("pk", flat=True)
        assert {id for (id,) in seen} == set(threads)
        counts.append(len(seen))
    assert counts == [7, 5, 3, 3]  # of nine


def test_a_run_sees_the_thread_that_it_works_on(make_thread, workspace):
    mine, theirs = make_thread(), make_thread()
    run = RunPrincipal(
        run_id=uuid7(),
        workspace_id=workspace.pk,
        thread_id=mine.thread_id,
        grant_id=uuid7(),
    )
    assert Thread.objects.for_run(run).get() == mine.thread
    assert Branch.objects.for_run(run).get() == mine
    assert not Branch.objects.for_run(run).filter(pk=theirs.pk).exists()


def test_the_thread_that_moved_last_comes_first(make_thread, alice):
    from checkpoints.log.append import NewStep, commit, writer

    first, second = make_thread(), make_thread()
    in_order = Thread.objects.for_user(alice).by_activity()
    assert list(in_order) == [second.thread, first.thread]
    commit(writer(first), NewStep("model", [], ""))
    assert list(in_order.all()) == [first.thread, second.thread]
