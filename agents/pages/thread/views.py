"""The thread's page: whole, as the parts that change with a step, and what it polls."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe
from django_htmx.http import push_url, replace_url

from agents.pages.live import unchanged
from agents.pages.principal import MemberRequest, member
from agents.pages.thread.page import page_context
from agents.pages.thread.status import version
from checkpoints.models import Thread


@require_safe
@member
def thread(
    request: MemberRequest, pk: UUID, checkpoint: UUID | None = None
) -> HttpResponse:
    """The page. Without a checkpoint it stands at the tip and follows it."""
    context = page_context(request, pk, checkpoint=checkpoint)
    status = context["subject"].damage.status if context["subject"].damage else 200
    return render(request, "thread.html", context, status=status)


@require_safe
@member
def parts(
    request: MemberRequest, pk: UUID, checkpoint: UUID | None = None
) -> HttpResponse:
    """The parts of the page that another step, tab or branch changes."""
    context = page_context(request, pk, checkpoint=checkpoint)
    response = render(request, "thread/_parts.html", context)
    return push_url(response, context["place"].page)


@require_safe
@member
def scrub(request: MemberRequest, pk: UUID) -> HttpResponse:
    """As `parts`, while the scrubber moves: it keeps its thumb and the history its length."""
    context = page_context(request, pk)
    response = render(request, "thread/_parts.html", {**context, "scrubbing": True})
    return replace_url(response, context["place"].page)


@require_safe
@member
def live(
    request: MemberRequest, pk: UUID, checkpoint: UUID | None = None
) -> HttpResponse:
    """What a page that shows a thread at work asks for: 304 until something happened."""
    thread = get_object_or_404(Thread.objects.for_user(request.principal), pk=pk)
    tag = version(
        list(thread.branches.all()), list(thread.runs.select_related("grant"))
    )
    if same := unchanged(request, tag):
        return same
    context = page_context(request, pk, checkpoint=checkpoint)
    return render(request, "thread/_parts.html", {**context, "polled": True})
