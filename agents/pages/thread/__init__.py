"""One thread: its steps, its branches, and what each step changed."""

from __future__ import annotations
