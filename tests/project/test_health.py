from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client


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
    assert answer.json() == {
        "status": "ok",
        "database": "ok",
        "keys": "ok",
        "redis": "unreachable",
    }


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
