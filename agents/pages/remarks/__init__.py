"""What people said about threads, branches and steps."""

from __future__ import annotations
