"""The audit log: who did what to which row, when, and how it ended. Ids, never content."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Model

from checkpoints.access import (
    Principal,
    RunPrincipal,
    ServicePrincipal,
    SystemPrincipal,
    UserPrincipal,
)
from checkpoints.db.prepared import Prepared
from checkpoints.db.session import recording
from checkpoints.ids import uuid7
from checkpoints.models import AuditEvent

Detail = UUID | int | bool | str | None | list[str]


def record(
    principal: Principal | None,
    action: str,
    *,
    obj: Model | None = None,
    workspace_id: UUID | None = None,
    outcome: str = "ok",
    purpose: str = "",
    via: str = "web",
    actor_id: int | None = None,
    session: str = "",
    address: str = "",
    **detail_ids: Detail,
) -> None:
    """Write one event, in the transaction that makes the change which it records.

    The workspace is the principal's, or the object's, unless given; so is the person,
    who outside a workspace (in the admin, at the door) is given as `actor_id`, with
    `session` and `address`. `detail_ids` are ids, counts and codes; never anything that
    a person or a model wrote.
    """
    of = workspace_id or _workspace(principal, obj)
    with recording(of):
        _RECORD.row(
            {
                "id": uuid7(),
                "workspace_id": of,
                "action": action,
                **_object(obj),
                "outcome": outcome,
                "purpose": purpose,
                "actor_id": actor_id,
                "session": session,
                "address": address or None,
                **_who(principal, via),
                "detail": json.dumps(_in_json({**_for_whom(principal), **detail_ids})),
            }
        )


class Conditional:
    """Events of one kind that a run causes, each written only where `condition` holds.

    In the same statement; its values are named, beside those of the event.
    """

    def __init__(self, condition: str) -> None:
        self._prepared = Prepared(f"""
        INSERT INTO {AuditEvent._meta.db_table} ({", ".join(_COLUMNS)})
        SELECT {", ".join(f"%({name})s" for name in _COLUMNS)} WHERE {condition}
        RETURNING position::text
        """)  # our own names; values are parameters

    def record(
        self,
        principal: RunPrincipal,
        action: str,
        values: Mapping[str, object],
        *,
        obj: Model,
        purpose: str,
        **detail_ids: Detail,
    ) -> bool:
        """Whether it was written."""
        event = {
            "id": uuid7(),
            "workspace_id": principal.workspace_id,
            "action": action,
            **_object(obj),
            "outcome": "ok",
            "purpose": purpose,
            "actor_id": None,
            "session": "",
            "address": None,
            **_who(principal, "worker"),
            "detail": json.dumps(_in_json({**_for_whom(principal), **detail_ids})),
        }
        with recording(principal.workspace_id):
            return self._prepared.row({**event, **values}) is not None


def record_each(
    action: str,
    objects: Sequence[Any],
    *,
    via: str,
    actor_id: int | None = None,
    **detail_ids: Detail,
) -> None:
    """One event for each of these rows of one model; each has its workspace.

    In one plain statement: it is for thousands, and the ORM would take a second for them.
    """
    if not objects:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            _RECORD_EACH,
            {
                "ids": [uuid7() for _ in objects],
                "workspaces": [obj.workspace_id for obj in objects],
                "objects": [obj.pk for obj in objects],
                "type": objects[0]._meta.label_lower,
                "action": action,
                "via": via,
                "actor": actor_id,
                "detail": json.dumps(_in_json(detail_ids)),
            },
        )


def record_beside(
    action: str,
    model: type[Model],
    *,
    via: str,
    actor_id: int | None = None,
    **detail_ids: Detail,
) -> dict[str, object]:
    """As `record_each`, by the statement that makes the change: values for BESIDE."""
    return {
        "audit_type": model._meta.label_lower,
        "audit_action": action,
        "audit_via": via,
        "audit_actor": actor_id,
        "audit_detail": json.dumps(_in_json(detail_ids)),
    }


# One goes with most of what people and runs do, so it is planned once.
_COLUMNS = (
    *("id", "workspace_id", "action", "object_type", "object_id", "outcome", "purpose"),
    *("actor_id", "via", "session", "address", "detail"),
)
_RECORD = Prepared(f"""
INSERT INTO {AuditEvent._meta.db_table} ({", ".join(_COLUMNS)})
VALUES ({", ".join(f"%({name})s" for name in _COLUMNS)})
RETURNING position::text
""")  # noqa: S608  # as below

_EACH = f"""
INSERT INTO {AuditEvent._meta.db_table}
    (id, workspace_id, object_id, object_type, action, via, actor_id, detail,
     session, purpose, outcome)
SELECT n.event, n.workspace_id, n.id, %(type)s, %(action)s, %(via)s, %(actor)s,
       %(detail)s::jsonb, '', '', 'ok'
FROM
"""  # noqa: S608  # our own names; values are parameters
_RECORD_EACH = f"""{_EACH}
    unnest(%(ids)s::uuid[], %(workspaces)s::uuid[], %(objects)s::uuid[])
    AS n(event, workspace_id, id)
"""
# In the WITH of a statement: before the rows `n`, with `event`, a new id, `workspace_id`
# and `id`.
BESIDE = _EACH.replace("%(", "%(audit_")


def _object(obj: Model | None) -> dict[str, Any]:
    return {
        "object_type": obj._meta.label_lower if obj is not None else "",
        "object_id": obj.pk if obj is not None and isinstance(obj.pk, UUID) else None,
    }


def _workspace(principal: Principal | None, obj: Model | None) -> UUID | None:
    if principal is not None:
        return principal.workspace_id
    workspace: UUID | None = getattr(obj, "workspace_id", None)
    return workspace


def _who(principal: Principal | None, via: str) -> dict[str, Any]:
    match principal:
        case UserPrincipal():
            return {
                "actor_id": principal.user_id,
                "session": principal.session,
                "address": principal.address or None,
                "via": "api" if principal.token_id and via == "web" else via,
            }
        case ServicePrincipal():
            return {
                "address": principal.address or None,
                "via": "api" if via == "web" else via,
            }
        case RunPrincipal() | SystemPrincipal():
            return {"via": "worker" if via == "web" else via}
    return {"via": via}


def _for_whom(principal: Principal | None) -> dict[str, Detail]:
    match principal:
        case ServicePrincipal() | UserPrincipal(token_id=UUID()):
            return {"token": principal.token_id}
        case RunPrincipal():
            return {"run": principal.run_id, "grant": principal.grant_id}
        case SystemPrincipal():
            return {"task": principal.task}
    return {}


def _in_json(detail: dict[str, Detail]) -> dict[str, Any]:
    return {
        name: str(value) if isinstance(value, UUID) else value
        for name, value in detail.items()
        if value not in (None, "")
    }
