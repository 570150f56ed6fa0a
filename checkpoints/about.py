"""What the log's lines are about: ids that hold for whatever is logged in a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_ids: ContextVar[Mapping[str, object]] = ContextVar("about", default={})  # noqa: B039  # never changed


@contextmanager
def about(**ids: object) -> Iterator[None]:
    """Lines that this thread or task logs in the block have these ids, too."""
    token = _ids.set({**_ids.get(), **ids})
    try:
        yield
    finally:
        _ids.reset(token)


def now_at(**ids: object) -> None:
    """Of the rest of the block of `about`, such as the step; nothing outside of one."""
    if found := _ids.get():
        _ids.set({**found, **ids})


def ids() -> Mapping[str, object]:
    return _ids.get()
