"""Channels: admins make them, try them, switch them off, and see what was delivered."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.core.exceptions import PermissionDenied
from django.db.models import Case, IntegerField, Value, When
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path
from django.views.decorators.http import require_http_methods

from agents.delivery import channels
from agents.delivery.send import TRIES
from agents.models import Channel, Delivery
from agents.pages.damage import open_each
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location
from checkpoints import gate
from checkpoints.access import Role, UserPrincipal
from checkpoints.models import Group

ROWS = 200  # channels
LAST = 50  # deliveries
EVENTS = {
    "asked": "a request waits",
    "escalated": "it still waits, and others are told",
    "decided": "somebody decided it",
    "expired": "nobody did in time",
    "executed": "what was approved was run",
}


class ChannelForm(forms.Form):
    """A channel as it is typed; `channels.make` says what does not fit."""

    kind = forms.ChoiceField(choices=Channel.Kind.choices)
    name = forms.CharField(required=False)
    address = forms.CharField(required=False)
    events = forms.MultipleChoiceField(choices=list(EVENTS.items()), required=False)
    groups = forms.MultipleChoiceField(required=False)
    include_title = forms.BooleanField(required=False)

    def __init__(self, *args: Any, groups: list[Group], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offered: Any = self.fields["groups"]
        offered.choices = [(str(group.pk), group.name) for group in groups]


@require_http_methods(["GET", "HEAD", "POST"])
@member
def channels_page(request: MemberRequest) -> HttpResponse:
    """Admins' page. POST does what `do` says; a new webhook's secret is shown once."""
    principal = request.principal
    if principal.role is not Role.ADMIN:
        raise PermissionDenied(channels.ADMIN)
    groups = list(Group.objects.for_user(principal).order_by("name"))
    if request.method != "POST":
        return _page(request, ChannelForm(groups=groups), groups)
    if (do := request.POST.get("do", "make")) != "make":
        return _do(request, do, _uuid(request.POST.get("id", "")))
    form = ChannelForm(request.POST, groups=groups)
    if not form.is_valid():
        return _page(request, form, groups, status=422)
    try:
        made, secret = channels.make(channels.Draft(**form.cleaned_data), by=principal)
    except channels.ChannelRefused as refused:
        for field, text in refused.fields.items():
            form.add_error(field, text)
        return _page(request, form, groups, status=422)
    if secret:
        return _page(
            request, ChannelForm(groups=groups), groups, made=made, text=secret
        )
    return hx_location(request, "agents:channels", say="Made. Send a test over it.")


def _do(request: MemberRequest, do: str, pk: UUID) -> HttpResponse:
    principal = request.principal
    if do in ("retry", "leave"):
        get_object_or_404(Delivery.objects.for_user(principal), pk=pk)
        act = channels.retry if do == "retry" else channels.leave
        done = act(pk, by=principal)
        said = "It is tried again." if do == "retry" else "It counts no longer."
        return hx_location(
            request, "agents:channels", say=said if done else "It was not given up."
        )
    channel = get_object_or_404(Channel.objects.for_user(principal), pk=pk)
    match do:
        case "test":
            channels.test(channel, by=principal)
            said = "A test is on its way; its row below says what came of it."
        case "on" | "off":
            changed = channels.switch(channel, on=do == "on", by=principal)
            said = f"Switched {do}." if changed else f"It was {do} already."
        case _:
            said = "Nothing was done."
    return hx_location(request, "agents:channels", say=said)


def _uuid(typed: str) -> UUID:
    try:
        return UUID(typed)
    except ValueError:
        return UUID(int=0)


def _page(
    request: MemberRequest,
    form: ChannelForm,
    groups: list[Group],
    *,
    status: int = 200,
    **made: Any,
) -> HttpResponse:
    principal = request.principal
    rows = list(Channel.objects.for_user(principal).order_by("-active", "name")[:ROWS])
    given_up = When(status=Delivery.Status.UNDELIVERED, then=Value(0))
    last = (
        Delivery.objects.for_user(principal)
        .select_related("channel", "approval", "recipient")
        .order_by(
            Case(given_up, default=Value(1), output_field=IntegerField()), "-created_at"
        )[:LAST]
    )
    named = {str(group.pk): group.name for group in groups}
    context = {
        "form": form,
        "events": EVENTS.items(),
        "chosen": form["events"].value()
        or ([] if form.is_bound else ["asked", "escalated"]),
        "groups": groups,
        "chosen_groups": form["groups"].value() or [],
        "rows": [
            (row, address, [named.get(pk, "a group that went") for pk in row.groups])
            for row, address in zip(rows, _addresses(principal, rows), strict=True)
        ],
        "deliveries": last,
        "tries": TRIES,
        **made,
    }
    return render(request, "channels.html", context, status=status)


def _addresses(principal: UserPrincipal, rows: list[Channel]) -> list[Any]:
    """As they were typed. Opening them is recorded."""
    if not rows:
        return []
    opened = gate.admit(principal, purpose="channels")
    return open_each(opened, rows, "address")


urlpatterns = [path("channels/", channels_page, name="channels")]
