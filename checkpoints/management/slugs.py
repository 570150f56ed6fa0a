"""Workspaces by the names that people type."""

from __future__ import annotations

from django.core.management.base import CommandError

from checkpoints.models import Workspace


def workspace_named(slug: str) -> Workspace:
    """Raises CommandError, which names the workspaces that there are."""
    known = {one.slug: one for one in Workspace.objects.order_by("slug")}
    if slug not in known:
        named = ", ".join(known) or "none yet"
        raise CommandError(f"No workspace is called {slug!r}; there are: {named}.")
    return known[slug]
