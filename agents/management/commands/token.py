from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.management import lookups
from checkpoints import tokens
from checkpoints.access import Reason, Scope
from checkpoints.errors import TokenRefused
from checkpoints.models import ApiToken, Workspace


class Command(BaseCommand):
    help = (
        "API tokens of a workspace: what programs act with. A token is printed once, by "
        "`make`, alone on standard output; what is kept only recognises it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parts = parser.add_subparsers(dest="part", required=True)
        make = parts.add_parser("make", help="make a token, and print it")
        make.add_argument("name", help="the program that will use it")
        make.add_argument(
            "--scope",
            action="append",
            required=True,
            choices=Scope.values,
            help="what it may do; more than one may be given",
        )
        make.add_argument("--days", type=int, help="how long it lasts; else for ever")
        shown = parts.add_parser("list", help="the tokens, by how they begin")
        revoke = parts.add_parser("revoke", help="end a token and what acts through it")
        revoke.add_argument("prefix", help="how it begins: the 12 characters of `list`")
        for part in (make, shown, revoke):
            part.add_argument("--workspace", required=True, help="slug")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = lookups.workspace(options["workspace"])
        match options["part"]:
            case "make":
                self._make(workspace, options)
            case "list":
                self._list(workspace)
            case "revoke":
                self._revoke(workspace, options["prefix"][:12])

    def _make(self, workspace: Workspace, options: dict[str, Any]) -> None:
        days = options["days"]
        try:
            _, text = tokens.make(
                workspace.pk,
                name=options["name"],
                scopes=options["scope"],
                lasts=None if days is None else timedelta(days=days),
                by=None,
            )
        except (TokenRefused, OverflowError) as refused:
            raise CommandError(str(refused)) from None
        self.stdout.write(text)

    def _list(self, workspace: Workspace) -> None:
        rows = ApiToken.objects.unscoped(Reason.COMMAND).filter(workspace=workspace)
        for row in rows.order_by("created_at"):
            ends = f"until {row.expires_at:%Y-%m-%d %H:%M}" if row.expires_at else ""
            state = "revoked" if row.revoked_at else ends or "for ever"
            used = f"{row.last_used_at:%Y-%m-%d %H:%M}" if row.last_used_at else "never"
            self.stdout.write(
                f"{row.prefix}  {row.name}  [{row.scopes}]  {state}, last used {used}"
            )

    def _revoke(self, workspace: Workspace, prefix: str) -> None:
        row = (
            ApiToken.objects.unscoped(Reason.COMMAND)
            .filter(workspace=workspace, prefix=prefix)
            .first()
        )
        if row is None:
            raise CommandError(
                f"No token of {workspace.slug} begins with {prefix!r}; `token list` "
                "shows how they begin."
            )
        ended = tokens.revoke(row, by=None)
        self.stdout.write("Revoked." if ended else "It was revoked already.")
