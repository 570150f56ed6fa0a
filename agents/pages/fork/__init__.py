"""Fork a step: a branch that goes on from it, with something changed and a run, or none."""

from __future__ import annotations
