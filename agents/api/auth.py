"""Who asks: a program, by its token in the Authorization header. No cookie counts."""

from __future__ import annotations

from django.http import HttpRequest
from ninja.errors import HttpError
from ninja.security import HttpBearer

from checkpoints import audit, tokens
from checkpoints.access import Scope, ServicePrincipal
from checkpoints.db import session
from checkpoints.errors import NotPermitted

JSON = "application/json"


class ProgramRequest(HttpRequest):
    """A request that a token let through; `auth` is set by ninja."""

    auth: ServicePrincipal


class Token(HttpBearer):
    """A live token with this scope. The rest of the request is its workspace's."""

    openapi_description = "An API token: `Authorization: Bearer hp_…`"

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, token: str) -> ServicePrincipal:
        """Raises BadToken, TooManyRequests, NotPermitted without the scope, HttpError."""
        program = tokens.authenticate(
            token, address=request.META.get("REMOTE_ADDR") or ""
        )
        session.enter(program.workspace_id)
        if self.scope not in program.scopes:
            audit.record(program, "refused", purpose=self.scope, outcome="refused")
            raise NotPermitted(
                f"This needs a token with the scope {self.scope.value}; this one has: "
                f"{', '.join(sorted(program.scopes))}. An admin can make another."
            )
        kind = request.content_type or JSON
        if request.method == "POST" and kind != JSON:
            raise HttpError(415, f"Send JSON, as Content-Type: {JSON}.")
        return program


reads, starts, messages, forks, cancels, decides = map(Token, Scope)
