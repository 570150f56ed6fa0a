from __future__ import annotations

import json
import logging

from checkpoints.about import about, now_at
from project.logs import JsonFormatter, LineFormatter

SECRET = "Helen flies to Lisbon"


def line(message: str = "run failed", *args: object, made=LineFormatter, **more) -> str:
    extra = more.pop("extra", {})
    record = logging.LogRecord(
        "agents.runs", logging.ERROR, "f.py", 1, message, args, **more
    )
    for name, value in extra.items():
        setattr(record, name, value)
    return made().format(record)


def failure() -> BaseException:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as first:
            raise ValueError(f"bad: {SECRET}") from first
    except ValueError as error:
        return error


def test_an_event_is_one_line_with_its_time_and_ids():
    text = line("run %s failed", "7f3a", exc_info=None, extra={"ids": {"fence": 3}})
    assert text.endswith("Z ERROR agents.runs run 7f3a failed fence=3")


def test_a_message_cannot_begin_a_line_of_its_own():
    assert "\n" not in line("one\ntwo", exc_info=None)


def test_an_exception_shows_its_class_and_places_and_not_what_it_says():
    error = failure()
    text = line(exc_info=(type(error), error, error.__traceback__))
    assert "builtins.ValueError" in text
    assert "caused by builtins.KeyError" in text
    assert "in failure" in text
    assert SECRET not in text


def test_lines_of_a_run_have_its_ids_and_the_step_it_is_at():
    with about(run="7f3a", worker="w1"):
        now_at(step=4)
        text = line(exc_info=None, extra={"ids": {"fence": 3}})
    assert text.endswith("run failed run=7f3a worker=w1 step=4 fence=3")
    assert "7f3a" not in line(exc_info=None)


def test_for_programs_a_line_is_an_object():
    error = failure()
    with about(run="7f3a"):
        text = line(
            made=JsonFormatter, exc_info=(type(error), error, error.__traceback__)
        )
    assert "\n" not in text
    assert SECRET not in text
    said = json.loads(text)
    assert said["error"] == "builtins.ValueError"
    assert any("in failure" in place for place in said["places"])
    assert (said["level"], said["logger"], said["run"]) == (
        *("ERROR", "agents.runs"),
        "7f3a",
    )
