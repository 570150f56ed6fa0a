"""Keys: who wraps them (`providers`), and which key seals what (`hierarchy`)."""

from __future__ import annotations
