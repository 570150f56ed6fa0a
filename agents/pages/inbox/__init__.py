"""The Inbox: what agents ask for, and one request opened for its decision."""

from __future__ import annotations
