"""A recorded conversation becomes a thread: one checkpoint per message or result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from agents.errors import NOT_SHARED, AlreadyImported
from agents.pure.chatlog import Conversation
from agents.pure.labels import first_words
from agents.tools import titles
from agents.tools.secrets import capture
from checkpoints import audit
from checkpoints.access import Reason, SystemPrincipal, UserPrincipal
from checkpoints.errors import NotPermitted
from checkpoints.ids import uuid7
from checkpoints.keys import hierarchy
from checkpoints.log.append import NewStep, StepMeta, commit, writer
from checkpoints.log.threads import create_thread
from checkpoints.models import Branch, Checkpoint, DataKey, Group, Thread, Workspace
from checkpoints.pure import ops
from checkpoints.pure.chain import keyed_digest
from checkpoints.pure.codec import State


def import_conversations(
    conversations: Sequence[Conversation],
    *,
    workspace: Workspace,
    owner_id: int | None,
    title: str,
    by: UserPrincipal | None = None,
    visibility: str = Thread.Visibility.WORKSPACE,
    group: Group | None = None,
) -> list[Branch]:
    """All of a file's conversations, or none of them.

    `title` names one that has no id of its own; `by` is who brings them on a page: the
    server's operator brings them by command. Raises AlreadyImported and NotPermitted.
    """
    if by is not None and not by.may_operate:
        raise NotPermitted("Viewers and auditors import nothing; an operator can.")
    audience = {"visibility": visibility, "group": group}
    try:
        with transaction.atomic():
            return [
                _import(conversation, workspace, owner_id, title, by, audience)
                for conversation in conversations
            ]
    except IntegrityError:
        # Of what is stored here, ids of conversations alone can be taken.
        raise AlreadyImported("It", "threads that were made just now") from None


def _import(
    conversation: Conversation,
    workspace: Workspace,
    owner_id: int | None,
    title: str,
    by: UserPrincipal | None,
    audience: dict[str, Any],
) -> Branch:
    external_id = conversation.id or _digest(conversation, workspace)
    before = (
        Thread.objects.unscoped(Reason.COMMAND)
        .filter(workspace=workspace, external_id=external_id)
        .first()
    )
    if before is not None:
        shared = by is None or Thread.objects.for_user(by).filter(pk=before.pk).exists()
        known_as = str(before) if shared else NOT_SHARED
        raise AlreadyImported(conversation.id or "It", known_as)
    conversation = _without_secrets(conversation)
    first, rest = _opening(conversation)
    branch = create_thread(
        workspace=workspace,
        owner_id=owner_id,
        title=_title(conversation, title),
        state=_state(conversation, first),
        label=_said(first) if first else "The conversation begins",
        origin=Thread.Origin.IMPORT,
        external_id=external_id,
        actor_id=None,
        context=_context(conversation.cleaned[0]) if first else None,
        **audience,
    )
    at = writer(branch)
    cleaned = conversation.cleaned[len(conversation.messages) - len(rest) :]
    for message, paths in zip(rest, cleaned, strict=True):
        at = commit(at, _step(message, conversation, paths))
    audit.record(
        by or SystemPrincipal("import_chat", workspace.pk),
        "import",
        obj=branch.thread,
        via="web" if by else "command",
        steps=len(rest) + 1,
    )
    branch.refresh_from_db()
    return branch


def _without_secrets(conversation: Conversation) -> Conversation:
    """As it may be stored: the texts themselves say what was taken out."""
    names = ("messages", "system", "facts")
    values, found = capture({name: getattr(conversation, name) for name in names})
    return replace(conversation, **values) if found else conversation


def _digest(conversation: Conversation, workspace: Workspace) -> str:
    """Stands for a conversation without an id; keyed, so that nobody can guess it."""
    key = hierarchy.workspace_mac(workspace.pk, DataKey.Purpose.INDEX)
    text = sha256(conversation.text().encode()).hexdigest()
    return f"log:{keyed_digest(key, 'chat log 1', text).hex()}"


def _opening(
    conversation: Conversation,
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """What step 0 holds, and what follows; an agent may have spoken first."""
    first, *rest = conversation.messages
    return (first, rest) if first["role"] == "user" else (None, conversation.messages)


def _state(conversation: Conversation, first: dict[str, Any] | None) -> State:
    return {
        "_schema": 1,
        "messages": [] if first is None else [{"id": str(uuid7()), **first}],
        "params": {"system": conversation.system, "model": conversation.model},
        "goal": "",
        "plan": [],
        "facts": {},
        "decisions": [],
        "todos": [],
        "vars": conversation.facts,
    }


def _context(cleaned: list[str]) -> dict[str, Any] | None:
    return {"cleaned": cleaned} if cleaned else None


def _step(
    message: dict[str, Any], conversation: Conversation, cleaned: list[str]
) -> NewStep:
    # A reply's message carries the id of its checkpoint: docs/decisions/0002.
    step_id: UUID = uuid7()
    kind, meta = {
        "user": (Checkpoint.Kind.INPUT, StepMeta()),
        "assistant": (
            Checkpoint.Kind.MODEL,
            StepMeta(model_requested=conversation.model),
        ),
        "tool": (Checkpoint.Kind.TOOL, StepMeta()),
    }[message["role"]]
    return NewStep(
        id=step_id,
        kind=kind,
        ops=[ops.append("/messages", {"id": str(step_id), **message})],
        label=_said(message),
        meta=meta,
        context=_context(cleaned),
    )


def _title(conversation: Conversation, fallback: str) -> str:
    asked = next((m for m in conversation.messages if m["role"] == "user"), None)
    words = _said(asked) if asked else ""
    name = conversation.id or fallback
    return f"{name}: {words}" if words else name


def _said(message: dict[str, Any]) -> str:
    """The label of a message's step: its first words, or the calls that it makes."""
    content = message.get("content")
    if isinstance(content, list):
        content = " ".join(_part(part) for part in content)
    text = content or message.get("refusal") or ""
    calls = message.get("tool_calls", [])
    if message["role"] == "tool" and message.get("name"):
        text = f"{message['name']}: {text}"
    elif not text.strip() and calls:
        text = ", ".join(_call_title(call["function"]) for call in calls)
    return first_words(text)


def _part(part: dict[str, Any]) -> str:
    """The text of a part, or what else it is: `[image_url]`."""
    text = part.get("text")
    return text if isinstance(text, str) else f"[{part.get('type') or 'part'}]"


def _call_title(function: dict[str, str]) -> str:
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = None  # the log keeps what the model wrote; the title says "…"
    return titles.plain(
        function["name"], arguments if isinstance(arguments, dict) else None
    )
