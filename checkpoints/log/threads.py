"""Begin a thread, and fork it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connection, transaction

from checkpoints import gate
from checkpoints.access import Reason
from checkpoints.errors import NotPermitted
from checkpoints.failpoints import failpoint
from checkpoints.keys import hierarchy
from checkpoints.log import content
from checkpoints.log.append import NewStep, StepMeta, commit, writer
from checkpoints.models import Branch, Checkpoint, Group, Thread, Workspace
from checkpoints.pure import codec, schema
from checkpoints.pure import ops as operations
from checkpoints.pure.codec import State
from checkpoints.pure.ops import Op

MAIN = "main"  # name of a thread's first branch

NOT_YOURS = "This request key was used for something else."


def create_thread(
    *,
    workspace: Workspace,
    owner_id: int | None,
    title: str,
    state: State,
    label: str,
    visibility: str = Thread.Visibility.WORKSPACE,
    group: Group | None = None,
    origin: str = Thread.Origin.RUN,
    external_id: str | None = None,
    request_key: UUID | None = None,
    actor_id: int | None = None,
    kind: str = Checkpoint.Kind.INPUT,
    context: dict[str, Any] | None = None,
) -> Branch:
    """A thread with its keys and its main branch, whose step 0 sets `state`.

    A repeated `request_key` returns the first call's branch as it is now. Raises
    NotStorable, and NotPermitted when someone else used the key.
    """
    codec.check(state)  # says where in the state, not in its step
    beginning = NewStep(
        kind=kind,
        ops=[operations.reset(state)],
        label=label,
        meta=StepMeta(actor_id=actor_id),
        schema_version=schema.version(state),
        context=context,
    )
    thread = Thread(
        workspace=workspace,
        owner_id=owner_id,
        visibility=visibility,
        group=group,
        origin=origin,
        external_id=external_id,
        request_key=request_key,
    )
    branch = Branch(workspace=workspace, thread=thread, created_by_id=owner_id)
    try:
        begin_thread(branch, title=title, name=MAIN, first=beginning)
    except IntegrityError:
        # Either the same form, sent twice, or a mistake, which stays one.
        first = _made_by_request(
            thread__request_key=request_key, parent=None, workspace=workspace
        )
        if request_key is None or first is None:
            raise
        if first.thread.owner_id != owner_id:
            raise NotPermitted(NOT_YOURS) from None
        return first
    return _reread(branch)


def begin_thread(branch: Branch, *, title: str, name: str, first: NewStep) -> None:
    """Store a thread that is not there yet, its keys, its first branch and step 0.

    Raises NotStorable, and IntegrityError where one of the thread's keys is taken.
    """
    thread = branch.thread
    with transaction.atomic():
        hierarchy.create_thread_keys(thread)
        thread.title = gate.seal(thread, "title", title)
        thread.save(force_insert=True)
        branch.name = gate.seal(branch, "name", name)
        branch.save(force_insert=True)
        _append(branch, first)


def fork(
    source: Checkpoint,
    *,
    name: str,
    by_id: int | None,
    ops: Sequence[Op] = (),
    label: str = "",
    context: dict[str, Any] | None = None,
    calls: str = Branch.Calls.RECORDED,
    call_choices: dict[str, str] | None = None,
    request_key: UUID | None = None,
    namespace: str = "",
) -> Branch:
    """A new branch that goes on from `source`, whose thread and branch stay untouched.

    One row, and one `edit` step when there are operations to begin with; that these fit
    the state is the caller's to check. A repeated `request_key` returns the first call's
    branch. Raises NotStorable, Pruned, Shredded, and NotPermitted when the key was used
    otherwise.
    """
    branch = Branch(
        workspace_id=source.workspace_id,
        thread_id=source.thread_id,
        parent_id=source.branch_id,
        forked_from=source,
        fork_step=source.step,
        head=source,
        head_step=source.step,
        head_mac=bytes(source.state_mac),
        calls=calls,
        call_choices=call_choices,
        request_key=request_key,
        namespace=namespace,
        created_by_id=by_id,
    )
    branch.name = gate.seal(branch, "name", name)
    # One row needs no transaction of its own; in somebody else's, it needs a savepoint.
    whole = ops or connection.in_atomic_block
    try:
        with transaction.atomic() if whole else nullcontext():
            if whole:  # the row alone is no content
                content.keep(source.branch_id, source.thread_id)
            branch.save(force_insert=True)
            if ops:
                _append(
                    branch,
                    NewStep(
                        kind=Checkpoint.Kind.EDIT,
                        ops=ops,
                        label=label,
                        meta=StepMeta(actor_id=by_id),
                        context=context,
                    ),
                    after=source.schema_version,
                )
            failpoint("fork: before commit")
    except IntegrityError:
        first = _made_by_request(
            request_key=request_key, workspace_id=source.workspace_id
        )
        if request_key is None or first is None:
            raise
        if (first.forked_from_id, first.created_by_id) != (source.pk, by_id):
            raise NotPermitted(NOT_YOURS) from None
        return first
    return branch


def _append(branch: Branch, step: NewStep, *, after: int | None = None) -> None:
    """Commit the first step of a branch that nobody else can know yet.

    `after`: the version of the state that it follows, if any.
    """
    there = commit(writer(branch, schema_version=after), step)
    branch.head_id, branch.head_step, branch.head_mac = (
        there.head,
        there.step,
        there.mac,
    )


def _reread(branch: Branch) -> Branch:
    """With what the database filled in, and the head where the commit moved it."""
    return (
        Branch.objects.unscoped(Reason.WORKER)
        .select_related("thread", "workspace")
        .get(pk=branch.pk)
    )


def _made_by_request(**columns: object) -> Branch | None:
    return (
        Branch.objects.unscoped(Reason.WORKER)
        .filter(**columns)
        .select_related("thread", "workspace")
        .first()
    )
