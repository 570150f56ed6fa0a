"""The step that a fork goes on from, opened once for all that is made of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from checkpoints import gate
from checkpoints.access import Actor
from checkpoints.errors import NotPermitted, Pruned, Shredded
from checkpoints.gate import Pass
from checkpoints.log import hydrate, remembered
from checkpoints.log.hydrate import Opened
from checkpoints.models import Checkpoint
from checkpoints.pure.codec import State


@dataclass(frozen=True)
class Source:
    checkpoint: Checkpoint
    seen: Pass = field(repr=False)
    opened: Opened = field(repr=False)

    @property
    def state(self) -> State:
        """Not to be changed."""
        return self.opened.state


def open_source(checkpoint: Checkpoint, *, by: Actor) -> Source:
    """The checkpoint, with its branch and thread, as this person may open it.

    Opening is recorded. Raises NotPermitted, also for content that is not there any more,
    and what `hydrate.read` raises for a thread that is damaged.
    """
    seen = gate.admit(
        by, purpose="fork", threads=[checkpoint.thread], steps=str(checkpoint.step)
    )
    try:
        # Whoever forks has looked at it just before.
        opened = hydrate.open_at(
            seen,
            checkpoint.branch,
            step=checkpoint.step,
            asked=True,
            memory=remembered.segments,
        )
    except (Pruned, Shredded) as gone:
        raise NotPermitted(str(gone)) from None
    return Source(checkpoint, seen, opened)
