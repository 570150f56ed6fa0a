"""What people ask of runs is answered by an index, among many: the planner says by which.

docs/questions.md has the same questions as SQL; a test runs each of them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.db import connection
from django.http import QueryDict

from agents.models import Run
from agents.pages.run_list.find import Filters, matching
from checkpoints.access import Reason
from tests.conftest import as_owner

pytestmark = pytest.mark.django_db

MANY = 20_000  # runs, of which one in twenty failed
QUESTIONS = Path(__file__).resolve().parents[2] / "docs" / "questions.md"


@pytest.fixture
def many(trip):
    """The trip's run, many times over: in the last 200 days, with many outcomes."""
    with as_owner(), connection.cursor() as cursor:
        columns = [
            field.column
            for field in Run._meta.local_concrete_fields
            if field.unique is False
        ]
        made = {
            "id": "gen_random_uuid()",
            "status": "CASE WHEN n %% 20 = 0 THEN 'failed' ELSE 'succeeded' END",
            "failed_step": "CASE WHEN n %% 20 = 0 THEN n / 20 %% 50 END",
            "error_class": "CASE WHEN n %% 20 = 0 THEN 'class_' || n / 20 %% 30 ELSE '' END",
            "created_at": "now() - n * interval '15 minutes'",
            "finished_at": "now() - n * interval '15 minutes'",
            "cost": "n %% 1000 / 100.0",
        }
        names = ", ".join(["id", *columns])
        values = ", ".join(made.get(name, name) for name in ["id", *columns])
        cursor.execute(
            f"INSERT INTO agents_run ({names}) SELECT {values}"  # noqa: S608  # of ours
            " FROM agents_run, generate_series(1, %s) AS n WHERE agents_run.id = %s",
            [MANY, trip.run.pk],
        )
        cursor.execute("ANALYZE agents_run")
    return trip


SERVED = [
    ("step=5&since=day", "run_failed_at"),
    ("step=5", "run_failed_at"),
    ("error=class_7&since=week", "run_failed_by_class"),
    ("show=failed&since=day", "run_failed_recently"),
    ("show=failed", "run_failed_recently"),
    ("show=live", "run_live|run_one_live_per_branch"),
    ("since=day", "run_recent"),
    ("cost=9&since=week", "run_recent"),
    ("agent=trip-planner&since=day", "run_recent"),
    ("", "run_recent"),
]


def test_an_index_serves_each_question(many, alice):
    for asked, index in SERVED:
        plan = matching(alice, Filters.of(QueryDict(asked)))[:51].explain()
        assert re.search(rf"using ({index})|on ({index})", plan), f"{asked}: {plan}"
        assert "Seq Scan on agents_run" not in plan, asked


def test_the_runs_of_a_tool_are_found_by_its_calls(many, alice):
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("ANALYZE agents_toolcall")
    plan = matching(alice, Filters.of(QueryDict("tool=quote_fare"))).explain()
    assert "Seq Scan on agents_run" not in plan


def statements() -> list[str]:
    return re.findall(r"```sql\n(.*?)```", QUESTIONS.read_text(), re.DOTALL)


@pytest.mark.parametrize("statement", statements(), ids=range(len(statements())))
def test_each_documented_question_can_be_asked(trip, statement):
    workspace = str(trip.run.workspace_id)
    with as_owner(), connection.cursor() as cursor:
        cursor.execute(statement.replace(":'workspace'", f"'{workspace}'"))
        cursor.fetchall()


def test_the_first_question_is_answered_as_the_page_answers_it(many, alice):
    on_page = matching(alice, Filters.of(QueryDict("step=5&since=day")))
    wanted = set(on_page.values_list("pk", flat=True))
    statement = statements()[0].replace(":'workspace'", f"'{alice.workspace_id}'")
    with as_owner(), connection.cursor() as cursor:
        cursor.execute(statement)
        assert {row[0] for row in cursor.fetchall()} == wanted
    assert Run.objects.unscoped(Reason.TEST).filter(pk__in=wanted).count() == len(
        wanted
    )
