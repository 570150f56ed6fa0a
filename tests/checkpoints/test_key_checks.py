"""Before it serves or works, a process knows that it has the keys; else it stops."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection

from checkpoints.access import Reason
from checkpoints.db import session
from checkpoints.db.checks import require_role
from checkpoints.db.session import DatabaseRole
from checkpoints.keys import checks, hierarchy, keyring, providers
from checkpoints.models import WorkspaceKey
from project import health
from tests.conftest import as_owner, make_workspace
from tests.roles import VARIABLES, as_role

ROOT = Path(__file__).resolve().parents[2]
OLD, NEW = (hashlib.sha256(name).digest() for name in (b"old", b"new"))


@pytest.fixture(autouse=True)
def cold():
    hierarchy.forget()
    yield
    hierarchy.forget()


@pytest.fixture
def under_old(settings):
    settings.KEY_ENCRYPTION_KEYS = {"old": OLD}
    return [make_workspace("one"), make_workspace("two")]


@pytest.mark.django_db
def test_with_every_key_here_it_starts(under_old, settings):
    checks.require_keks()
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW, "old": OLD}
    checks.require_keks()
    with as_owner():
        call_command("keys", "check")


@pytest.mark.django_db
def test_a_missing_key_is_named_with_what_it_wraps_and_the_way_out(under_old, settings):
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW}
    expected = (
        r"'kek:keyring:old:1' is not in KEY_ENCRYPTION_KEYS, which has kek:keyring:new:1\."
        r" Add it to the end of the list\. It wraps 2 workspace keys\."
        r" Nothing was written\."
    )
    with pytest.raises(ImproperlyConfigured, match=expected):
        checks.require_keks()
    with pytest.raises(CommandError, match=expected):
        call_command("worker")
    with pytest.raises(CommandError, match=expected), as_owner():
        call_command("keys", "check")


@pytest.mark.django_db
def test_other_bytes_under_the_same_id_are_found(under_old, settings):
    settings.KEY_ENCRYPTION_KEYS = {"old": NEW}
    with pytest.raises(ImproperlyConfigured, match="other bytes under the same id"):
        checks.require_keks()


@pytest.mark.django_db
def test_one_damaged_row_stops_nobody(under_old):
    rows = WorkspaceKey.objects.unscoped(Reason.TEST)
    damaged = rows.latest("created_at")
    rows.filter(pk=damaged.pk).update(wrapped=bytes(200))
    checks.require_keks()


@pytest.mark.django_db
def test_the_web_role_which_sees_no_workspace_finds_what_is_missing(
    under_old, settings
):
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW}
    with session.acting_as(DatabaseRole.WEB):
        assert not WorkspaceKey.objects.unscoped(Reason.TEST).exists()
        with pytest.raises(ImproperlyConfigured, match="kek:keyring:old:1"):
            checks.require_keks()


@pytest.mark.django_db
def test_without_tables_there_is_nothing_to_miss(under_old, settings):
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW}
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE checkpoints_workspacekey RENAME TO elsewhere")
    checks.require_keks()


@pytest.mark.django_db
def test_a_web_process_that_lacks_a_key_is_not_ready(under_old, settings, client):
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW}
    health._checked.clear()
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["keys"]) == (503, "missing")
    settings.KEY_ENCRYPTION_KEYS = {"new": NEW, "old": OLD}
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["keys"]) == (200, "ok")


# Real processes


def owners() -> str:
    """The address of the test database, with the owner's credentials."""
    where = connection.settings_dict
    who = f"{quote(where['USER'])}:{quote(where['PASSWORD'])}"
    query = f"?host={where['HOST']}&port={where['PORT'] or 5432}"
    return f"postgresql://{who}@/{where['NAME']}{query}"


