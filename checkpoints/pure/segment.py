"""Segments: runs of steps of one branch, packed into one sealed record."""

from __future__ import annotations

SEGMENT_STEPS = 64  # steps; segments begin where the step number is a multiple of it
