from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from checkpoints.access import Reason
from checkpoints.errors import KeysUnavailable
from checkpoints.log.verify import Finding, Tally, verify
from checkpoints.models import Thread, Workspace

EVERY = 5.0  # seconds between two lines of progress
AWAY = 3  # exit status where a store or the keys' service did not answer


class Command(BaseCommand):
    help = (
        "Check that everything is as it was written: keys unwrap, sealed records open, "
        "every step follows from the one before it. Names the first bad row of each "
        "thread and goes on with the next; ends with 1 when there is one. Where a blob "
        "store or the service of the keys does not answer, it says so and ends with 3: "
        "that is no damage. Changes "
        "nothing but the audit log, which records that records were opened. A database "
        "put back whole to an earlier backup is only found by comparing the audit "
        "log's head with one kept outside (docs/integrity.md)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workspace", help="slug; without it, all of them")
        parser.add_argument("--thread", type=UUID, help="id; without it, all of them")
        parser.add_argument(
            "--json",
            action="store_true",
            help="one JSON object a line: each bad row, at the end what was looked at",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = self._workspace(options["workspace"])
        thread = self._thread(options["thread"], workspace)
        tally = Tally()
        self._next = time.monotonic() + EVERY
        try:
            for found in verify(
                workspace, thread, tally=tally, progress=self._progress
            ):
                self._say(found, options["json"])
        except KeysUnavailable as away:
            raise CommandError(f"Keys unavailable: {away}", returncode=AWAY) from None
        if options["json"]:
            self.stdout.write(json.dumps(asdict(tally)))
        else:
            self.stdout.write(f"Looked at {_said(tally)}.")
            for kind, why in tally.away.items():
                self.stdout.write(f"Store unavailable ({kind}): {why}")
        if tally.bad:
            raise CommandError(
                f"{tally.bad} of them bad: the first bad row of each is named above."
            )
        if tally.away:
            raise CommandError(
                f"{tally.unreached:,} blobs and archives were not looked at. All else is"
                " as it was written.",
                returncode=AWAY,
            )

    def _say(self, found: Finding, as_json: bool) -> None:
        if as_json:
            values = {name: str(value) for name, value in asdict(found).items()}
            if found.thread_id is None:
                del values["thread_id"]
            self.stdout.write(json.dumps(values))
        else:
            self.stdout.write(str(found))
        self.stdout.flush()

    def _progress(self, tally: Tally) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY
            self.stderr.write(f"… {_said(tally)}; {tally.bad} bad")

    def _workspace(self, slug: str | None) -> UUID | None:
        if slug is None:
            return None
        known = {one.slug: one.pk for one in Workspace.objects.all()}
        if slug not in known:
            named = ", ".join(sorted(known)) or "none yet"
            raise CommandError(f"No workspace is called {slug!r}; there are: {named}.")
        return known[slug]

    def _thread(self, thread: UUID | None, workspace: UUID | None) -> UUID | None:
        if thread is None:
            return None
        threads = Thread.objects.unscoped(Reason.COMMAND).filter(pk=thread)
        if workspace is not None:
            threads = threads.filter(workspace=workspace)
        if not threads.exists():
            raise CommandError(f"There is no thread {thread} here.")
        return thread


def _said(tally: Tally) -> str:
    said = (
        f"{tally.threads:,} threads: {tally.steps:,} steps, {tally.segments:,} "
        f"segments, {tally.blobs:,} blobs, {tally.archives:,} archives, "
        f"{tally.records:,} other sealed records, {tally.keys:,} keys"
    )
    if tally.shredded:
        said += f"; {tally.shredded:,} threads are shredded"
    if tally.pruned:
        said += f"; the content of {tally.pruned:,} was removed, by the journal"
    return said
