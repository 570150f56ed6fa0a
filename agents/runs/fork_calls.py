"""What becomes of single calls of a fork's source, where that is chosen call by call.

A fork has one choice for all its calls (`Branch.calls`), and exceptions by the recorded
call (`Branch.call_choices`). They travel with the branch's row, which whoever claims a run
reads anyway: without exceptions nothing is asked for them, and no step asks for them twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from agents.errors import InvalidEdit
from agents.models import ToolCall
from agents.tools import registry
from checkpoints.access import Actor, ThreadScopedQuerySet, UserPrincipal
from checkpoints.models import Branch, Checkpoint

Calls = Branch.Calls
Effect = ToolCall.Effect

MOST = 200  # calls with a choice of their own
NO_LIVE = "Calls run for real in a fork only for who has the right to approve."


def recorded_after(source: Checkpoint, by: Actor) -> ThreadScopedQuerySet[ToolCall]:
    """Calls whose result a fork of this step can get: those its branch made later."""
    return recorded_calls(source.branch_id, source.step, by)


def recorded_calls(
    branch: UUID, step: int, by: Actor
) -> ThreadScopedQuerySet[ToolCall]:
    """As `recorded_after`, in the order of their results.

    Without those of tools whose changes are the branch's own: a fork makes them.
    """
    own = {tool.name for agent in registry for tool in agent.tools if tool.of_branch}
    return (
        ToolCall.objects.for_user(by)
        .filter(
            branch=branch,
            status=ToolCall.Status.SUCCEEDED,
            result_checkpoint__step__gt=step,
        )
        .exclude(effect=Effect.NONE)
        .exclude(tool__in=own)
        .order_by("result_checkpoint__step")
    )


def choices_for(effect: str, by: Actor, *, asked: bool = False) -> list[str]:
    """What may become of a recorded call with this effect in a fork.

    `asked`: a person was asked about it; to ask again is for everyone who may fork.
    """
    if effect == Effect.READ:
        return [Calls.RECORDED, Calls.LIVE]
    live = [Calls.LIVE] if asked or may_go_live(by) else []
    return [Calls.RECORDED, Calls.SIMULATE, *live]


def usual(effect: str, calls: str) -> str:
    """What becomes of a recorded call that has no choice of its own."""
    return Calls.LIVE if effect == Effect.READ else calls


def may_go_live(by: Actor) -> bool:
    """Whether they may have calls with effects made anew. A person is asked even then."""
    return by.can_approve if isinstance(by, UserPrincipal) else by.may_operate


def checked(
    source: Checkpoint, choices: Mapping[UUID, str], *, calls: str, by: Actor
) -> dict[str, str] | None:
    """The choices as a branch keeps them: only what differs from `calls`; None for none.

    Raises InvalidEdit for a call that the source did not make after the step, and for
    what may not become of it.
    """
    if calls == Calls.LIVE and not may_go_live(by):
        raise InvalidEdit({"calls": NO_LIVE})
    if not choices:
        return None
    if len(choices) > MOST:
        raise InvalidEdit(
            {"calls": f"At most {MOST} calls have a choice of their own."}
        )
    made: dict[UUID, ToolCall] = (
        recorded_after(source, by).select_related("approval").in_bulk(choices)
    )
    kept = {}
    for call, choice in choices.items():
        if call not in made:
            raise InvalidEdit(
                {"calls": "The source did not make this call, or failed."}
            )
        effect, asked = made[call].effect, hasattr(made[call], "approval")
        if choice not in choices_for(effect, by, asked=asked):
            live = choice == Calls.LIVE
            said = NO_LIVE if live else f"“{choice}” is no choice for this call."
            raise InvalidEdit({"calls": said})
        if choice != usual(effect, calls):
            kept[str(call)] = choice
    return kept or None
