"""Who asks: the signed-in person's place in a workspace, as `request.principal`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from ipaddress import IPv6Address, ip_address
from typing import Any, Concatenate, ParamSpec

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers
from django.utils.crypto import salted_hmac

from agents.pages.respond import login_expired
from checkpoints.access import Reason, Role, UserPrincipal
from checkpoints.compiled import Compiled
from checkpoints.db import session
from checkpoints.errors import NotPermitted
from checkpoints.models import Group, Membership

P = ParamSpec("P")

WORKSPACE_KEY = "workspace"  # in the session: the workspace that is being looked at


class MemberRequest(HttpRequest):
    """A request that `member` let through."""

    principal: UserPrincipal
    waiting: str  # the navigation's count, where the page has counted it
    user: User
    htmx: Any  # django_htmx.middleware.HtmxDetails


# Asked by every page.
_MEMBERSHIPS = Compiled(
    lambda _, user: (
        Membership.objects.unscoped(Reason.SIGN_IN)
        .filter(user=user)
        .select_related("workspace")
        .order_by("created_at")
    )
)
_GROUPS = Compiled(
    lambda _, membership: (
        Group.objects.unscoped(Reason.SIGN_IN)
        .filter(members=membership)
        .values_list("pk", flat=True)
    )
)


def principal_of(request: HttpRequest) -> UserPrincipal | None:
    """The person's principal in the session's workspace, or None for a stranger.

    Read anew on every request, so that a role that was taken away is gone with the
    next click. The database shows the rest of the request that workspace's rows only.
    """
    user = request.user
    if not user.is_authenticated:
        return None
    with session.signing_in(user.pk):
        memberships = _MEMBERSHIPS.rows(None, user=user.pk)
    if not memberships:
        return None
    chosen = request.session.get(WORKSPACE_KEY)
    membership = next(
        (m for m in memberships if str(m.workspace_id) == chosen), memberships[0]
    )
    session.enter(membership.workspace_id)
    groups = frozenset(_GROUPS.rows(None, membership=membership.pk))
    return UserPrincipal(
        user_id=user.pk,
        workspace_id=membership.workspace_id,
        role=Role(membership.role),
        can_approve=membership.can_approve,
        name=user.get_full_name() or user.get_username(),
        groups=groups,
        session=session_of(request),
        address=address_of(request),
        halted_at=membership.workspace.halted_at,
    )


def session_of(request: HttpRequest) -> str:
    """A keyed hash of the session's key, which is a secret."""
    key = request.session.session_key or ""
    return salted_hmac("holdpoint.session", key).hexdigest()


def address_of(request: HttpRequest) -> str:
    """The address that asks; empty where the server is told none, or what is none.

    An IPv4 address that comes as an IPv6 one (a server that listens to both at once) is
    written as what it is: as IPv6 they would all be of one network. A link's name goes.
    """
    try:
        found = ip_address(request.META.get("REMOTE_ADDR") or "")
    except ValueError:
        return ""
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or IPv6Address(int(found))
    return str(found)


def member(
    view: Callable[Concatenate[MemberRequest, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Let members of a workspace in; send others to sign in, or say what is missing.

    A fragment that is asked for after the session ended answers 401 with a redirect
    for the whole page: the sign-in form must not be swapped into a panel. What a
    service or the gate does not permit is a 403 that says why.
    """

    @wraps(view)
    def inner(
        request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs
    ) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return login_expired(request)
        principal = principal_of(request)
        if principal is None:
            return render(request, "no_workspace.html", status=403)
        request.principal = principal  # type: ignore[attr-defined]  # now a MemberRequest
        try:
            response = view(request, *args, **kwargs)  # type: ignore[arg-type]  # as above
        except NotPermitted as refused:
            raise PermissionDenied(str(refused)) from refused
        add_never_cache_headers(response)
        response["Cache-Control"] = "no-store"  # pages show opened state
        return response

    return inner
