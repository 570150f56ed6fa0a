"""The checkpoint log: append, read, fork."""

from __future__ import annotations
