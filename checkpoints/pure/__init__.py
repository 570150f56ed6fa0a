"""Bytes, edits and trees as functions of their arguments: no Django, no I/O."""

from __future__ import annotations
