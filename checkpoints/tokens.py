"""Tokens of programs: made once, shown once, recognised by a keyed digest.

    hp_ + base64url(32 random bytes + the 16 of the workspace's id)

The workspace is in it because row security shows no row of any workspace before one is
told. Naming a workspace opens nothing: what counts is the digest.
"""

from __future__ import annotations

import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from datetime import datetime, timedelta
from hmac import compare_digest
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Greatest

from checkpoints import audit, grants
from checkpoints.access import Reason, Role, Scope, ServicePrincipal, UserPrincipal
from checkpoints.clock import ClockTimestamp, now
from checkpoints.db.session import recording
from checkpoints.errors import BadToken, NotPermitted, TokenRefused, TooManyRequests
from checkpoints.keys.hierarchy import workspace_mac
from checkpoints.models import ApiToken, DataKey, Membership
from checkpoints.pure.chain import keyed_digest
from checkpoints.pure.codec import clean

FORM = re.compile(r"hp_[A-Za-z0-9_-]{64}")  # for scanners of secrets, too
SECRET = 32  # random bytes
MINUTE = timedelta(minutes=1)
LONGEST = timedelta(days=3650)
LONGEST_NAME = 60  # characters
ADMIN = "Only an admin of the workspace makes and revokes API tokens."
NOBODYS = (
    "A token that decides acts for the person who made it, so a person makes it, on the "
    "page."
)


def make(
    workspace_id: UUID,
    *,
    name: str,
    scopes: Iterable[str],
    lasts: timedelta | None = None,
    by: UserPrincipal | None,
) -> tuple[ApiToken, str]:
    """The row, and the token, which nobody can be shown again.

    `by` None is a command of the server. Raises NotPermitted, and TokenRefused when the
    name, the scopes or the time do not fit.
    """
    _require_admin(by, workspace_id)
    scopes = _scopes(scopes)
    if Scope.DECIDE in scopes and by is None:
        raise TokenRefused("scopes", NOBODYS)
    token = ApiToken(
        workspace_id=workspace_id,
        name=_name(name),
        scopes=" ".join(scopes),
        created_by_id=by.user_id if by else None,
        expires_at=_expiry(lasts),
    )
    text = f"hp_{urlsafe_b64encode(secrets.token_bytes(SECRET) + workspace_id.bytes).decode()}"
    token.prefix = text[:12]
    token.digest = _digest(workspace_id, text)
    with transaction.atomic():
        token.save(force_insert=True)
        audit.record(
            by,
            "token_make",
            obj=token,
            via="web" if by else "command",
            scopes=token.scopes.split(),
            expires=token.expires_at.isoformat() if token.expires_at else None,
        )
    return token, text


def revoke(token: ApiToken, *, by: UserPrincipal | None) -> bool:
    """End it, and the grants of runs that act through it. False: it was over already.

    Raises NotPermitted.
    """
    _require_admin(by, token.workspace_id)
    via = "web" if by else "command"
    tokens = ApiToken.objects
    mine = tokens.for_user(by) if by else tokens.unscoped(Reason.COMMAND)
    with transaction.atomic():
        ended = mine.filter(pk=token.pk, revoked_at=None).update(
            revoked_at=ClockTimestamp()
        )
        if ended:
            audit.record(by, "token_revoke", obj=token, via=via)
            grants.revoke(
                Q(token_id=token.pk),
                workspace_id=token.workspace_id,
                why="token revoked",
                via=via,
                by_id=by.user_id if by else None,
            )
    return bool(ended)


def authenticate(text: str, *, address: str = "") -> ServicePrincipal:
    """Whom this token is of. Counts the request.

    Raises BadToken (unknown, revoked, expired: one answer for all) and TooManyRequests.
    """
    if not FORM.fullmatch(text):
        raise BadToken
    workspace_id = UUID(bytes=urlsafe_b64decode(text[3:])[SECRET:])
    with recording(workspace_id):
        token = (
            ApiToken.objects.unscoped(Reason.SIGN_IN)
            .filter(workspace_id=workspace_id, prefix=text[:12])
            .first()
        )
        if token is None or not compare_digest(
            bytes(token.digest), _digest(workspace_id, text)
        ):
            raise BadToken
        if not _count(token):
            raise BadToken
    return ServicePrincipal(
        token_id=token.pk,
        workspace_id=workspace_id,
        name=f"{token.name} (API)",
        scopes=frozenset(Scope(scope) for scope in token.scopes.split()),
        address=address,
    )


def person_of(program: ServicePrincipal) -> UserPrincipal:
    """Who made the token, as they are now: for what a program decides in their name.

    Raises NotPermitted where that is nobody, or somebody who is no longer a member.
    """
    tokens = ApiToken.objects.for_user(program).filter(pk=program.token_id)
    token = tokens.live().first()
    if token is None or token.created_by_id is None:
        raise NotPermitted(NOBODYS)
    member = (
        Membership.objects.for_user(program)
        .filter(user_id=token.created_by_id, user__is_active=True)
        .select_related("user", "workspace")
        .first()
    )
    if member is None:
        raise NotPermitted("Whoever made this token is no longer here to decide.")
    return UserPrincipal(
        user_id=member.user_id,
        workspace_id=member.workspace_id,
        role=Role(member.role),
        can_approve=member.can_approve,
        name=member.user.get_full_name() or member.user.get_username(),
        groups=frozenset(member.groups.values_list("pk", flat=True)),
        session=f"token {token.pk}",
        address=program.address,
        halted_at=member.workspace.halted_at,
        token_id=token.pk,
    )


def _count(token: ApiToken) -> bool:
    """Take one request of the token's minute; False when the token is over.

    One row's own clock (GCRA): as many at once as a minute has, then as they come free.
    """
    share = MINUTE / settings.API_REQUESTS_PER_MINUTE
    moment = ClockTimestamp()
    mine = ApiToken.objects.unscoped(Reason.SIGN_IN).filter(pk=token.pk).live()
    free = Q(busy_until=None) | Q(busy_until__lte=moment + MINUTE - share)
    taken = mine.filter(free).update(
        last_used_at=moment, busy_until=Greatest(F("busy_until"), moment) + share
    )
    if taken:
        return True
    until: datetime | None = mine.values_list("busy_until", flat=True).first()
    if until is None:
        return False
    raise TooManyRequests(until - now() - MINUTE + share)


def _digest(workspace_id: UUID, text: str) -> bytes:
    key = workspace_mac(workspace_id, DataKey.Purpose.INDEX)
    return keyed_digest(key, "api token 1", text)


def _require_admin(by: UserPrincipal | None, workspace_id: UUID) -> None:
    if by is not None and (
        by.role is not Role.ADMIN or by.workspace_id != workspace_id
    ):
        raise NotPermitted(ADMIN)


def _name(typed: str) -> str:
    name: str = clean(" ".join(typed.split()))[0]
    if not name or len(name) > LONGEST_NAME:
        raise TokenRefused("name", "Give the token a name of 1 to 60 characters.")
    return name


def _scopes(given: Iterable[str]) -> list[str]:
    chosen = set(given)
    if not chosen or chosen - set(Scope.values):
        raise TokenRefused(
            "scopes", f"Choose one or more of: {', '.join(Scope.values)}."
        )
    return [scope for scope in Scope.values if scope in chosen]


def _expiry(lasts: timedelta | None) -> datetime | None:
    if lasts is None:
        return None
    if not timedelta(0) < lasts <= LONGEST:
        raise TokenRefused("days", "A token lasts from 1 to 3650 days, or for ever.")
    return now() + lasts
