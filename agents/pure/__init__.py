"""The agent's step, its rules and digests as functions of their arguments."""

from __future__ import annotations
