"""The web process, as its role, on one connection that all requests share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from django.db import connection

from checkpoints.models import Workspace
from tests.conftest import as_owner
from tests.workers.web import Visitor, web

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

ROUNDS = 15


def test_requests_of_two_workspaces_take_turns_on_a_connection_and_mix_nothing_up(
    workers, alice, other, make_thread, tmp_path
):
    make_thread(owner=alice, title="Acme only")
    rival = Workspace.objects.get(pk=other.workspace_id)
    make_thread(owner=other, title="Rival only", workspace=rival)
    env = {**workers.web_env, "DATABASE_POOL": "1", "HOLDPOINT_DEMO": "True"}
    with as_owner():  # with a hash that the process knows
        for user in User.objects.all():
            hashed = PBKDF2PasswordHasher().encode(user.username, "salt", iterations=1)
            User.objects.filter(pk=user.pk).update(password=hashed)
    with web(env, tmp_path / "web.log") as address:
        visitors = {}
        for name, title in (("alice", "Acme only"), ("oscar", "Rival only")):
            visitors[title] = Visitor(address)
            visitors[title].sign_in(name, name)

        def look(title: str) -> list[str]:
            return [visitors[title].open("/threads/") for _ in range(ROUNDS)]

        with ThreadPoolExecutor(len(visitors)) as both:
            seen = dict(zip(visitors, both.map(look, visitors), strict=True))
        with as_owner(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE usename = 'holdpoint_web' AND datname = current_database()"
            )
            (connections,) = cursor.fetchone()
    for mine, pages in seen.items():
        (theirs,) = set(seen) - {mine}
        for page in pages:
            assert mine in page
            assert theirs not in page
    # A server that trusts nobody lets the process sign in as the owner, and take the role.
    assert connections == (1 if "DATABASE_WEB_URL" in workers.web_env else 0)
