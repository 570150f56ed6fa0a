"""Two branches, or two steps, beside each other."""

from __future__ import annotations
