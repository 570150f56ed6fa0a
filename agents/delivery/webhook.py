"""Webhooks, as Standard Webhooks has them (standardwebhooks.com): signed, timestamped.

    webhook-id: the delivery's, the same at each try
    webhook-timestamp: seconds since 1970, of this try
    webhook-signature: v1,base64(HMAC-SHA256(secret, "id.timestamp.body"))

Redirects are not followed, a try takes ten seconds at most, and of the answer nothing
but its status is read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import secrets
import socket
import ssl
import threading
import time

from agents.delivery.address import Target, resolve, target_of
from agents.delivery.trouble import BadAddress, NotDelivered

SECONDS = 10.0  # of one try, from the first byte to the status
PREFIX = "whsec_"


def new_secret() -> str:
    """As a receiver's library takes it."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def signature(secret: str, *, message_id: str, timestamp: int, body: bytes) -> str:
    """Raises ValueError for what is no secret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError("not a secret of a webhook") from error
    signed = f"{message_id}.{timestamp}.".encode() + body
    mac = hmac.new(key, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(mac).decode()}"


def post(url: str, *, secret: str, message_id: str, body: bytes) -> None:
    """Send it, once. Raises NotDelivered unless the answer is a 2xx."""
    try:
        target = target_of(url)
    except BadAddress:
        raise NotDelivered("bad_address", final=True) from None
    timestamp = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Holdpoint",
        "Connection": "close",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(
            secret, message_id=message_id, timestamp=timestamp, body=body
        ),
    }
    _judge(_status(target, resolve(target), headers, body))


def _judge(status: int) -> None:
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise NotDelivered("redirect")
    # The receiver says that it is gone for good.
    raise NotDelivered(f"http_{status}", final=status == 410)


def _status(target: Target, address: str, headers: dict[str, str], body: bytes) -> int:
    """What the server answers. Raises NotDelivered."""
    connection = _Connection(target, address)
    over = threading.Timer(SECONDS, connection.cut)
    over.daemon = True
    over.start()
    try:
        connection.request("POST", target.path, body=body, headers=headers)
        return connection.getresponse().status
    except ssl.SSLError:
        raise NotDelivered("timeout" if connection.was_cut else "tls") from None
    except (OSError, http.client.HTTPException) as error:
        late = connection.was_cut or isinstance(error, TimeoutError)
        raise NotDelivered("timeout" if late else "no_answer") from None
    finally:
        over.cancel()
        connection.close()


class _Connection(http.client.HTTPConnection):
    """To the address that was looked at, whatever the name means by now."""

    def __init__(self, target: Target, address: str) -> None:
        super().__init__(target.host, target.port, timeout=SECONDS)
        self._target = target
        self._address = address
        self.was_cut = False

    def connect(self) -> None:
        plain = socket.create_connection(
            (self._address, self._target.port), timeout=SECONDS
        )
        self.sock = plain
        if self._target.is_tls:
            self.sock = ssl.create_default_context().wrap_socket(
                plain, server_hostname=self._target.host
            )
        # A handshake has another socket than `cut` knew: whoever draws it out until the
        # time is up could be slow without end after it.
        if self.was_cut:
            raise TimeoutError

    def cut(self) -> None:
        """Time is up, however slowly the other side goes on."""
        self.was_cut = True
        if (sock := self.sock) is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it ended by itself
