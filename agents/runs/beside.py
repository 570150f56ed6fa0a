"""What is written and told in the one statement that commits a step of a run.

The run's progress and the call that the step proposes or settles change in the round
trip that appends the step, and nothing changes where that finds the branch taken. The
same answer tells what else happened to the run meanwhile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db.models.fields import NOT_PROVIDED

from agents.models import Run, ToolCall
from agents.pure.policies import Why
from agents.runs import trace
from agents.runs.used import Used
from checkpoints.gate import GRANTED
from checkpoints.log.append import Beside, Statement
from checkpoints.models import ThreadInput


class Told(NamedTuple):
    """What was so when the step was committed."""

    cancel_requested: bool
    messages: bool  # some that no step holds
    granted: bool  # the run's grant holds, and whom it is for may still act


# Nothing is known: messages are looked for, and the grant is asked for.
UNTOLD = ("false", "true", "false")


def told(columns: tuple[str | None, ...]) -> Told:
    return Told(*(column == "true" for column in columns))


class CallAs(NamedTuple):
    """The call of a step, at most one: as it is written with the step."""

    proposed: ToolCall | None = None  # a new row
    settled: ToolCall | None = None  # what came of it
    why: Why | None = None  # it was made, with effects: why, where nobody was asked
    decided: ToolCall | None = None  # its status, as people decided


def beside(run: Run, used: Used, call: CallAs) -> Beside:
    """For a step of the run; `used` is the run's with it.

    Whoever holds the branch is the only one who counts.
    """
    values: dict[str, Any] = {
        "used_tokens": used.tokens,
        "used_cost": used.cost,
        "used_unpriced": used.unpriced,
        "used_worked": used.worked.total_seconds(),
        "grant": run.grant_id,
        "workspace": run.workspace_id,
    }
    if call.proposed is not None:
        return Beside(_PROPOSING, values | _columns(call.proposed))
    if (settled := call.settled) is not None:
        values |= {
            "call": settled.pk,
            "call_status": settled.status,
            "call_result": settled.result,
            "call_recorded_from": settled.recorded_from_id,
            "call_error": settled.error_class,
        }
        if call.why is not None:
            return Beside(_EXECUTED, values | trace.values(call.why))
        return Beside(_SETTLING, values)
    if (decided := call.decided) is not None:
        values |= {"call": decided.pk, "call_status": decided.status}
        return Beside(_DECIDING, values)
    return Beside(_COUNTING, values)


def beside_waiting(run: Run, used: Used) -> Beside:
    """For a step that says what the run waits for. It got nowhere, so it counts neither
    as a step nor for the attempts: only the time does."""
    values = {
        "used_worked": used.worked.total_seconds(),
        "grant": run.grant_id,
        "workspace": run.workspace_id,
    }
    return Beside(_WAITING, values)


def _columns(row: ToolCall) -> dict[str, object]:
    """As they are: ids, texts, numbers and sealed bytes need nothing of Django's."""
    return {name: getattr(row, attribute) for name, attribute in _ATTRIBUTES}


_CALL_FIELDS = [
    field
    for field in ToolCall._meta.concrete_fields
    if field.db_default is NOT_PROVIDED
]
_ATTRIBUTES = [(f"call_{field.column}", field.attname) for field in _CALL_FIELDS]

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
_WAITED = f"""
, counted AS (
    UPDATE {Run._meta.db_table}
    SET worked = make_interval(secs => %(used_worked)s)
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
_DECIDED = f"""
, decided AS (
    UPDATE {ToolCall._meta.db_table}
    SET status = %(call_status)s
    WHERE id = %(call)s AND EXISTS (SELECT FROM moved)
)"""  # noqa: S608  # our own names; values are parameters
# Whether messages wait on a branch that no step holds.
WAITING = f"""EXISTS (
    SELECT FROM {ThreadInput._meta.db_table}
    WHERE branch_id = {{branch}} AND checkpoint_id IS NULL
)"""  # our own names
_TELLS = (
    "(SELECT cancel_requested FROM counted)::text",
    f"({WAITING.format(branch='%(branch)s')})::text",
    f"({GRANTED})::text",
)
_COUNTING = Statement(_COUNTED, _TELLS)
_WAITING = Statement(_WAITED, _TELLS)
_PROPOSING = Statement(_COUNTED + _PROPOSED, _TELLS)
_SETTLING = Statement(_COUNTED + _SETTLED, _TELLS)
_EXECUTED = Statement(_COUNTED + _SETTLED + trace.EXECUTED, _TELLS)
_DECIDING = Statement(_COUNTED + _DECIDED, _TELLS)
