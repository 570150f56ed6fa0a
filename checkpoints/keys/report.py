"""What keys there are, how old, and what ought to be done: counts and ids, no secret.

A few queries whatever the number of keys; of the workspaces, those that are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Count, Min, Q
from django.db.models.functions import Coalesce

from checkpoints import clock
from checkpoints.access import Reason
from checkpoints.errors import KeysUnavailable
from checkpoints.keys import checks
from checkpoints.keys.providers import provider
from checkpoints.models import DataKey, Workspace, WorkspaceKey

OLD = timedelta(days=365)  # a key that has sealed for longer is due for a successor


@dataclass(frozen=True)
class Kek:
    """A key-encryption key that wraps something, or that wraps from now on."""

    id: str
    is_current: bool
    wraps: int  # workspace keys
    since: datetime | None  # what it wraps was first wrapped by it
    problem: str = ""  # why this process cannot unwrap with it


@dataclass(frozen=True)
class Version:
    """Data keys of one purpose and version, in one workspace."""

    purpose: str
    version: int
    living: int
    destroyed: int
    oldest: datetime


@dataclass
class KeysOf:
    """The keys of one workspace."""

    workspace: Workspace
    now: datetime
    newest: WorkspaceKey | None = None
    keks: list[str] = field(default_factory=list)  # of all versions
    outdated: int = 0  # versions that the current key-encryption key does not wrap
    behind: int = 0  # living data keys that the newest workspace key does not wrap
    versions: list[Version] = field(default_factory=list)

    def __str__(self) -> str:
        if self.newest is None or self.age is None:
            return "no key"
        oldest = f", the oldest of {self.oldest:%Y-%m-%d}" if self.oldest else ""
        return (
            f"key v{self.newest.version}, {self.age.days} days old, under"
            f" {', '.join(self.keks)}; {self.living:,} data keys{oldest}"
        )

    @property
    def age(self) -> timedelta | None:
        """Of the newest workspace key."""
        return None if self.newest is None else self.now - self.newest.created_at

    @property
    def living(self) -> int:
        return sum(version.living for version in self.versions)

    @property
    def destroyed(self) -> int:
        return sum(version.destroyed for version in self.versions)

    @property
    def oldest(self) -> datetime | None:
        """When the oldest living data key was made."""
        return min((v.oldest for v in self.versions if v.living), default=None)

    @property
    def advice(self) -> list[str]:
        """What ought to be done, as commands."""
        slug = self.workspace.slug
        if self.newest is None:
            return ["It has no key: nothing can be stored in it."]
        found = []
        if self.outdated:
            found.append("Wrap it with the current key: manage.py keys rotate-kek.")
        if self.behind:
            found.append(
                f"{self.behind:,} data keys wait for the newest workspace key:"
                f" manage.py keys rotate-workspace {slug}."
            )
        elif self.age is not None and self.age > OLD:
            found.append(
                f"Its key is {self.age.days} days old:"
                f" manage.py keys rotate-workspace {slug}."
            )
        return found


def keks() -> list[Kek]:
    """Every key-encryption key in use, the current one first."""
    current = current_kek()
    used = {
        row["kek"]: row
        for row in WorkspaceKey.objects.unscoped(Reason.KEYS)
        .values("kek")
        .annotate(wraps=Count("pk"), since=Min(Coalesce("rewrapped_at", "created_at")))
        .order_by("kek")
    }
    if current:
        used.setdefault(current, {"kek": current, "wraps": 0, "since": None})
    try:
        problems = checks.problems()
    except KeysUnavailable as error:
        problems = dict.fromkeys(used, str(error))
    found = [
        Kek(
            id=kek,
            is_current=kek == current,
            wraps=row["wraps"],
            since=row["since"],
            problem=problems.get(kek, ""),
        )
        for kek, row in used.items()
    ]
    return sorted(found, key=lambda kek: not kek.is_current)


def current_kek() -> str:
    """Id of the key that wraps now; empty when its service does not answer."""
    try:
        return provider().current()
    except KeysUnavailable:
        return ""


def keys_of(workspaces: Iterable[Workspace]) -> list[KeysOf]:
    """The keys of these workspaces, in their order, in three queries."""
    now, current = clock.now(), current_kek()
    found = {one.pk: KeysOf(workspace=one, now=now) for one in workspaces}
    for key in (
        WorkspaceKey.objects.unscoped(Reason.KEYS)
        .filter(workspace_id__in=found)
        .order_by("version")
    ):
        keys = found[key.workspace_id]
        keys.newest = key
        if key.kek not in keys.keks:
            keys.keks.append(key.kek)
        keys.outdated += bool(current) and key.kek != current
    _count_data_keys(found)
    return list(found.values())


def _count_data_keys(found: dict[UUID, KeysOf]) -> None:
    rows = (
        DataKey.objects.unscoped(Reason.KEYS)
        .filter(workspace_id__in=found)
        .values("workspace_id", "purpose", "version", "workspace_key_id")
        .annotate(
            living=Count("pk", filter=Q(destroyed_at=None)),
            destroyed=Count("pk", filter=Q(destroyed_at__isnull=False)),
            oldest=Min("created_at"),
        )
        .order_by("workspace_id", "purpose", "version")
    )
    counted: dict[tuple[UUID, str, int], Version] = {}
    for row in rows:
        keys = found[row["workspace_id"]]
        if keys.newest is None or row["workspace_key_id"] != keys.newest.pk:
            keys.behind += row["living"]
        place = (row["workspace_id"], row["purpose"], row["version"])
        before = counted.get(place)
        counted[place] = Version(
            purpose=row["purpose"],
            version=row["version"],
            living=row["living"] + (before.living if before else 0),
            destroyed=row["destroyed"] + (before.destroyed if before else 0),
            oldest=min(row["oldest"], before.oldest) if before else row["oldest"],
        )
    for (workspace_id, _, _), version in counted.items():
        found[workspace_id].versions.append(version)


def as_json(keks: list[Kek], each: list[KeysOf]) -> str:
    """For a program."""
    return json.dumps(
        {
            "keks": [asdict(kek) for kek in keks],
            "workspaces": [
                {
                    "workspace": keys.workspace.slug,
                    "version": keys.newest.version if keys.newest else None,
                    "age_days": keys.age.days if keys.age else None,
                    "keks": keys.keks,
                    "outdated": keys.outdated,
                    "behind": keys.behind,
                    "oldest": keys.oldest,
                    "data_keys": [asdict(version) for version in keys.versions],
                    "advice": keys.advice,
                }
                for keys in each
            ],
        },
        default=str,
    )
