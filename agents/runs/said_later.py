"""What people said on a branch after the step that is forked."""

from __future__ import annotations

from agents.pure.context import messages_of
from checkpoints.blobs import Contents
from checkpoints.gate import Pass
from checkpoints.log import hydrate
from checkpoints.models import Checkpoint
from checkpoints.pure.codec import State


def said_later(opened: Pass, source: Checkpoint, state: State) -> list[str]:
    """The texts of people's messages that the source's branch has beside these of
    `state`, in order: what was said, not what was decided.

    Raises Pruned, Shredded, StoreUnavailable and MissingObject.
    """
    branch = source.branch
    now = hydrate.state(opened, branch, step=branch.head_step)
    known = {message.get("id") for message in messages_of(state)}
    contents = Contents(opened, source.thread_id)
    found = []
    for message in messages_of(now):
        if message["role"] != "user" or message.get("id") in known:
            continue
        said = contents.restore(message.get("content"))
        if isinstance(said, str) and said.strip():
            found.append(said)
    return found
