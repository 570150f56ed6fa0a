"""Ask a model again what it was asked for a step, and show how far its answers agree."""

from __future__ import annotations
