"""What is written and told in the one statement that commits a step of a run.

The run's progress and the call that the step proposes or settles change in the round
trip that appends the step, and nothing changes where that finds the branch taken. The
same answer tells what else happened to the run meanwhile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import connection
from django.db.models.fields import NOT_PROVIDED

from agents.models import Run, ToolCall
from agents.runs.used import Used
from checkpoints.log.append import Beside, Statement
from checkpoints.models import ThreadInput


class Told(NamedTuple):
    """What was so when the step was committed."""

    cancel_requested: bool
    messages: bool  # some that no step holds


UNTOLD = ("false", "true")  # nothing is known: messages are looked for


def told(columns: tuple[str | None, ...]) -> Told:
    return Told(*(column == "true" for column in columns))


def beside(
    used: Used, *, proposed: ToolCall | None = None, settled: ToolCall | None = None
) -> Beside:
    """For a step of the run, with at most one call; `used` is the run's with it.

    Whoever holds the branch is the only one who counts.
    """
    values: dict[str, Any] = {
        "used_tokens": used.tokens,
        "used_cost": used.cost,
        "used_unpriced": used.unpriced,
        "used_worked": used.worked.total_seconds(),
    }
    if proposed is not None:
        return Beside(_PROPOSING, values | _columns(proposed))
    if settled is not None:
        return Beside(
            _SETTLING,
            values
            | {
                "call": settled.pk,
                "call_status": settled.status,
                "call_result": settled.result,
                "call_recorded_from": settled.recorded_from_id,
                "call_error": settled.error_class,
            },
        )
    return Beside(_COUNTING, values)


def _columns(row: ToolCall) -> dict[str, object]:
    values = ((field, getattr(row, field.attname)) for field in _CALL_FIELDS)
    return {
        f"call_{field.column}": value
        if isinstance(value, bytes)  # as it is: Django would wrap it
        else field.get_db_prep_save(value, connection)
        for field, value in values
    }


_CALL_FIELDS = [
    field
    for field in ToolCall._meta.concrete_fields
    if field.db_default is NOT_PROVIDED
]

# Tables and columns are named by the models; every value is a parameter. `run`, `branch`
# and `id` are the step's own values.
_COUNTED = f"""
, counted AS (
    UPDATE {Run._meta.db_table}
    SET steps = steps + 1,
        attempts = 0,
        tokens = %(used_tokens)s,
        cost = %(used_cost)s,
        unpriced = %(used_unpriced)s,
        worked = make_interval(secs => %(used_worked)s)
    WHERE id = %(run)s AND EXISTS (SELECT FROM moved)
    RETURNING cancel_requested
)"""  # noqa: S608  # our own names; values are parameters
_PROPOSED = f"""
, proposed AS (
    INSERT INTO {ToolCall._meta.db_table}
        ({", ".join(field.column for field in _CALL_FIELDS)})
    SELECT {", ".join(f"%(call_{field.column})s" for field in _CALL_FIELDS)}
    FROM moved
    ON CONFLICT DO NOTHING
)"""  # noqa: S608  # our own names; values are parameters
_SETTLED = f"""
, settled AS (
    UPDATE {ToolCall._meta.db_table}
    SET status = %(call_status)s,
        result = %(call_result)s,
        result_checkpoint_id = %(id)s,
        recorded_from_id = %(call_recorded_from)s,
        error_class = %(call_error)s,
        finished_at = clock_timestamp()
    WHERE id = %(call)s AND EXISTS (SELECT FROM moved)
)"""  # noqa: S608  # our own names; values are parameters
_MESSAGES = f"""EXISTS (
    SELECT FROM {ThreadInput._meta.db_table}
    WHERE branch_id = %(branch)s AND checkpoint_id IS NULL
)"""  # our own names; values are parameters
_TELLS = (
    "(SELECT cancel_requested FROM counted)::text",
    f"({_MESSAGES})::text",
)
_COUNTING = Statement(_COUNTED, _TELLS)
_PROPOSING = Statement(_COUNTED + _PROPOSED, _TELLS)
_SETTLING = Statement(_COUNTED + _SETTLED, _TELLS)
