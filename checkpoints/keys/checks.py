"""Whether this process has the keys that it needs: asked before it serves or works."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber

from checkpoints.access import Reason
from checkpoints.errors import DecryptionError, UnknownKey
from checkpoints.ids import short
from checkpoints.keys import material
from checkpoints.keys.providers import provider
from checkpoints.models import WorkspaceKey
from checkpoints.pure import envelope

_SAMPLES = 3  # rows that are tried for each key: one damaged row is not a wrong key


def require_keks() -> None:
    """Raises ImproperlyConfigured when workspace keys are wrapped by what is not here.

    Reads a few rows and writes nothing. An empty database, and one without tables yet,
    needs no key. Raises KeysUnavailable when a provider's service does not answer.
    """
    problems = missing_keks()
    if problems:
        raise ImproperlyConfigured(" ".join([*problems, "Nothing was written."]))


def missing_keks() -> list[str]:
    """A sentence or two for each key-encryption key that is in use and not here."""
    if WorkspaceKey._meta.db_table not in connection.introspection.table_names():
        return []
    rows = WorkspaceKey.objects.unscoped(Reason.KEYS)
    used = dict(rows.values_list("kek").annotate(Count("pk")).order_by("kek"))
    ranked = rows.annotate(
        rank=Window(RowNumber(), partition_by=F("kek"), order_by=F("pk").desc())
    ).filter(rank__lte=_SAMPLES)
    samples: dict[str, list[WorkspaceKey]] = {kek: [] for kek in used}
    for row in ranked:
        samples[row.kek].append(row)
    found = (_problem(kek, rows) for kek, rows in samples.items())
    return [
        f"{problem} It wraps {used[kek]} workspace key{'s' if used[kek] > 1 else ''}."
        for kek, problem in zip(samples, found, strict=True)
        if problem
    ]


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
        f"Key-encryption key {kek!r} is here, but is not the one that wrapped workspace"
        f" key {short(samples[0].pk)}: it has other bytes under the same id. Give the old"
        " bytes back under this id, and the new ones an id of their own."
    )
