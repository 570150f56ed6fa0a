"""A workspace, the people in it, and threads to look at."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import pytest
from django.contrib.auth.models import User
from hypothesis import HealthCheck, settings

from checkpoints import gate
from checkpoints.access import Role, UserPrincipal
from checkpoints.db.session import DatabaseRole, acting_as
from checkpoints.keys.hierarchy import create_workspace_keys
from checkpoints.log.hydrate import History, read
from checkpoints.log.threads import create_thread
from checkpoints.models import Branch, Membership, Workspace
from checkpoints.pure.codec import State

pytest_plugins = ["tests.emptying", "tests.llm", "tests.measuring"]

# A law that holds slowly, on a machine with much else to do, still holds.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

STATE: State = {
    "_schema": 1,
    "messages": [{"id": "m1", "role": "user", "content": "Find me a flight."}],
    "params": {"model": "scripted", "temperature": 0, "seed": 7},
    "goal": "",
    "plan": [],
    "facts": {},
}


class Join(Protocol):
    """Makes a person and lets them into a workspace."""

    def __call__(
        self,
        name: str,
        role: Role = Role.OPERATOR,
        *,
        can_approve: bool = False,
        to: Workspace | None = None,
    ) -> UserPrincipal: ...


MakeThread = Callable[..., Branch]
Reads = Callable[..., History]


def make_workspace(slug: str) -> Workspace:
    with as_owner():
        made = Workspace.objects.create(slug=slug, name=slug.title())
        create_workspace_keys(made)
    return made


def as_owner() -> AbstractContextManager[None]:
    """What a test sets up by hand, as `manage.py` or the admin would."""
    return acting_as(DatabaseRole.OWNER)


@pytest.fixture(autouse=True)
def _as_worker(request, settings) -> None:
    """A request is the web role's; what a test of services or workers does, the workers'.

    A test of pages sets up and looks around as the owner of the tables. Elsewhere, where
    that is not allowed ("permission denied for table …"): `with as_owner():` around what
    is set up or broken by hand. The mark `owner` is for what an owner's command does, and
    says beside it which one.
    """
    by_request = request.node.path.parent.name in ("pages", "browser", "project")
    if by_request or request.node.get_closest_marker("owner"):
        return
    asks = {"_django_db_helper", "live_server"} & set(request.fixturenames)
    if asks or request.node.get_closest_marker("django_db"):
        # First, so that its tables are emptied by their owner.
        request.getfixturevalue("_django_db_helper")
        settings.DATABASE_ROLE = DatabaseRole.WORKER


@pytest.fixture(autouse=True)
def _quick_passwords(settings) -> None:
    """Everyone's password is their name; the real hashes are slow on purpose."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def blob_dir(settings, tmp_path) -> Path:
    """Large values lie in a directory of the test's own."""
    settings.BLOB_DIR = tmp_path / "blobs"
    return settings.BLOB_DIR


@pytest.fixture
def workspace(db) -> Workspace:
    return make_workspace("acme")


@pytest.fixture
def join(workspace) -> Join:
    def join(name, role=Role.OPERATOR, *, can_approve=False, to=None):
        to = to or workspace
        with as_owner():
            user = User.objects.create_user(
                name, first_name=name.title(), password=name
            )
            Membership.objects.create(
                workspace=to, user=user, role=role, can_approve=can_approve
            )
        return UserPrincipal(
            user_id=user.pk,
            workspace_id=to.pk,
            role=role,
            can_approve=can_approve,
            name=user.get_full_name(),
        )

    return join


@pytest.fixture
def alice(join) -> UserPrincipal:
    """An operator who may approve."""
    return join("alice", can_approve=True)


@pytest.fixture
def bob(join) -> UserPrincipal:
    """Another operator who may approve."""
    return join("bob", can_approve=True)


@pytest.fixture
def omar(join) -> UserPrincipal:
    """An operator without the right to approve."""
    return join("omar")


@pytest.fixture
def viewer(join) -> UserPrincipal:
    return join("vera", Role.VIEWER)


@pytest.fixture
def auditor(join) -> UserPrincipal:
    return join("audrey", Role.AUDITOR)


@pytest.fixture
def other(join) -> UserPrincipal:
    """An admin of another workspace, who may approve there."""
    return join("oscar", Role.ADMIN, can_approve=True, to=make_workspace("rival"))


@pytest.fixture
def make_thread(workspace) -> MakeThread:
    """Makes a thread and gives its main branch: make_thread(owner=alice, title="…")."""

    def make(
        *,
        owner: UserPrincipal | None = None,
        title: str = "A flight",
        state: State = STATE,
        label: str = "Find me a flight.",
        **more: Any,
    ) -> Branch:
        return create_thread(
            workspace=more.pop("workspace", workspace),
            owner_id=owner.user_id if owner else None,
            title=title,
            state=state,
            label=label,
            **more,
        )

    return make


@pytest.fixture
def history(alice) -> Reads:
    """Reads a branch, as alice: history(branch).state_at(3)."""

    def history(branch: Branch, *, by: UserPrincipal = alice, **more: Any) -> History:
        return read(
            gate.admit(by, purpose="test", threads=[branch.thread]), branch, **more
        )

    return history
