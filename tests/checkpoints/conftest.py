"""What several of these tests stand on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checkpoints.access import Reason, unscoped


@pytest.fixture
def everything_visible() -> Iterator[None]:
    """The test looks at rows directly."""
    with unscoped(Reason.TEST):
        yield
