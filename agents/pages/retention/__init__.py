"""How long threads keep their content: the workspace's page, and each thread's."""

from __future__ import annotations
