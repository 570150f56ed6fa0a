"""Calls that wait for a result in the state that a fork begins with: whose they are."""

from __future__ import annotations

from uuid import UUID

from agents.errors import InvalidEdit
from agents.pure.calls import unanswered
from checkpoints.log.hydrate import Opened
from checkpoints.models import Thread
from checkpoints.pure.codec import State

MADE_ELSEWHERE = (
    "At this step the agent waits for results of calls that it made elsewhere, and nobody"
    " here can give them. Fork from a step before it made them, or after their results."
)


def require_own_calls(opened: Opened, edited: State, thread: Thread) -> None:
    """A run takes the keys of its calls from the reply's id, so that is one of a step of
    the branch: not of a step elsewhere, as a bundle or who made its file says, nor one
    that an edit of the state brings in. Raises InvalidEdit.
    """
    there = set() if thread.origin == Thread.Origin.IMPORT else _replies(opened.state)
    if not (brought := _replies(edited) - there):
        return
    for own in opened.checkpoints().values():
        brought -= own
    if brought:
        raise InvalidEdit({"calls": MADE_ELSEWHERE})


def _replies(state: State) -> set[UUID]:
    return {call.reply for call in unanswered(state)}
