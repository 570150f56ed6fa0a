"""Error reports, as `DEBUG` shows them in the browser: frames without what is in them.

A view's variables and a form's fields are state that somebody just opened or typed.
What an exception says is shown: it is for the person at work, on their own machine.
"""

from __future__ import annotations

from collections.abc import ItemsView
from types import FrameType
from typing import Any

from django.http import HttpRequest
from django.views.debug import SafeExceptionReporterFilter


class ReporterFilter(SafeExceptionReporterFilter):
    """Leaves out local variables, cookies and what was posted, with DEBUG as without."""

    def get_traceback_frame_variables(
        self, request: HttpRequest | None, tb_frame: FrameType
    ) -> ItemsView[str, Any]:
        return dict[str, Any]().items()

    def get_post_parameters(self, request: HttpRequest | None) -> dict[str, Any]:
        posted = {} if request is None else request.POST
        return dict.fromkeys(posted, self.cleansed_substitute)

    def get_safe_cookies(self, request: HttpRequest) -> dict[str, Any]:
        return dict.fromkeys(request.COOKIES, self.cleansed_substitute)
