"""Bundles: steps, branches and threads as files, out of here and in again."""

from __future__ import annotations
