"""Pages of files that are handed on: export, import."""

from __future__ import annotations
