"""The threads list."""

from __future__ import annotations
