"""Wall 2 alone: what is seen when every filter of wall 1 is gone."""

from __future__ import annotations

import gc

import pytest
from django.db import ProgrammingError, connection, transaction
from django.test import Client

from checkpoints import access
from checkpoints.access import Reason
from checkpoints.compiled import Compiled
from checkpoints.db.session import DatabaseRole, acting_as, enter
from checkpoints.models import Thread, Workspace
from checkpoints.models.threads import ThreadQuerySet
from tests.pages import test_sweep as sweep
from tests.pages.forgetful import TABLES, WORKSPACE_OF

make_things = sweep.make_things  # its fixture


@pytest.fixture
def ours(make_things, alice):
    return make_things(alice)


@pytest.fixture
def theirs(make_things, other):
    rival = Workspace.objects.get(pk=other.workspace_id)
    return make_things(other, workspace=rival, visibility="workspace")


def rows_of(workspace_id) -> dict[str, set[str]]:
    """What the owner of the tables finds of a workspace."""
    found = {}
    with connection.cursor() as cursor:
        for table, key in TABLES.items():
            of = WORKSPACE_OF.get(table, "workspace_id")
            cursor.execute(
                f"SELECT {key}::text FROM {table} WHERE {of} = %s",  # noqa: S608
                [workspace_id],
            )
            found[table] = {key for (key,) in cursor.fetchall()}
    return found


@pytest.mark.parametrize("page", ["in_sql", "in_a_transaction", "through_models"])
def test_a_page_without_any_filter_shows_its_workspace_and_no_other(
    page, ours, theirs, alice, other, browser, settings
):
    settings.ROOT_URLCONF = "tests.pages.forgetful"
    shown = browser(alice).get(f"/{page}").json()
    mine, rivals = rows_of(alice.workspace_id), rows_of(other.workspace_id)
    assert sum(map(len, rivals.values())) > 30
    for table, keys in shown.items():
        assert set(keys) == mine[table], table
        assert not set(keys) & rivals[table], table
    assert {"checkpoints_thread", "agents_approval"} <= {t for t in shown if shown[t]}


def test_a_page_that_did_not_ask_who_is_there_shows_nothing(
    ours, theirs, alice, browser, settings
):
    settings.ROOT_URLCONF = "tests.pages.forgetful"
    for client in (Client(), browser(alice)):
        assert not any(client.get("/of_nobody").json().values())


def test_rows_of_others_are_not_changed_and_none_is_given_away(
    ours, theirs, alice, other, browser, settings
):
    settings.ROOT_URLCONF = "tests.pages.forgetful"
    client = browser(alice)
    moved = client.get("/moves", {"thread": theirs.thread}).json()
    assert moved == {"changed": 0}
    gift = {"thread": ours.thread, "workspace": other.workspace_id}
    with pytest.raises(ProgrammingError, match="row-level security"):
        client.get("/plants", gift)


@pytest.mark.parametrize("name", sweep.WITH_IDS)
def test_no_page_of_ours_needs_its_filter_to_keep_a_workspace_out(
    name, theirs, alice, browser, monkeypatch
):
    client = browser(alice)
    remove_filters(monkeypatch)
    sweep.same_as_nothing(client, name, theirs)


def test_lists_show_only_their_workspace_without_filters(
    ours, theirs, alice, browser, monkeypatch
):
    client = browser(alice)
    remove_filters(monkeypatch)
    for name, route in sweep.PAGES.items():
        if route.args is sweep.no_ids:
            text = sweep.ask(client, name, ours, post=False).content.decode()
            assert not [value for value in theirs.values() if value in text], name


def remove_filters(monkeypatch) -> None:
    """As if every view had forgotten whom it works for."""
    for queryset in (
        access.ScopedQuerySet,
        access.ThreadScopedQuerySet,
        ThreadQuerySet,
    ):
        monkeypatch.setattr(
            queryset, "for_user", lambda self, principal: self._scoped("forgotten")
        )
    # What was compiled with the filters is not asked now, nor later what is without.
    for each in gc.get_objects():
        if type(each) is Compiled:  # asks nothing of what is lazy
            monkeypatch.setattr(each, "_statements", {})


# What a session is told, and forgets


def told() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_user, coalesce(current_setting('holdpoint.workspace', true),"
            " '')"
        )
        return list(cursor.fetchone())


def test_a_savepoint_that_is_undone_forgets_nothing(ours, alice):
    owner = told()
    with acting_as(DatabaseRole.WEB):
        with sweep.undone():
            enter(alice.workspace_id)
            assert told() == ["holdpoint_web", str(alice.workspace_id)]
        assert told() == ["holdpoint_web", str(alice.workspace_id)]
        assert Thread.objects.unscoped(Reason.TEST).exists()
    assert told() == owner


@pytest.mark.django_db(transaction=True)
class TestOneConnection:
    def test_nothing_stays_on_it(self, alice):
        before = told()
        with acting_as(DatabaseRole.WEB):
            enter(alice.workspace_id)
            assert told() == ["holdpoint_web", str(alice.workspace_id)]
            with transaction.atomic():
                assert told() == ["holdpoint_web", str(alice.workspace_id)]
        assert told() == before
        # As PostgreSQL has it, without us in between.
        with connection.connection.cursor() as cursor:
            cursor.execute("SELECT current_user")
            assert cursor.fetchone() == (before[0],)

    def test_a_statement_that_fails_leaves_nothing_behind(self, alice):
        with acting_as(DatabaseRole.WEB):
            enter(alice.workspace_id)
            with pytest.raises(ProgrammingError), connection.cursor() as cursor:
                cursor.execute("TRUNCATE checkpoints_thread")
            assert told() == ["holdpoint_web", str(alice.workspace_id)]
        assert told()[1] == ""
