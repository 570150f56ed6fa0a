"""More requests at once than there are connections: they wait, and are told to come again."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from agents.pages.inbox.opening import open_asked
from checkpoints import tokens
from checkpoints.access import Role
from checkpoints.models import Branch
from tests.conftest import as_owner
from tests.workers.conftest import pending, wait_until
from tests.workers.test_decide_at_once import ByForm
from tests.workers.web import web

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)"
            " WHERE datname = current_database() AND NOT granted"
        )
        return cursor.fetchone() != (0,)


def test_who_gets_no_connection_in_time_is_told_to_come_again(
    begin, server, work, workers, join, tmp_path
):
    log = tmp_path / "web.log"
    env = {**workers.web_env, "DATABASE_POOL": "1", "DATABASE_WAIT_SECONDS": "1"}
    person = join("ada", Role.ADMIN, can_approve=True)
    with as_owner():
        token = tokens.make(person.workspace_id, name="x", scopes=["read"], by=person)
        user = User.objects.get(pk=person.user_id)
    server.will_call("c0", "book", item="TP 1", price="1200")
    run = begin()
    work()
    (asked,) = pending(run)
    shown = open_asked(person, asked).shown
    with web(env, log) as address:
        with as_owner():
            ada = ByForm(address, user)
            ada.shown = shown

        def ask(path: str, **headers: str) -> tuple[int, Message, str]:
            asks = Request(f"{address}{path}", headers=headers)  # noqa: S310  # ours
            try:
                with urlopen(asks, timeout=60) as answer:  # noqa: S310
                    return answer.status, answer.headers, answer.read().decode()
            except HTTPError as answer:
                return answer.code, answer.headers, answer.read().decode()

        with ThreadPoolExecutor(1) as pool:
            with transaction.atomic():
                Branch.objects.select_for_update().get(pk=run.branch_id)
                # It has the only connection, and waits for us.
                first = pool.submit(ada.decide, asked)
                wait_until(somebody_waits_for_a_lock)
                status, headers, page = ask("/inbox/", Cookie=ada.cookies)
                assert (status, headers["Retry-After"]) == (503, "5"), log.read_text()
                assert "Too much is asked at once" in page
                assert "Nothing was decided or changed" in page
                assert "default-src 'none'" in headers["Content-Security-Policy"]
                status, headers, text = ask(
                    "/api/v1/approvals", Authorization=f"Bearer {token[1]}"
                )
                assert (status, headers["Retry-After"]) == (503, "5")
                assert headers["Content-Type"] == "application/problem+json"
                said = json.loads(text)
                assert (said["code"], said["retry"]) == ("busy", True)
                # The admin asks who this is before its view is called.
                status, headers, page = ask("/admin/", Cookie=ada.cookies)
                assert (status, headers["Retry-After"]) == (503, "5")
                assert ask("/healthz")[0] == 200
            assert first.result()[0] in (200, 303)
        assert ask("/inbox/", Cookie=ada.cookies)[0] == 200
    told = log.read_text()
    assert told.count("Service Unavailable") == 3, told
    assert "PoolTimeout" not in told, told
