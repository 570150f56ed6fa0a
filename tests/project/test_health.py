from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client

from checkpoints.ids import first_at, uuid7


def test_the_process_answers_without_asking_anyone(client: Client):
    answer = client.get("/healthz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok"}
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.django_db
def test_it_is_ready_while_the_database_answers(client: Client):
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["database"] == "ok"


@pytest.mark.django_db
def test_a_queue_that_is_away_is_reported_and_stops_no_page(client: Client, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = client.get("/readyz")
    assert answer.status_code == 200
    said = answer.json()
    assert (said["status"], said["redis"], said["rings"]) == ("ok", "unreachable", None)


@pytest.mark.django_db
def test_it_is_ready_without_workers_and_says_that_there_are_none(client: Client):
    said = client.get("/readyz").json()
    assert said["status"] == "ok"
    assert said["workers"] == {"alive": 0, "silent": 0}
    assert said["reaper"] == {"last_sweep_s": None, "overdue_s": None}


@pytest.mark.django_db
def test_tables_that_are_not_there_yet_take_the_report_only(client: Client):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE agents_worker RENAME TO elsewhere")
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert "workers" not in answer.json()


def test_the_least_id_of_a_moment_precedes_what_was_made_since():
    moment = datetime.now(UTC)
    assert first_at(moment) < uuid7()
    assert uuid7() < first_at(moment + timedelta(seconds=5))


@pytest.mark.django_db(transaction=True)
def test_without_a_database_it_is_not_ready(client: Client):
    host = connection.settings_dict["HOST"]
    connection.close()
    connection.settings_dict["HOST"] = "/nonexistent"
    try:
        answer = client.get("/readyz")
    finally:
        connection.settings_dict["HOST"] = host
        connection.close()
    assert answer.status_code == 503
    assert answer.json()["database"] == "unreachable"
