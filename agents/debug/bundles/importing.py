"""A bundle becomes a thread of this workspace, whole or not at all.

What it says is sealed anew, under keys of this workspace. Its steps get ids of their own
here, and name no run, agent or person of this database: who took them elsewhere, when, and
which calls they made is kept in each step's context, as the file says it.
"""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from django.db import IntegrityError, transaction

from agents.errors import NOT_SHARED, AlreadyImported, BadFile
from agents.pure.bundles import file, shape
from agents.pure.bundles.mask import Masks
from agents.pure.bundles.shape import IMPORTED, Content, Step
from agents.tools import registry
from agents.tools.secrets import capture
from checkpoints import audit
from checkpoints.access import Reason, SystemPrincipal, UserPrincipal
from checkpoints.errors import NotPermitted
from checkpoints.keys import hierarchy
from checkpoints.log.append import NewStep, StepMeta, commit, writer
from checkpoints.log.threads import NOT_YOURS, begin_thread, fork
from checkpoints.models import (
    Branch,
    Checkpoint,
    DataKey,
    Group,
    Thread,
    Workspace,
)
from checkpoints.pure.chain import keyed_digest

_META = (
    *("status", "temperature", "top_p", "seed", "tokens_in", "tokens_out"),
    *("tokens_cached", "latency_ms", "error_class"),
)
_MODEL = ("model_requested", "model_returned", "fingerprint")  # in clear, and any text
_ELSEWHERE = ("at", "by", "agent", "name", "calls")


def import_bundle(
    data: bytes,
    *,
    workspace: Workspace,
    by: UserPrincipal | SystemPrincipal,
    owner_id: int | None,
    visibility: str = Thread.Visibility.WORKSPACE,
    group: Group | None = None,
    request_key: UUID | None = None,
) -> Thread:
    """The thread that the file's bytes are a bundle of.

    A repeated `request_key` (a form that was sent twice) gives the first call's thread.
    Raises BadFile, AlreadyImported, NotPermitted, and StoreUnavailable when a large value
    cannot be put away.
    """
    if isinstance(by, UserPrincipal) and not by.may_operate:
        raise NotPermitted("Viewers and auditors import nothing; an operator can.")
    found = file.read(data, format=file.BUNDLE)
    content = shape.parse(found.content)
    thread = Thread(
        workspace=workspace,
        owner_id=owner_id,
        visibility=visibility,
        group=group,
        origin=Thread.Origin.IMPORT,
        external_id=_name_of(found, workspace),
        request_key=request_key,
    )
    try:
        with transaction.atomic():
            _store(content, thread)
            audit.record(
                by,
                "import",
                obj=thread,
                purpose="bundle",
                via="command" if isinstance(by, SystemPrincipal) else "web",
                steps=content.steps,
                branches=len(content.branches),
            )
    except IntegrityError:
        first = _first(thread, owner_id, by)
        if first is None:
            raise
        return first
    return thread


def _first(
    thread: Thread, owner_id: int | None, by: UserPrincipal | SystemPrincipal
) -> Thread | None:
    """The thread that the same form made before. Raises AlreadyImported for another's.

    None: neither of its keys is taken.
    """
    here = Thread.objects.unscoped(Reason.COMMAND).filter(workspace=thread.workspace)
    if thread.request_key is not None:
        first = here.filter(request_key=thread.request_key).first()
        if first is not None:
            if (first.owner_id, first.external_id) != (owner_id, thread.external_id):
                raise NotPermitted(NOT_YOURS)
            return first
    before = here.filter(external_id=thread.external_id).first()
    if before is None:
        return None
    if isinstance(by, UserPrincipal):
        shared = Thread.objects.for_user(by).filter(pk=before.pk).exists()
        raise AlreadyImported("This bundle", str(before) if shared else NOT_SHARED)
    raise AlreadyImported("This bundle", str(before))


def _name_of(found: file.File, workspace: Workspace) -> str:
    """Stands for what the file holds; keyed, so that nobody can guess it."""
    key = hierarchy.workspace_mac(workspace.pk, DataKey.Purpose.INDEX)
    return f"bundle:{keyed_digest(key, 'bundle 1', found.content_digest).hex()}"


def _store(content: Content, thread: Thread) -> None:
    """Every branch with its steps, in the transaction that is open."""
    tools = {tool.name for agent in registry for tool in agent.tools}
    made: list[Branch] = []
    for branch in content.branches:
        steps = [_new(step, tools) for step in branch.steps]
        name = _cleared(branch.name)
        if branch.parent is None:
            row = Branch(
                workspace=thread.workspace,
                thread=thread,
                namespace=Branch.IMPORTED,
                created_by_id=thread.owner_id,
            )
            first, *steps = steps
            begin_thread(row, title=_cleared(content.title), name=name, first=first)
            row.refresh_from_db()
        else:
            source = _at(made[branch.parent], branch.fork_step, made)
            row = fork(
                source, name=name, by_id=thread.owner_id, namespace=Branch.IMPORTED
            )
        at = writer(row)
        for step in steps:
            at = commit(at, step)
        made.append(row)


def _at(branch: Branch, step: int, made: list[Branch]) -> Checkpoint:
    """The checkpoint of a step of the branch's line, which may be of an ancestor."""
    while branch.parent_id is not None and step <= branch.fork_step:
        branch = next(each for each in made if each.pk == branch.parent_id)
    return Checkpoint.objects.unscoped(Reason.COMMAND).get(branch=branch, step=step)


def _new(step: Step, tools: set[str]) -> NewStep:
    row = step.row
    masks = Masks(capture)
    ops = masks.ops(step.ops)
    if ops is None:
        raise BadFile(
            f"Step {row['step']}: ops",
            "a secret stands in a key of its state. Export it anew: exports are masked.",
        )
    label, context = masks.value(row["label"]), masks.value(step.context)
    elsewhere = masks.value({name: row[name] for name in _ELSEWHERE})
    model = {name: masks.value(row[name]) for name in _MODEL}
    secrets = {"secrets": list(masks.secrets)} if masks.secrets else {}
    cost = row["cost"]
    return NewStep(
        kind=row["kind"],
        ops=ops,
        label=label,
        meta=StepMeta(
            # The column is read by people who may not read content: tools of ours only.
            name=row["name"] if row["name"] in tools else "",
            cost=None if cost is None else Decimal(cost),
            **{name: row[name] for name in _META},
            **model,
        ),
        context={**(context or {}), **secrets, IMPORTED: elsewhere},
        schema_version=step.schema_version,
    )


def _cleared(text: str) -> str:
    kept: str = capture(text)[0]
    return kept
