"""Signing in: how often it may fail, and what the audit log says of it.

Failures are counted under the name that was typed and under the address, in PostgreSQL,
so that it is the same count for every process and outlives a restart. An attempt is
counted before the password is looked at: a hundred at once are a hundred. Nothing here
takes another path, or another time, for a name that there is than for one that there
is not.
"""

from __future__ import annotations

from datetime import timedelta
from ipaddress import ip_address, ip_network
from uuid import UUID

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Q
from django.utils.crypto import salted_hmac

from checkpoints import audit, grants
from checkpoints.access import Reason
from checkpoints.db.session import signing_in
from checkpoints.models import Membership

WINDOW = timedelta(minutes=15)  # from the first failure; then counting begins anew
PER_NAME = 10  # failures in a window
PER_ADDRESS = 50  # an office may share one

_NOBODY = 0  # no user has this id
_COUNT = """
    WITH old AS (
        DELETE FROM checkpoints_signinfailures WHERE key IN (
            SELECT key FROM checkpoints_signinfailures
            WHERE since < clock_timestamp() - interval '1 second' * %(seconds)s AND key <> ALL (%(keys)s::text[])
            LIMIT 100 FOR UPDATE SKIP LOCKED
        )
    )
    INSERT INTO checkpoints_signinfailures AS seen (key, failures, since)
    SELECT key, 1, clock_timestamp() FROM unnest(%(keys)s::text[]) AS key ORDER BY key
    ON CONFLICT (key) DO UPDATE SET
        failures = CASE WHEN seen.since < clock_timestamp() - interval '1 second' * %(seconds)s
                        THEN 1 ELSE least(seen.failures + 1, 1000000) END,
        since = CASE WHEN seen.since < clock_timestamp() - interval '1 second' * %(seconds)s
                     THEN clock_timestamp() ELSE seen.since END
    RETURNING key, failures, since + interval '1 second' * %(seconds)s - clock_timestamp()
"""
_SUCCEEDED = """
    UPDATE checkpoints_signinfailures
    SET failures = CASE WHEN key = %s THEN 0 ELSE greatest(failures - 1, 0) END
    WHERE key IN (%s, %s)
"""


class TooManyFailures(Exception):
    """Signing in is refused unseen for a while; `wait` says for how long."""

    def __init__(self, wait: timedelta, *, first: bool) -> None:
        minutes = max(1, -(-int(wait.total_seconds()) // 60))
        super().__init__(
            "Too many attempts to sign in failed. Try again in"
            f" {minutes} minute{'s' if minutes > 1 else ''}."
        )
        self.wait = wait
        self.first = first  # it is this attempt that was one too many


def attempt(name: str, address: str) -> None:
    """Count one attempt, before the password is looked at. Raises TooManyFailures."""
    limits = _limits(name, address)
    with connection.cursor() as cursor:
        cursor.execute(
            _COUNT, {"keys": sorted(limits), "seconds": WINDOW.total_seconds()}
        )
        found = cursor.fetchall()
    over = [
        (wait, failures - limits[key])
        for key, failures, wait in found
        if failures > limits[key]
    ]
    if over:
        raise TooManyFailures(
            max(wait for wait, _ in over), first=min(by for _, by in over) == 1
        )


def succeeded(name: str, address: str) -> None:
    """That attempt was none that failed; the name's earlier ones are forgotten."""
    by_name, by_address = _by_name(name), _by_address(address)
    with connection.cursor() as cursor:
        cursor.execute(_SUCCEEDED, [by_name, by_name, by_address])


def record_refused(name: str, address: str, *, why: str) -> None:
    """An event in the log of each workspace that the person is in, or of none."""
    user_id = (
        User.objects.filter(username=name).values_list("pk", flat=True).first()
        or _NOBODY
    )
    for workspace_id in _workspaces(user_id):
        audit.record(
            None,
            "login",
            workspace_id=workspace_id,
            outcome="refused",
            purpose=why,
            address=address,
            person=user_id or None,
        )


def end_grants(user_id: int, session: str) -> None:
    """What this session let runs do ends with it."""
    for workspace_id in _workspaces(user_id):
        if workspace_id is not None:
            grants.revoke(
                Q(user_id=user_id, session=session),
                workspace_id=workspace_id,
                why="signed out",
                via="web",
                by_id=user_id,
            )


def record(action: str, user_id: int, *, session: str, address: str) -> None:
    """`login` or `logout`, in the log of each workspace that the person is in."""
    for workspace_id in _workspaces(user_id):
        audit.record(
            None,
            action,
            workspace_id=workspace_id,
            actor_id=user_id,
            session=session,
            address=address,
        )


def _workspaces(user_id: int) -> list[UUID | None]:
    """Those that the person is in; None where there is none."""
    mine = Membership.objects.unscoped(Reason.SIGN_IN).filter(user_id=user_id)
    with signing_in(user_id):
        found = mine.order_by("created_at").values_list("workspace_id", flat=True)
        return [*found] or [None]


def _limits(name: str, address: str) -> dict[str, int]:
    limits = {_by_name(name): PER_NAME}
    if address:  # a server behind a socket is told none
        limits[_by_address(address)] = PER_ADDRESS
    return limits


def _by_name(name: str) -> str:
    return salted_hmac("holdpoint.sign-in.name", name.casefold()).hexdigest()


def _by_address(address: str) -> str:
    """Of IPv6 the network: a household has 2^64 addresses."""
    if address and ip_address(address).version == 6:
        address = str(ip_network(f"{address}/64", strict=False))
    return salted_hmac("holdpoint.sign-in.address", address).hexdigest()
