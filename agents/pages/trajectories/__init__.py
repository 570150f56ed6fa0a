"""Trajectories: conversations that went well, exported; conversations from elsewhere, taken in."""

from __future__ import annotations
