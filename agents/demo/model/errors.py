"""Refusals in the words and the shape of the OpenAI API."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """Answered with `status` and OpenAI's error body."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        }


class Dropped(Exception):
    """End this connection now, whatever was sent."""


def invalid(message: str, param: str | None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def context_overflow(limit: int, tokens: int) -> ApiError:
    return invalid(
        f"This model's maximum context length is {limit} tokens. However, your messages"
        f" resulted in {tokens} tokens. Please reduce the length of the messages.",
        "messages",
        "context_length_exceeded",
    )


def rate_limited(retry_after: str) -> ApiError:
    return ApiError(
        429,
        "Rate limit reached for requests. Please try again later.",
        kind="requests",
        code="rate_limit_exceeded",
        headers={"Retry-After": retry_after},
    )


def no_model(name: str) -> ApiError:
    return ApiError(
        404,
        f"The model `{name}` does not exist or you do not have access to it.",
        code="model_not_found",
    )
