from __future__ import annotations

from typing import Any

from django.db import models


class SealedField(models.BinaryField):  # type: ignore[type-arg]
    """A column that holds a sealed record (`pure/envelope.py`). It never opens itself.

    Written with `gate.seal(row, field, value)`, read with `Pass.open(row, field)`.
    Admin pages and `dumpdata` show its size at most.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("editable", False)
        super().__init__(*args, **kwargs)
