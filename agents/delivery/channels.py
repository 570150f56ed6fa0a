"""Admins make channels, try them, and switch them off and on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from uuid import UUID

from django.db import IntegrityError, transaction

from agents.delivery import mail, outbox, webhook
from agents.delivery.address import target_of
from agents.delivery.trouble import BadAddress
from agents.errors import AgentsError
from agents.models import Channel, Delivery, Event
from checkpoints import audit, gate
from checkpoints.access import Role, UserPrincipal
from checkpoints.clock import ClockTimestamp
from checkpoints.errors import NotPermitted
from checkpoints.models import Group
from checkpoints.pure.codec import clean

LONGEST_NAME = 60  # characters
ADMIN = "Only an admin of the workspace sets where messages go."
EVENTS = [event for event in Event if event is not Event.TEST]

Status = Delivery.Status


class ChannelRefused(AgentsError):
    """A channel lacks something; `fields` says what is wrong with which."""

    code = "invalid_channel"
    status = 422

    def __init__(self, **fields: str) -> None:
        super().__init__("; ".join(f"{name}: {text}" for name, text in fields.items()))
        self.fields = fields


@dataclass(frozen=True)
class Draft:
    """A channel as somebody wants it. An e-mail channel without an address: to people."""

    kind: str
    name: str
    address: str = field(default="", repr=False)
    events: Collection[str] = ()
    groups: Collection[str] = ()
    include_title: bool = False


def make(draft: Draft, *, by: UserPrincipal) -> tuple[Channel, str]:
    """The channel, and a webhook's secret, which nobody can be shown again.

    Raises NotPermitted, and ChannelRefused.
    """
    _require_admin(by)
    channel = Channel(
        workspace_id=by.workspace_id,
        kind=draft.kind,
        name=_name(draft.name),
        events=_events(draft.events),
        groups=_groups(draft.groups, by),
        include_title=draft.include_title,
        made_by_id=by.user_id,
    )
    if address := _address(draft):
        channel.address = gate.seal(channel, "address", address)
    secret = ""
    if draft.kind == Channel.Kind.WEBHOOK:
        secret = webhook.new_secret()
        channel.secret = gate.seal(channel, "secret", secret)
    try:
        with transaction.atomic():
            channel.save(force_insert=True)
            audit.record(
                by,
                "channel_make",
                obj=channel,
                kind=str(channel.kind),
                events=list(channel.events),
                groups=list(channel.groups),
                title=channel.include_title,
            )
    except IntegrityError:
        raise ChannelRefused(name="There is a channel of this name already.") from None
    return channel, secret


def switch(channel: Channel, *, on: bool, by: UserPrincipal) -> bool:
    """Switch it on or off. False: it was so already. Raises NotPermitted."""
    _require_admin(by)
    with transaction.atomic():
        changed = Channel.objects.for_user(by).filter(pk=channel.pk, active=not on)
        if not changed.update(active=on):
            return False
        audit.record(by, "channel_on" if on else "channel_off", obj=channel)
    return True


def test(channel: Channel, *, by: UserPrincipal) -> Delivery:
    """Send something over it, which says that it is a test. Raises NotPermitted."""
    _require_admin(by)
    with transaction.atomic():
        audit.record(by, "channel_test", obj=channel)
        return outbox.test(channel, recipient=by.user_id)


def retry(pk: UUID, *, by: UserPrincipal) -> bool:
    """Begin anew with a message that was given up. False: it is not. Raises NotPermitted."""
    return _settle(
        pk,
        by,
        "deliver_retry",
        status=Status.QUEUED,
        attempts=0,
        next_at=ClockTimestamp(),
    )


def leave(pk: UUID, *, by: UserPrincipal) -> bool:
    """Count a message that was given up no longer. As `retry`."""
    return _settle(pk, by, "deliver_leave", status=Status.SKIPPED)


def _settle(pk: UUID, by: UserPrincipal, action: str, **values: object) -> bool:
    _require_admin(by)
    with transaction.atomic():
        given_up = Delivery.objects.for_user(by).filter(
            pk=pk, status=Status.UNDELIVERED
        )
        if not given_up.update(**values):
            return False
        delivery = (
            Delivery.objects.for_user(by)
            .select_related("approval", "channel")
            .get(pk=pk)
        )
        audit.record(
            by,
            action,
            obj=delivery.approval or delivery.channel,
            delivery=pk,
            channel=delivery.channel_id,
        )
    return True


def _require_admin(by: UserPrincipal) -> None:
    if by.role is not Role.ADMIN:
        raise NotPermitted(ADMIN)


def _name(typed: str) -> str:
    name: str = clean(" ".join(typed.split()))[0]
    if not name or len(name) > LONGEST_NAME:
        raise ChannelRefused(name="Give the channel a name of 1 to 60 characters.")
    return name


def _address(draft: Draft) -> str:
    typed = draft.address.strip()
    try:
        if draft.kind == Channel.Kind.WEBHOOK:
            target_of(typed)
        elif draft.kind != Channel.Kind.EMAIL:
            raise ChannelRefused(kind="E-mail or webhook.")
        elif typed:
            mail.require_address(typed)
    except BadAddress as bad:
        raise ChannelRefused(address=str(bad)) from None
    return typed


def _events(given: Collection[str]) -> list[str]:
    chosen = [event.value for event in EVENTS if event in given]
    if not chosen or set(given) - set(chosen):
        raise ChannelRefused(events="Choose at least one of those there are.")
    return chosen


def _groups(given: Collection[str], by: UserPrincipal) -> list[str]:
    there = {str(pk) for pk in Group.objects.for_user(by).values_list("pk", flat=True)}
    if set(given) - there:
        raise ChannelRefused(groups="This workspace has no such group.")
    return sorted(set(given))
