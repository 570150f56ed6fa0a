"""Why a message did not get through."""

from __future__ import annotations


class NotDelivered(Exception):
    """`code` is counted and shown; it never holds what a server said, or an address.

    `final`: another try would come to the same.
    """

    def __init__(self, code: str, *, final: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.final = final


class BadAddress(ValueError):
    """An address that nothing may be sent to; says why, for whoever typed it."""