def start(settings, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A process of that kind, with the credentials of its role."""
    role = DatabaseRole.WORKER if "worker" in command else DatabaseRole.WEB
    base = {
        **os.environ,
        "DATABASE_URL": owners(),
        "REDIS_URL": settings.REDIS_URL,
        "HOLDPOINT_DEMO": "True",
    }
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**as_role(base, role), **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


WEB = ("-c", "import project.asgi")
WORKER = ("manage.py", "worker")
WRONG = "other:" + "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("command", [WEB, WORKER])
def test_a_process_with_the_wrong_key_stops_at_the_start(settings, command):
    make_workspace("acme")
    done = start(settings, *command, KEY_ENCRYPTION_KEYS=WRONG)
    assert done.returncode == 1
    assert "'kek:keyring:demo:1' is not in KEY_ENCRYPTION_KEYS" in done.stderr
    assert "AAECAw" not in done.stderr


@pytest.mark.django_db(transaction=True)
def test_with_the_right_key_the_web_process_starts(settings):
    make_workspace("acme")
    assert start(settings, *WEB).returncode == 0


@pytest.mark.django_db(transaction=True)
def test_without_a_database_the_web_process_starts_and_asks_later(settings):
    away = "postgresql:///x?host=/nonexistent"
    done = start(settings, *WEB, DATABASE_URL=away, DATABASE_WEB_URL=away)
    assert done.returncode == 0
    assert "role and keys were not checked" in done.stderr


# Its database role


def role_of(process: DatabaseRole, signed_in: DatabaseRole, settings) -> dict[str, str]:
    """The environment of a process that signs in with another role's credentials."""
    env = as_role({"DATABASE_URL": owners()}, signed_in)
    if VARIABLES[signed_in] not in env:
        pytest.skip("this server wants passwords, and the roles have none")
    return {VARIABLES[process]: env[VARIABLES[signed_in]]}


PRODUCTION = {
    "HOLDPOINT_DEMO": "False",
    "SECRET_KEY": "k" * 60,
    "KEY_ENCRYPTION_KEYS": WRONG,
    "ALLOWED_HOSTS": "holdpoint.example",
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("command", "process", "signed_in"),
    [
        (WEB, DatabaseRole.WEB, DatabaseRole.WORKER),
        (WORKER, DatabaseRole.WORKER, DatabaseRole.WEB),
    ],
)
def test_a_process_that_is_another_role_stops_at_the_start(
    settings, command, process, signed_in
):
    """Else a web process with the workers' credentials would show every workspace."""
    env = role_of(process, signed_in, settings)
    done = start(settings, *command, **PRODUCTION, **env)
    assert done.returncode == 1
    assert (
        f"The {process} process is '{signed_in.in_postgres}' to PostgreSQL, and cannot"
        f" be '{process.in_postgres}'" in done.stderr
    )
    assert "manage.py roles --sql" in done.stderr
    demo = start(settings, *WEB, **env) if process is DatabaseRole.WEB else None
    if demo:  # where nothing is kept apart from anyone, it is said
        assert demo.returncode == 0
        assert "rows of one workspace would not be kept" in demo.stderr


@pytest.fixture
def taken_away():
    """The owner may not take a role, as where nobody made it."""
    with as_owner():
        connection.ensure_connection()
        ours = connection.connection
        was, ours.may_take, ours.told = ours.may_take, frozenset(), None
    yield
    ours.may_take, ours.told = was, None


@pytest.mark.django_db
def test_who_cannot_take_a_role_does_not_serve_as_the_owner(
    workspace, settings, client, taken_away
):
    settings.LOCAL = False
    health._checked.clear()
    for role in (DatabaseRole.WEB, DatabaseRole.WORKER):
        with (
            session.acting_as(role),
            pytest.raises(
                ImproperlyConfigured, match=f"cannot be '{role.in_postgres}'"
            ),
        ):
            require_role()
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["database"]) == (503, "unprotected")
    with as_owner():
        require_role()  # a command's process is the owner, and meant to be


@pytest.mark.django_db
def test_row_security_that_was_switched_off_is_found(workspace, settings):
    settings.LOCAL = False
    require_role()
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE checkpoints_thread DISABLE ROW LEVEL SECURITY")
    with pytest.raises(ImproperlyConfigured, match="Row security does not hold"):
        require_role()
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE checkpoints_thread RENAME TO elsewhere")
    require_role()  # nothing is there yet


# Settings


def test_two_names_for_the_same_bytes_are_refused(settings):
    settings.KEY_ENCRYPTION_KEYS = {"2025": OLD, "2026": OLD}
    with pytest.raises(ImproperlyConfigured, match="'2025' and '2026' are the same"):
        keyring.check_settings()


def test_a_name_that_does_not_fit_is_refused(settings):
    settings.KEY_ENCRYPTION_KEYS = {"k" * 200: OLD}
    with pytest.raises(ImproperlyConfigured, match="214 characters; 200 fit"):
        keyring.check_settings()


def test_a_provider_that_cannot_be_imported_is_named(settings):
    settings.KEY_PROVIDERS = ["elsewhere.Vault"]
    with pytest.raises(ImproperlyConfigured, match=r"'elsewhere\.Vault'"):
        providers.check_settings()
    settings.KEY_PROVIDERS = []
    with pytest.raises(ImproperlyConfigured, match="names no provider"):
        providers.check_settings()


def test_an_empty_keyring_is_in_order_where_it_is_not_used(settings):
    settings.KEY_ENCRYPTION_KEYS = {}
    settings.KEY_PROVIDERS = ["tests.checkpoints.vault.Vault"]
    keyring.check_settings()
