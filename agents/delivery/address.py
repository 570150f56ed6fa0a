"""Where a webhook may go: never into our own network, unless a setting lets it.

A name is resolved once, here, and what it resolved to is what is connected to: a name
that means something else a moment later gains nothing.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from agents.delivery.trouble import BadAddress, NotDelivered

LONGEST = 2000  # characters of an address
LOOKUP = 5.0  # seconds that a name server may take; C's resolver has a limit of its own
LOOKUPS = 8  # at once; a name server that says nothing does not gather threads
_NAT64 = IPv6Network("64:ff9b::/96")  # the last 32 bits are an IPv4 address
_LOCALHOST = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Target:
    """An address taken apart. `path` has the query; `host` has no brackets."""

    is_tls: bool
    host: str
    port: int
    path: str


def target_of(url: str) -> Target:
    """Raises BadAddress for what is no address that a webhook could have."""
    if len(url) > LONGEST or not url.isascii() or any(c <= " " for c in url):
        raise BadAddress(
            "An address is plain ASCII, without blanks; a host in xn-- form."
        )
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise BadAddress("This is no address.") from None
    if parts.scheme not in ("https", "http") or not host:
        raise BadAddress("An address begins with https://.")
    if parts.username is not None or parts.password is not None:
        raise BadAddress("An address with a name or password in it is not taken.")
    if parts.fragment:
        raise BadAddress("An address without a # part.")
    if parts.scheme == "http" and not (settings.LOCAL and host in _LOCALHOST):
        raise BadAddress("Only https:// addresses; http:// to localhost in the demo.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    is_tls = parts.scheme == "https"
    return Target(is_tls, host, port or (443 if is_tls else 80), path)


def resolve(
    target: Target, *, seconds: float = LOOKUP, ask: Callable[..., Any] | None = None
) -> str:
    """One address of the host, that may be connected to. Raises NotDelivered.

    `ask` is `socket.getaddrinfo`, or what answers like it.
    """
    addresses = _looked_up(target, seconds, ask or socket.getaddrinfo)
    for address in addresses:
        if is_allowed(address):
            return address
    raise NotDelivered("private_address", final=True)


_at_once = threading.BoundedSemaphore(LOOKUPS)


def _looked_up(target: Target, seconds: float, ask: Callable[..., Any]) -> list[str]:
    """In a thread, as nothing else ends a look-up. Raises NotDelivered."""
    if not _at_once.acquire(timeout=seconds):
        raise NotDelivered("lookup_timeout")
    found: list[str] = []

    def look() -> None:
        try:
            answers = ask(
                target.host,
                target.port,
                type=socket.SOCK_STREAM,
                proto=socket.IPPROTO_TCP,
            )
            found.extend(str(sockaddr[0]) for *_, sockaddr in answers)
        except (OSError, UnicodeError):
            pass  # nothing was found
        finally:
            _at_once.release()

    thread = threading.Thread(target=look, name="look up a webhook", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise NotDelivered("lookup_timeout")
    if not found:
        raise NotDelivered("unknown_host")
    return found


def is_allowed(address: str) -> bool:
    """Whether it is out there, or the setting allows private ones."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if settings.WEBHOOK_PRIVATE_ADDRESSES:
        return True
    return all(
        one.is_global
        and not (one.is_multicast or one.is_reserved or _is_of_a_site(one))
        for one in _meant(ip)
    )


def _is_of_a_site(ip: IPv4Address | IPv6Address) -> bool:
    """fec0::/10, private until 2004 and routed nowhere since: Python calls it global."""
    return isinstance(ip, IPv6Address) and ip.is_site_local


def _meant(ip: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """The address, and IPv4 addresses that an IPv6 one leads to."""
    if isinstance(ip, IPv4Address):
        return [ip]
    if ip.ipv4_mapped is not None:
        return [ip.ipv4_mapped]
    found: list[IPv4Address | IPv6Address] = [ip, *(ip.teredo or ())]
    if ip.sixtofour is not None:
        found.append(ip.sixtofour)
    if ip in _NAT64:
        found.append(IPv4Address(int(ip) & 0xFFFFFFFF))
    return found
