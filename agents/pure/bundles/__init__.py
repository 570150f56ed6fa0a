"""Files that are handed on: bundles of steps, and test cases."""

from __future__ import annotations
