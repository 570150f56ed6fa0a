"""The password once more, from somebody who has signed in: counted as any attempt is."""

from __future__ import annotations

from django.contrib.auth import authenticate

from agents.errors import InvalidDecision
from agents.pages.principal import MemberRequest, address_of
from checkpoints import sign_in
from checkpoints.sign_in import TooManyFailures


def password_ok(request: MemberRequest) -> bool:
    """Whether the form gave the password of whoever is signed in; False for none.

    Raises InvalidDecision ("password") for another one, and after too many of those.
    """
    password = request.POST.get("password", "")
    if not password:
        return False
    name, address = request.user.get_username(), address_of(request)
    try:
        sign_in.attempt(name, address)
    except TooManyFailures as locked:
        if locked.first:
            sign_in.record_refused(name, address, why="too many failures")
        raise InvalidDecision({"password": str(locked)}) from None
    found = authenticate(request, username=name, password=password)
    if found is None or found.pk != request.user.pk:
        sign_in.record_refused(name, address, why="no match")
        raise InvalidDecision({"password": "That is not your password."})
    sign_in.succeeded(name, address)
    return True
