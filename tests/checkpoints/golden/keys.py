"""The key-encryption key of every golden file. It protects nothing."""

from __future__ import annotations

KEK = {"golden:1": b"golden files: this is no secret."}
assert len(KEK["golden:1"]) == 32  # what a key has
