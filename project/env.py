"""What the environment says, one variable at a time.

A missing or odd value stops the start with the variable's name, what was found
and what was expected. Any variable may instead be given as NAME_FILE, the path of
a file that holds the value: the way secrets arrive in containers.
"""

from __future__ import annotations

import base64
import binascii
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

KEY_BYTES = 32  # AES-256
ESCAPES = " (an @ in the password is written %40, a / %2F, a : %3A)"


def optional(name: str) -> str | None:
    """The value of NAME, or of the file that NAME_FILE names; None when neither is set.

    An empty value counts as not set, which is what `NAME= command` and most
    orchestrators mean by it.
    """
    value, path = os.environ.get(name), os.environ.get(f"{name}_FILE")
    if value and path:
        raise ImproperlyConfigured(f"{name} and {name}_FILE are both set; give one.")
    if path:
        try:
            value = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ImproperlyConfigured(
                f"{name}_FILE={path!r} cannot be read: {type(error).__name__}."
            ) from error
    return value or None


def text(name: str, default: str | None = None, *, hint: str = "") -> str:
    """The value, which must be there unless there is a default."""
    value = optional(name)
    if value is None:
        value = default
    if value is None:
        raise ImproperlyConfigured(f"{name} is not set. {hint}".rstrip())
    return value


def flag(name: str, default: bool) -> bool:
    value = optional(name)
    if value is None:
        return default
    if value not in {"True", "False"}:
        raise ImproperlyConfigured(f"{name}={value!r} must be 'True' or 'False'.")
    return value == "True"


def choice(name: str, choices: tuple[str, ...]) -> str:
    """One of these words; the first when there is none."""
    value = optional(name) or choices[0]
    if value not in choices:
        known = ", ".join(map(repr, choices))
        raise ImproperlyConfigured(f"{name}={value!r} must be one of {known}.")
    return value


def number(name: str, default: int, *, least: int = 0, most: int | None = None) -> int:
    value = optional(name)
    if value is None:
        return default
    if not value.isdecimal() or not least <= int(value) <= (most or int(value)):
        allowed = f"{least} or more" if most is None else f"from {least} to {most}"
        raise ImproperlyConfigured(
            f"{name}={value!r} must be a whole number, {allowed}."
        )
    return int(value)


def names(name: str, default: list[str] | None = None) -> list[str]:
    """A list separated by commas; blanks around its parts do not count."""
    value = optional(name)
    if value is None:
        return default or []
    return [part.strip() for part in value.split(",") if part.strip()]


def apps(name: str) -> list[str]:
    """Packages, or classes of an AppConfig, whose modules can be found."""
    found = names(name)
    for path in found:
        parent, _, last = path.rpartition(".")
        module = parent if parent and last[:1].isupper() else path
        if not _is_there(module):
            raise ImproperlyConfigured(
                f"{name} names {path!r}, but there is no module {module!r}. Expected a"
                " package beside manage.py or on PYTHONPATH, such as shop.support for"
                " shop/support/__init__.py."
            )
    return found


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError as error:
        if f"{module}.".startswith(f"{error.name}."):
            return False
        raise  # a package on the way is there, and lacks something itself


def keys(name: str, default: str | None = None) -> dict[str, bytes]:
    """Keys as `id:base64,id:base64`; the first is the one that new things are sealed with.

    Messages name ids only, never what stands after the colon.
    """
    found: dict[str, bytes] = {}
    expected = f"expected id:base64, where base64 is {KEY_BYTES} random bytes"
    for part in text(name, default, hint=f"Give {expected}.").split(","):
        key_id, colon, encoded = part.strip().rpartition(":")
        if not colon or not key_id:
            raise ImproperlyConfigured(f"{name} has a part without an id; {expected}.")
        try:
            key = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise ImproperlyConfigured(
                f"{name}: key {key_id!r} is not base64; {expected}."
            ) from None
        if len(key) != KEY_BYTES:
            raise ImproperlyConfigured(
                f"{name}: key {key_id!r} has {len(key)} bytes; {expected}."
            )
        if key_id in found:
            raise ImproperlyConfigured(f"{name} names key {key_id!r} twice.")
        found[key_id] = key
    return found


