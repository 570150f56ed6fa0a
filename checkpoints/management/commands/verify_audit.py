from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints import audit_chain
from checkpoints.management.slugs import workspace_named
from checkpoints.models import Workspace
from checkpoints.pure.audit_proof import Head

EVERY = 5.0  # seconds between two lines of progress


class Command(BaseCommand):
    help = (
        "Verify the audit log: recompute the chain of each workspace and name the first "
        "bad row (altered, missing, inserted, reordered, unlinked for too long). Prints "
        "each chain's head as NUMBER:HASH. Keep it outside now and then: given back as "
        "--anchor it shows a log that was cut off, set back or written anew. Ends with "
        "1 when anything is wrong. What was found is recorded in the log, and shown on "
        "its page."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--workspace",
            metavar="SLUG",
            help="only this log; - is that of events which belong to no workspace",
        )
        parser.add_argument(
            "--anchor",
            action="append",
            default=[],
            metavar="NUMBER:HASH",
            help="a head that was kept outside; needs --workspace; can be repeated",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["anchor"] and options["workspace"] is None:
            raise CommandError("Say --workspace: an anchor is of one workspace's log.")
        try:
            anchors = [Head.parse(text) for text in options["anchor"]]
        except ValueError as wrong:
            raise CommandError(str(wrong)) from None
        bad = 0
        for workspace in self._chains(options["workspace"]):
            bad += not self._verify(workspace, anchors)
        if bad:
            raise CommandError(
                f"{bad} of the logs bad: the first bad row of each is named above."
            )

    def _chains(self, slug: str | None) -> list[Workspace | None]:
        match slug:
            case None:
                return list(audit_chain.chains())
            case "-":
                return [None]
        return [workspace_named(slug)]

    def _verify(self, workspace: Workspace | None, anchors: list[Head]) -> bool:
        name = workspace.slug if workspace else "-"
        due = time.monotonic() + EVERY

        def progress(number: int) -> None:
            nonlocal due
            if time.monotonic() >= due:
                due = time.monotonic() + EVERY
                self.stderr.write(f"… {name}: row {number:,}")

        verdict = audit_chain.verify_audit(
            workspace.pk if workspace else None, anchors=anchors, progress=progress
        )
        audit_chain.record_verdict(verdict, workspace=workspace, via="command")
        if verdict.fault is not None:
            self.stdout.write(f"{name}: {verdict.fault}")
        elif verdict.head.number:
            self.stdout.write(
                f"{name}: {verdict.head.number:,} rows, head {verdict.head}"
            )
        else:
            self.stdout.write(f"{name}: no rows")
        return verdict.fault is None
