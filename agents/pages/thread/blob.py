"""One blob: a page that shows what it can, the image itself, and the download.

What a blob holds came from a model, a tool or a file, and so did its media type. Text is
shown escaped; of images those kinds that browsers draw without running anything, if their
first bytes say the same; all else is only handed over, as a file that no browser opens by
itself. Each look is recorded, as each opening is.
"""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from agents.pages.chips import IMAGES, MOST_SHOWN, chip_of
from agents.pages.damage import GONE, open_each
from agents.pages.principal import MemberRequest, member
from checkpoints import blobs, gate
from checkpoints.errors import CheckpointsError, MissingObject, StoreUnavailable
from checkpoints.gate import Pass
from checkpoints.ids import short
from checkpoints.models import Blob
from checkpoints.pure import refs

MOST_TEXT = 200_000  # characters that a page shows
POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"
SUFFIXES = {
    "application/json": "json",
    "application/pdf": "pdf",
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "image/gif": "gif",
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/webp": "webp",
    "text/plain": "txt",
}


@require_safe
@member
def blob(request: MemberRequest, pk: UUID, blob: UUID) -> HttpResponse:
    """What it is, and what it holds if that is text or an image."""
    row, opened = _admit(request, pk, blob, "blob page")
    context = {
        "chip": chip_of(row),
        "blob": row,
        "thread": row.thread,
        "title": open_each(opened, [row.thread], "title")[0],
        "most": MOST_TEXT,
    }
    status = 200
    if row.media_type == refs.TEXT:
        try:
            text = blobs.read(opened, row).decode(errors="replace")
            context |= {"text": text[:MOST_TEXT], "characters": len(text)}
        except GONE as gone:
            context["gone"], status = why(gone), gone.status
    return render(request, "blob.html", context, status=status)


@require_safe
@member
def download(request: MemberRequest, pk: UUID, blob: UUID) -> HttpResponse:
    """The bytes, as a file to keep. Its name is ours, not theirs who wrote it."""
    row, opened = _admit(request, pk, blob, "blob download")
    try:
        content = blobs.read(opened, row)
    except GONE as gone:
        return HttpResponse(why(gone), status=gone.status, content_type="text/plain")
    name = f"blob-{short(row.pk)}.{SUFFIXES.get(row.media_type, 'bin')}"
    return as_file(content, f'attachment; filename="{name}"')


@require_safe
@member
def image(request: MemberRequest, pk: UUID, blob: UUID) -> HttpResponse:
    """An image to draw. Http404 for what is none, whatever it is called."""
    row, opened = _admit(request, pk, blob, "blob image")
    starts = IMAGES.get(row.media_type)
    if starts is None or row.size > MOST_SHOWN:
        raise Http404
    try:
        content = blobs.read(opened, row)
    except GONE as gone:
        return HttpResponse(why(gone), status=gone.status, content_type="text/plain")
    if not content.startswith(starts):
        raise Http404
    return _bytes(content, row.media_type, "inline")


def _admit(
    request: MemberRequest, pk: UUID, blob: UUID, purpose: str
) -> tuple[Blob, Pass]:
    """The row, and a pass for its thread. Raises Http404 and NotPermitted."""
    row = get_object_or_404(
        Blob.objects.for_user(request.principal).select_related("thread"),
        pk=blob,
        thread=pk,
    )
    return row, gate.admit(request.principal, purpose=purpose, threads=[row.thread])


def as_file(content: bytes, disposition: str) -> HttpResponse:
    """A file that no browser opens by itself."""
    return _bytes(content, "application/octet-stream", disposition)


def why(gone: CheckpointsError) -> str:
    """Why it cannot be shown, for people; where the store is, is not their concern."""
    match gone:
        case MissingObject():
            return "What this stood for is not in the blob store any more."
        case StoreUnavailable():
            return "The blob store does not answer now. Try again later."
    return str(gone)


def _bytes(content: bytes, media_type: str, disposition: str) -> HttpResponse:
    response = HttpResponse(content, content_type=media_type)
    response["Content-Disposition"] = disposition
    response["Content-Security-Policy"] = POLICY
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    return response
