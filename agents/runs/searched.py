"""Threads are found by fields of their state that code declares.

What an agent's `search_fields` name is read off the state that a run's holder has in memory
anyway, in the transaction that lets the branch go: nothing is opened for it, no step waits
for it, and it is there if the rest is. Of the values keyed hashes are stored. What did not
come about so, in a run at work or by a person's hand, is found after `reindex`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from agents.pure.searched import values
from checkpoints.access import Reason, RunPrincipal, UserPrincipal
from checkpoints.errors import CheckpointsError
from checkpoints.keys.hierarchy import workspace_mac
from checkpoints.models import Branch, Checkpoint, DataKey, SearchField
from checkpoints.pure.chain import keyed_digest
from checkpoints.pure.codec import State

logger = logging.getLogger(__name__)

# The head as it is, and the steps that may be on their way: one is sent, one is made.
KEPT = 3


class Seen:
    """The states of a branch that its holder has met last, by checkpoint."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields
        self._states: dict[UUID, State] = {}

    def add(self, checkpoint: UUID | None, state: State) -> None:
        """What is there after this checkpoint, if it comes to be stored."""
        if not self._fields or checkpoint is None:
            return
        self._states[checkpoint] = state
        while len(self._states) > KEPT:
            del self._states[next(iter(self._states))]

    def keep(self, branch: Branch, by: RunPrincipal) -> None:
        """Store what the branch is to be found by from now on, in the open transaction.

        A run comes to its end all the same where a key is away: what is stored is then
        as it was.
        """
        if not self._states:
            return
        own = Branch.objects.for_run(by).filter(pk=branch.pk)
        head, kind, parent = own.values_list(
            "head_id", "head__kind", "head__parent_id"
        ).get()
        state = self._states.get(head)
        if state is None and kind == Checkpoint.Kind.ERROR and parent is not None:
            state = self._states.get(parent)  # a step that says how it ended is empty
        if state is None:
            return
        try:
            store(branch, values(state, self._fields))
        except CheckpointsError as error:
            ids = {"run": by.run_id, "branch": branch.pk}
            logger.warning("a branch was not indexed: %s", error, extra={"ids": ids})


def store(branch: Branch, found: Mapping[str, str]) -> None:
    """These fields of the branch, and no others, in the open transaction. Its row is
    locked by the caller. Raises UnknownKey and KeysUnavailable, with nothing changed."""
    rows = [
        SearchField(
            workspace_id=branch.workspace_id,
            thread_id=branch.thread_id,
            branch_id=branch.pk,
            name=name,
            blind_index=blind_index(branch.workspace_id, name, value),
        )
        for name, value in found.items()
    ]
    of_branch = SearchField.objects.unscoped(Reason.WORKER).filter(
        thread=branch.thread_id, branch=branch.pk
    )
    of_branch.exclude(name__in=found).delete()
    SearchField.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["branch", "name"],
        update_fields=["blind_index"],
    )


def holding(by: UserPrincipal, name: str, value: str) -> Any:
    """Rows of the branches where this field has this value; nothing is opened."""
    index = blind_index(by.workspace_id, name, value.strip())
    return SearchField.objects.for_user(by).filter(blind_index=index)


def blind_index(workspace_id: UUID, name: str, value: str) -> bytes:
    """What equal values of a field have in common in a workspace: a keyed hash."""
    key = workspace_mac(workspace_id, DataKey.Purpose.INDEX)
    return keyed_digest(key, "search field 1", [name, value])
