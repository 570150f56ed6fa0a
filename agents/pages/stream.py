"""One stream a page: tells that something changed, never what.

The events have names and no payload; a part of a page that hears one asks for itself,
through its own view, with its own permissions. What a workspace's requests changed to
last is read once a second for all streams of this process together, by a connection that
is given back at once: a stream holds none. Where pages are not served over ASGI, or
STREAMS is off, parts ask every few seconds instead (`shell.context`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from uuid import UUID

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, InterfaceError, connection
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    StreamingHttpResponse,
)
from django.urls import path
from django.views.decorators.http import require_safe

from agents.models import Approval
from agents.pages import live
from agents.pages.principal import MemberRequest, member
from checkpoints.access import Reason
from checkpoints.db import session
from checkpoints.db.session import DatabaseRole

EVERY = 1.0  # seconds between two looks at what changed
HEARTBEAT = 15.0  # seconds of silence after which a proxy may close a stream
LIFE = 300.0  # seconds; then the page opens another one, and this process may stop
NEWEST = 20  # changes that are looked at: one that commits late is among them
MOST = 500  # streams of one process; who comes after them asks every few seconds


class Versions:
    """What changed last in each workspace that somebody looks at.

    Belongs to one event loop. A task looks while there are streams, and ends with them.
    """

    def __init__(self) -> None:
        self.streams = 0
        self._known: dict[UUID, str] = {}
        self._watched: dict[UUID, int] = {}
        self._looked = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def follow(self, workspace: UUID, last: str) -> AsyncIterator[str | None]:
        """Each version but `last`, as it comes; None where a heartbeat is due."""
        self.streams += 1
        self._watched[workspace] = self._watched.get(workspace, 0) + 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        try:
            while True:
                found = await self._newer(workspace, last)
                last = found or last
                yield found
        finally:
            self.streams -= 1
            self._watched[workspace] -= 1
            if not self._watched[workspace]:
                del self._watched[workspace]
                self._known.pop(workspace, None)

    async def _newer(self, workspace: UUID, last: str) -> str | None:
        def changed() -> bool:
            return self._known.get(workspace, last) != last

        async with self._looked:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._looked.wait_for(changed), HEARTBEAT)
            return self._known[workspace] if changed() else None

    async def _look(self) -> None:
        while self._watched:
            # A database that does not answer for a while: pages stay as they are.
            with suppress(DatabaseError, InterfaceError):
                found = await sync_to_async(_versions, thread_sensitive=False)(
                    list(self._watched)
                )
                async with self._looked:
                    self._known.update(found)
                    self._looked.notify_all()
            await asyncio.sleep(EVERY)


def _versions(workspaces: list[UUID]) -> dict[UUID, str]:
    """A name for what changed last in each; made of ids and times only."""
    try:
        return {workspace: _version(workspace) for workspace in workspaces}
    finally:
        connection.close()  # back to the pool


def _version(workspace: UUID) -> str:
    with session.acting_as(DatabaseRole.WEB):
        session.enter(workspace)
        changed = (
            Approval.objects.unscoped(Reason.HEALTH)
            .filter(workspace_id=workspace)
            .order_by("-changed_at")
            .values_list("pk", "changed_at")[:NEWEST]
        )
        return live.tag(f"{pk} {at}" for pk, at in changed)


_versions_of: dict[asyncio.AbstractEventLoop, Versions] = {}


def _here() -> Versions:
    return _versions_of.setdefault(asyncio.get_running_loop(), Versions())


def streamed(request: HttpRequest) -> bool:
    """Whether a page of this request hears of changes, or has to ask."""
    return settings.STREAMS and isinstance(request, ASGIRequest)


@require_safe
@member
def stream(request: MemberRequest) -> HttpResponseBase:
    """Named events without payload, for five minutes; 204 where there are no streams."""
    full = sum(one.streams for one in _versions_of.values()) >= MOST
    if request.method == "HEAD" or full or not streamed(request):
        return HttpResponse(status=204)
    last = request.headers.get("Last-Event-ID", "")
    response = StreamingHttpResponse(
        _events(request.principal.workspace_id, last),
        content_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )
    connection.close()  # else it would be held until the stream ends
    return response


async def _events(workspace: UUID, last: str) -> AsyncIterator[bytes]:
    """As server-sent events. A page that has heard none hears the first version at once:
    something may have changed since it was made."""
    yield b"retry: 1000\n: open\n\n"
    ends_at = asyncio.get_running_loop().time() + LIFE
    async for version in _here().follow(workspace, last):
        if version is None:
            yield b": still here\n\n"
        else:
            yield f"event: {live.CHANGED}\nid: {version}\n\n".encode()
        if asyncio.get_running_loop().time() > ends_at:
            return


urlpatterns = [path("live", stream, name="live")]
