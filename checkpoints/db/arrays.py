"""Arrays as PostgreSQL reads them: one text, which a prepared statement sends as it is."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID


def texts(items: Iterable[str]) -> str:
    """`{"one","two"}`: a value for `%(name)s::text[]`."""
    quoted = (item.replace("\\", r"\\").replace('"', r"\"") for item in items)
    return "{" + ",".join(f'"{item}"' for item in quoted) + "}"


def uuids(items: Iterable[UUID]) -> str:
    return "{" + ",".join(item.hex for item in items) + "}"


def byteas(items: Iterable[bytes | memoryview]) -> str:
    return "{" + ",".join(rf'"\\x{item.hex()}"' for item in items) + "}"
