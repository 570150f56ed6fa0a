"""One of the agent's files as it was after a step, to keep."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from agents.errors import FileRefused
from agents.pages.damage import GONE
from agents.pages.principal import MemberRequest, member
from agents.pages.thread.blob import as_file, why
from agents.pages.thread.place import Place
from agents.pages.thread.structure import place_of, tree_of
from agents.pure.files import CHANNEL, files_of, held, normal
from checkpoints import gate
from checkpoints.blobs import Contents
from checkpoints.log.hydrate import state


@require_safe
@member
def file(request: MemberRequest, pk: UUID, checkpoint: UUID) -> HttpResponse:
    """The bytes of the one that `path` names, under its own name, which is a plain one.
    Recorded as an opening. Without a path, the page of all.

    The path is state: logs keep a request's address, and not its query.
    """
    thread, branches, _ = tree_of(request.principal, pk)
    branch_id, step = place_of(request.principal, thread, checkpoint)
    opened = gate.admit(
        request.principal,
        purpose="file download",
        threads=[thread],
        steps=str(step),
    )
    path = request.GET.get("path", "")
    if not path:
        return redirect(Place(pk, checkpoint=checkpoint, tab="files").page)
    branch = next(branch for branch in branches if branch.pk == branch_id)
    try:
        name = normal(path).rpartition("/")[2]
        found = files_of(state(opened, branch, step=step).get(CHANNEL))
        value = Contents(opened, pk).restore({path: found[path].value})[path]
    except (FileRefused, KeyError):
        raise Http404 from None
    except GONE as gone:
        return HttpResponse(why(gone), status=gone.status, content_type="text/plain")
    content = held(value)
    if content is None:
        raise Http404
    if isinstance(content, str):
        content = content.encode()
    # attachment, with the name quoted as RFC 6266 has it
    disposition = content_disposition_header(True, name)
    assert disposition is not None  # there is a name
    return as_file(content, disposition)
