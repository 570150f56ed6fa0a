"""A grant holds: as an opening asks, and as the statement of a step is told."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints import gate
from checkpoints.access import Reason, Role, RunPrincipal
from checkpoints.db.prepared import Prepared
from checkpoints.errors import NotPermitted
from checkpoints.ids import uuid7
from checkpoints.models import ApiToken, Grant, Membership
from tests.conftest import as_owner

pytestmark = pytest.mark.django_db

TOLD = Prepared(f"SELECT ({gate.GRANTED})::text")
LONG_AGO = timezone.now() - timedelta(days=1)
GRANT = Grant.objects.unscoped(Reason.TEST)
MINE = Membership.objects.unscoped(Reason.TEST)
TOKEN = ApiToken.objects.unscoped(Reason.TEST)


def _of_a_person(branch, user_id: int) -> Grant:
    return Grant.objects.create(
        workspace_id=branch.workspace_id, thread=branch.thread, user_id=user_id
    )


def _of_a_program(branch) -> Grant:
    token = ApiToken.objects.create(
        workspace_id=branch.workspace_id,
        name="nightly",
        prefix="hp_1",
        digest=b"x" * 32,
    )
    return Grant.objects.create(
        workspace_id=branch.workspace_id, thread=branch.thread, token=token
    )


def _agree(grant: Grant, branch, **wrong) -> bool:
    """Whether it holds, which both ways of asking say."""
    run = RunPrincipal(
        run_id=uuid7(),
        **{
            "workspace_id": branch.workspace_id,
            "thread_id": branch.thread_id,
            "grant_id": grant.pk,
            **wrong,
        },
    )
    told = TOLD.row(
        {"grant": run.grant_id, "workspace": run.workspace_id, "thread": run.thread_id}
    )
    try:
        gate.admit(run, purpose="run", threads=[branch.thread])
    except NotPermitted:
        assert told == ("false",)
        return False
    assert told == ("true",)
    return True


@pytest.mark.parametrize("wrong", ["grant_id", "workspace_id", "thread_id"])
def test_it_is_for_its_own_thread(make_thread, alice, wrong):
    branch = make_thread(owner=alice)
    grant = _of_a_person(branch, alice.user_id)
    assert _agree(grant, branch)
    assert not _agree(grant, branch, **{wrong: uuid7()})


@pytest.mark.parametrize("role", Role.values)
def test_a_person_gives_it_who_may_operate(make_thread, alice, role):
    branch = make_thread(owner=alice)
    grant = _of_a_person(branch, alice.user_id)
    with as_owner():
        MINE.filter(user_id=alice.user_id).update(role=role)
    assert _agree(grant, branch) == (role in ("operator", "admin"))


def test_it_ends_with_the_person_the_membership_and_when_it_is_revoked(
    make_thread, alice, bob, omar
):
    branch = make_thread()
    gone, left, revoked = (
        _of_a_person(branch, person.user_id) for person in (alice, bob, omar)
    )
    with as_owner():
        User.objects.filter(pk=alice.user_id).update(is_active=False)
        MINE.filter(user_id=bob.user_id).delete()
        GRANT.filter(pk=revoked.pk).update(revoked_at=timezone.now())
    assert not any(_agree(grant, branch) for grant in (gone, left, revoked))


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({}, True),
        ({"expires_at": timezone.now() + timedelta(days=1)}, True),
        ({"expires_at": LONG_AGO}, False),
        ({"revoked_at": LONG_AGO}, False),
        ({"digest": b""}, False),
    ],
)
def test_a_programs_lives_as_long_as_its_token(make_thread, change, holds):
    branch = make_thread()
    with as_owner():
        grant = _of_a_program(branch)
        TOKEN.update(**change)
    assert _agree(grant, branch) == holds
