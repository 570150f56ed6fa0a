"""Bringing recorded work in, and taking it out: logs from elsewhere become threads."""

from __future__ import annotations
