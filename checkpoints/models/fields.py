from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Func, Value


class SealedField(models.BinaryField):  # type: ignore[type-arg]  # generic in the stubs alone
    """A column that holds a sealed record (`pure/envelope.py`). It never opens itself.

    Written with `gate.seal(row, field, value)`, read with `Pass.open(row, field)`.
    Admin pages and `dumpdata` show its size at most. When the content of a thread goes
    (`log/content.py`), the column is emptied, unless it is `kept`: what a thread is
    called and what people decided there outlives what was done in it. What `outlives`
    even the thread's keys is sealed under the workspace's.
    """

    def __init__(
        self, *args: Any, kept: bool = False, outlives: bool = False, **kwargs: Any
    ) -> None:
        self.kept = kept
        self.outlives = outlives
        kwargs.setdefault("editable", False)
        super().__init__(*args, **kwargs)


class BlindIndexField(models.BinaryField):  # type: ignore[type-arg]  # as above
    """A keyed hash of a sealed text, to find equal ones by: 32 bytes, or NULL.

    Made under the workspace's index key (`blind_index`). It tells which rows are equal and
    no more, and goes with the content of its thread, as the text does.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("editable", False)
        super().__init__(*args, **kwargs)


class NextPosition(Func):
    """The next number of a database sequence: an order that clocks cannot change.

    Numbers are given when a row is inserted, so two transactions at once may commit in
    the other order, and a rollback leaves a gap.
    """

    function = "nextval"
    output_field = models.BigIntegerField()

    def __init__(self, sequence: str, **extra: Any) -> None:
        super().__init__(Value(sequence), **extra)
