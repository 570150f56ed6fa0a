"""Whether this process has the keys that it needs: asked before it serves or works."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber

from checkpoints.access import Reason
from checkpoints.db import session
from checkpoints.errors import DecryptionError, UnknownKey
from checkpoints.ids import short
from checkpoints.keys import material
from checkpoints.keys.providers import provider
from checkpoints.models import WorkspaceKey
from checkpoints.pure import envelope

_SAMPLES = 3  # rows that are tried for each key: one damaged row is not a wrong key


def require_keks() -> None:
    """Raises ImproperlyConfigured when a workspace key is wrapped by what is not here.

    Reads a few rows and writes nothing. An empty database, and one without tables yet,
    needs no key. Raises KeysUnavailable when a provider's service does not answer.
    """
    # The web role sees the rows of every workspace as an operator only.
    with session.acting_as(session.current().role):
        session.enter_admin()
        found = problems()
    if found:
        raise ImproperlyConfigured(" ".join([*found.values(), "Nothing was written."]))


def problems() -> dict[str, str]:
    """Why this process cannot unwrap with a key-encryption key that is in use, by its id."""
    if WorkspaceKey._meta.db_table not in connection.introspection.table_names():
        return {}
    rows = WorkspaceKey.objects.unscoped(Reason.KEYS)
    ranked = rows.annotate(
        rank=Window(RowNumber(), partition_by=F("kek"), order_by=F("pk").desc()),
        wraps=Window(Count("pk"), partition_by=F("kek")),
    ).filter(rank__lte=_SAMPLES)
    samples: dict[str, list[WorkspaceKey]] = {}
    wraps: dict[str, int] = {}
    for row in ranked.order_by("kek", "rank"):
        samples.setdefault(row.kek, []).append(row)
        wraps[row.kek] = row.wraps
    found = {kek: _problem(kek, rows) for kek, rows in samples.items()}
    return {
        kek: f"{problem} It wraps {wraps[kek]:,} workspace key{'s'[: wraps[kek] > 1]}."
        for kek, problem in found.items()
        if problem
    }


def _problem(kek: str, samples: list[WorkspaceKey]) -> str:
    for row in samples:
        try:
            [plain] = provider().unwrap([material.as_wrapped(row)])
            envelope.unchecked(plain, row.pk)
        except UnknownKey as unknown:
            return str(unknown)
        except DecryptionError:
            continue
        return ""
    return (
        f"Key-encryption key {kek!r} is here, but it did not wrap workspace key"
        f" {short(samples[0].pk)}: it has other bytes under the same id. Give the old"
        " bytes back under this id, and the new ones an id of their own."
    )