def redis_url(name: str) -> str:
    value = text(name, hint="./dev sets it; elsewhere give redis://host:6379/0.")
    if urlsplit(value).scheme not in {"redis", "rediss", "unix"}:
        raise ImproperlyConfigured(
            f"{name} must begin with redis://, rediss:// or unix://."
        )
    return value


def bucket(name: str) -> tuple[str, str] | None:
    """Bucket and prefix ("" or "a/b/") of s3://bucket/prefix; None when not set."""
    value = optional(name)
    if value is None:
        return None
    url = urlsplit(value)
    if url.scheme != "s3" or not url.netloc or url.query or url.fragment:
        raise ImproperlyConfigured(
            f"{name}={value!r} must be s3://bucket or s3://bucket/prefix; for a directory"
            " leave it unset and give BLOB_DIR."
        )
    prefix = url.path.strip("/")
    return url.netloc, f"{prefix}/" if prefix else ""


def address(name: str) -> str:
    """https://host, without a slash at its end; empty when not set."""
    value = (optional(name) or "").rstrip("/")
    if value and (
        urlsplit(value).scheme not in {"http", "https"} or not urlsplit(value).netloc
    ):
        raise ImproperlyConfigured(
            f"{name}={value!r} must be an address such as https://holdpoint.example."
        )
    return value


def mail_server(name: str) -> dict[str, Any]:
    """BACKEND, HOST, PORT, USER, PASSWORD, TLS and SSL of smtp://user:password@host:587.

    smtp:// turns to TLS where there is a password or ?tls=1 says so; smtps:// begins with
    it. {} when not set. The message does not repeat the value: it holds a password.
    """
    value = optional(name)
    if value is None:
        return {}
    expected = "smtp://user:password@host:587 or smtps://user:password@host:465"
    try:
        url = urlsplit(value)
        port = url.port
    except ValueError:
        port, url = None, urlsplit("")
    if url.scheme not in {"smtp", "smtps"} or not url.hostname:
        raise ImproperlyConfigured(f"{name} must be {expected}{ESCAPES}.")
    options = dict(parse_qsl(url.query))
    is_ssl = url.scheme == "smtps"
    return {
        "BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "HOST": url.hostname,
        "PORT": port or (465 if is_ssl else 25),
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "TLS": not is_ssl and (bool(url.password) or options.get("tls") == "1"),
        "SSL": is_ssl,
    }


def database(name: str) -> dict[str, Any]:
    """Django's settings for postgresql://user:password@host:port/dbname?option=value.

    A socket's folder goes into the query, as libpq has it: ?host=/run/postgresql.
    Other query parameters are libpq's (sslmode, connect_timeout). The messages do
    not repeat the value: it holds a password.
    """
    expected = "postgresql://user:password@host:5432/dbname"
    value = text(name, hint=f"./dev sets it; elsewhere give {expected}.")
    try:
        url = urlsplit(value)
        port = url.port
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{name} cannot be read; expected {expected}{ESCAPES}."
        ) from error
    if url.scheme not in {"postgresql", "postgres"}:
        raise ImproperlyConfigured(
            f"{name} begins with {url.scheme!r}; expected {expected}."
            " PostgreSQL is the only database."
        )
    dbname = unquote(url.path.removeprefix("/"))
    if not dbname or "/" in dbname:
        raise ImproperlyConfigured(
            f"{name} names no database; expected {expected}{ESCAPES}."
        )
    options = dict(parse_qsl(url.query))
    return {
        "ENGINE": "checkpoints.db",
        "NAME": dbname,
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "HOST": options.pop("host", None) or unquote(url.hostname or ""),
        "PORT": options.pop("port", None) or str(port or ""),
        "OPTIONS": options,
    }
