"""What coverage does not watch: tests that go where others have been, many times over.

    pytestmark = pytest.mark.unmeasured

Tracing makes Python take nearly twice as long, and that is most of what a storm of
killed workers would do: whoever is killed leaves no measurements. Such a test checks all
that it checks, and adds nothing to the figure, which is then a lower bound.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

IN_CHILDREN = "COVERAGE_PROCESS_CONFIG"  # what makes Python measure itself as it starts


def unwatched(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that does not measure itself."""
    return {name: value for name, value in env.items() if name != IN_CHILDREN}


@contextmanager
def _unmeasured() -> Iterator[None]:
    coverage = sys.modules.get("coverage")  # only where something is measured
    measuring = coverage.Coverage.current() if coverage else None
    if measuring is None:
        yield
        return
    children = os.environ.pop(IN_CHILDREN, None)
    measuring.stop()
    try:
        yield
    finally:
        measuring.start()
        if children is not None:
            os.environ[IN_CHILDREN] = children


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    if item.get_closest_marker("unmeasured") is None:
        return (yield)
    with _unmeasured():
        return (yield)
