from __future__ import annotations

import os
import time
from argparse import ArgumentParser
from collections import defaultdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints import audit_chain
from checkpoints.management.slugs import workspace_named
from checkpoints.models import Workspace
from checkpoints.pure.audit_proof import Head

EVERY = 5.0  # seconds between two lines of progress
NOBODYS = "-"  # the log of what belongs to no workspace

Anchors = dict[str, list[Head]]  # by id of the workspace, or NOBODYS


class Command(BaseCommand):
    help = (
        "Verify the audit log: recompute the chain of each workspace and name the first "
        "bad row (altered, missing, inserted, reordered, unlinked for too long). Prints "
        "each chain's head as NUMBER:HASH. Keep it outside now and then: given back as "
        "--anchor it shows a log that was cut off, set back or written anew; --anchors "
        "does both with a file, for a job that runs daily. Ends with 1 when anything is "
        "wrong. What was found is recorded in the log, and shown on its page."
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
        parser.add_argument(
            "--anchors",
            type=Path,
            metavar="FILE",
            help="hold each log against the heads in this file, and add its head to it "
            "when it holds; keep the file where the database's owner cannot write",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        slug, file = options["workspace"], options["anchors"]
        if options["anchor"] and slug is None:
            raise CommandError("Say --workspace: an anchor is of one workspace's log.")
        try:
            given = [Head.parse(text) for text in options["anchor"]]
        except ValueError as wrong:
            raise CommandError(str(wrong)) from None
        kept: Anchors = defaultdict(list)
        if file and file.exists():
            kept = _read(file)
        elif file:
            self.stderr.write(f"{file} is not there: it begins with today's heads.")
        held: Anchors = {}
        bad = 0
        for workspace in self._chains(slug):
            of = str(workspace.pk) if workspace else NOBODYS
            anchors = kept.pop(of, [])
            head = self._verify(workspace, [*given, *anchors])
            bad += head is None
            if head and head.number and head not in anchors:
                held[of] = [head]
        if slug is None:
            for gone in kept:
                self.stdout.write(f"{gone}: was anchored, and there is no such log.")
            bad += len(kept)
        if file:
            _add(file, held)
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

    def _verify(self, workspace: Workspace | None, anchors: list[Head]) -> Head | None:
        """The head of a log that holds."""
        name = workspace.slug if workspace else NOBODYS
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
            return None
        if verdict.head.number:
            self.stdout.write(
                f"{name}: {verdict.head.number:,} rows, head {verdict.head}"
            )
        else:
            self.stdout.write(f"{name}: no rows")
        return verdict.head


def _read(file: Path) -> Anchors:
    """A line for each head: whose it is, then NUMBER:HASH."""
    found: Anchors = defaultdict(list)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise CommandError(
            f"{file} cannot be read ({type(problem).__name__})."
        ) from None
    for at, line in enumerate(lines, 1):
        whose, _, head = line.partition(" ")
        try:
            found[whose].append(Head.parse(head))
        except ValueError as wrong:
            raise CommandError(f"{file}, line {at}: {wrong}") from None
    return found


def _add(file: Path, heads: Anchors) -> None:
    """What is in the file stays: a head that was kept is not replaced by a newer one."""
    try:
        with file.open("a", encoding="utf-8") as out:
            for whose, found in heads.items():
                out.writelines(f"{whose} {head}\n" for head in found)
            out.flush()
            os.fsync(out.fileno())
    except OSError as problem:
        raise CommandError(
            f"{file} cannot be written ({problem.strerror}); no head was kept."
        ) from None
