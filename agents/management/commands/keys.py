"""`manage.py keys`: look after them, and replace them while everything goes on.

In `agents`, not beside the keys: to destroy a thread's one has to know whether a run or
an approval there is not over.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from agents.management import lookups
from agents.runs.retention import WORK
from checkpoints import clock
from checkpoints.access import Reason
from checkpoints.errors import CheckpointsError, Shredded
from checkpoints.ids import short
from checkpoints.keys import checks, hierarchy, report, rewrap, rotation
from checkpoints.keys.providers import provider
from checkpoints.keys.rewrap import Tally
from checkpoints.log import expire
from checkpoints.log.pack import pack_branch
from checkpoints.models import Branch, DataKey, Workspace

EVERY = 2.0  # seconds between two lines of progress
SHOWN = 50  # workspaces that `status` lists
YOUNG = 1.0  # days; what a rotation leaves alone unless it is told otherwise


class Command(BaseCommand):
    help = (
        "Look after keys. Rotations can be stopped at any point and run again, run twice"
        " at once, and run while agents work; docs/keys.md says what each is for."
    )

    # So that it can say what is wrong with the keys when nothing else starts.
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)

        def command(name: str, run: Callable[..., None], text: str) -> ArgumentParser:
            made: ArgumentParser = commands.add_parser(
                name, help=text, description=text
            )
            made.set_defaults(run=run)
            return made

        status = command(
            "status", self.status, "Which keys there are, how old, and what to do."
        )
        status.add_argument("--workspace", metavar="SLUG", help="only this one")
        status.add_argument("--json", action="store_true", help="for a program")

        command(
            "check",
            self.check_keks,
            "Whether every key-encryption key in use is here; ends with 1 when one is"
            " not. Writes nothing. Web and workers ask this when they start.",
        )

        kek = command(
            "rotate-kek",
            self.rotate_kek,
            "Wrap every workspace key by the current key-encryption key, the first of"
            " KEY_ENCRYPTION_KEYS. Nothing that was sealed is touched.",
        )
        kek.add_argument("--from", dest="kek_from", metavar="ID", help="only from this")

        thread = command(
            "rotate-thread",
            self.rotate_thread,
            "Give threads a new data key for what they write from now on. What is"
            " written stays readable, under the old one.",
        )
        which = thread.add_mutually_exclusive_group(required=True)
        which.add_argument("thread", nargs="?", type=UUID, help="id of one thread")
        which.add_argument("--workspace", metavar="SLUG", help="all threads of it")
        which.add_argument("--all", action="store_true", help="all threads there are")
        thread.add_argument(
            "--rewrite",
            action="store_true",
            help="also seal packed steps anew, which packing does in time anyway",
        )

        workspace = command(
            "rotate-workspace",
            self.rotate_workspace,
            "Give workspaces a new key, and wrap their data keys by it. Nothing that was"
            " sealed is touched.",
        )
        which = workspace.add_mutually_exclusive_group(required=True)
        which.add_argument("workspace", nargs="?", metavar="SLUG")
        which.add_argument("--all", action="store_true", help="all workspaces")

        for rotation_ in (thread, workspace):
            rotation_.add_argument(
                "--older-than",
                type=float,
                metavar="DAYS",
                help=f"leave younger keys alone ({YOUNG:g}; 0 for one thread), so that"
                " what was stopped goes on where it is when it is run again",
            )
        for one in (kek, thread, workspace):
            one.add_argument("--dry-run", action="store_true", help="write nothing")

        destroy = command(
            "destroy",
            self.destroy,
            "Destroy the keys of one thread, and with them its content, in backups, too,"
            " once those of the keys expire. There is no way back.",
        )
        destroy.add_argument("thread", type=UUID, help="id of the thread")
        destroy.add_argument("--reason", required=True, help="kept, sealed")
        destroy.add_argument("--yes", action="store_true", help="do not ask")
        for one in (kek, thread, workspace, destroy):
            one.add_argument(
                "--by",
                metavar="USER",
                required=one is destroy,
                help="user name of the person who wants it, for the audit log",
            )

    def handle(self, *args: Any, run: Callable[..., None], **options: Any) -> None:
        self._said_at = time.monotonic()
        try:
            run(**options)
        except (CheckpointsError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from error

    # Look

    def check_keks(self, **options: Any) -> None:
        checks.require_keks()
        self.stdout.write("Every key-encryption key in use is here.")

    def status(self, *, workspace: str | None, **options: Any) -> None:
        keks = report.keks()
        if workspace is None:
            found = list(Workspace.objects.order_by("slug")[: SHOWN + 1])
        else:
            found = [lookups.workspace(workspace)]
        each = report.keys_of(found[:SHOWN])
        if options["json"]:
            self.stdout.write(report.as_json(keks, each))
            return
        for kek in keks:
            since = f", since {kek.since:%Y-%m-%d}" if kek.since else ""
            self.stdout.write(
                f"{kek.id}{' (current)' if kek.is_current else ''}:"
                f" {kek.wraps:,} workspace key{'s'[: kek.wraps != 1]}{since}"
            )
            if kek.problem:
                self.stdout.write(self.style.ERROR(f"  {kek.problem}"))
        for keys in each:
            self.stdout.write(f"\n{keys.workspace.slug}: {keys}")
            for version in keys.versions:
                gone = f", {version.destroyed:,} destroyed" if version.destroyed else ""
                self.stdout.write(
                    f"  {version.purpose:<9}v{version.version}: {version.living:,}{gone}"
                )
            for advice in keys.advice:
                self.stdout.write(self.style.WARNING(f"  {advice}"))
        if len(found) > SHOWN:
            self.stdout.write(
                f"\nThe first {SHOWN} workspaces; for others give --workspace SLUG."
            )

    # Replace

    def rotate_kek(
        self, *, kek_from: str | None, by: str | None, dry_run: bool, **options: Any
    ) -> None:
        current = provider().current()
        if kek_from is not None and kek_from not in {kek.id for kek in report.keks()}:
            used = ", ".join(kek.id for kek in report.keks())
            raise CommandError(f"No workspace key is under {kek_from!r}; used: {used}.")
        tally = rewrap.rewrap(
            kek_from=kek_from,
            progress=self._progress,
            actor_id=lookups.person(by).pk if by else None,
            dry_run=dry_run,
        )
        self._end(tally, f"workspace keys wrapped by {current}", dry_run)
        left = rewrap.outdated().count()
        if not left:
            self.stdout.write(
                "No workspace key is under another: older ones may leave the list, once"
                " no backup that you would restore needs them."
            )

    def rotate_workspace(
        self,
        *,
        workspace: str | None,
        older_than: float | None,
        by: str | None,
        dry_run: bool,
        **options: Any,
    ) -> None:
        before = clock.now() - timedelta(days=lookups.days(older_than, YOUNG))
        actor_id = lookups.person(by).pk if by else None
        chosen = (
            [lookups.workspace(workspace)]
            if workspace
            else list(Workspace.objects.order_by("slug"))
        )
        total = Tally()
        for one in chosen:
            try:
                total += rotation.rotate_workspace_key(
                    one,
                    before,
                    progress=self._progress,
                    actor_id=actor_id,
                    dry_run=dry_run,
                )
            except CheckpointsError as error:
                total.failed.append(f"Workspace {one.slug}: {error}")
        self._end(total, "data keys wrapped by a new workspace key", dry_run)
        self._say_young(total, older_than)

    def rotate_thread(
        self,
        *,
        thread: UUID | None,
        workspace: str | None,
        older_than: float | None,
        by: str | None,
        rewrite: bool,
        dry_run: bool,
        **options: Any,
    ) -> None:
        days = lookups.days(older_than, YOUNG if thread is None else 0.0)
        before = clock.now() - timedelta(days=days)
        actor_id = lookups.person(by).pk if by else None
        only = lookups.thread(thread).pk if thread else None
        of = lookups.workspace(workspace).pk if workspace else None
        tally = rotation.rotate_threads(
            before,
            thread_id=only,
            workspace_id=of,
            progress=self._progress,
            actor_id=actor_id,
            dry_run=dry_run,
        )
        if only is not None and not tally.due:
            hierarchy.sealing_key(only)  # raises Shredded and UnknownKey
        self._end(tally, "threads given a new data key", dry_run)
        if only is None:
            self._say_young(tally, older_than)
        if rewrite and not dry_run:
            self._rewrite(only, of)

    def _rewrite(self, thread: UUID | None, workspace: UUID | None) -> None:
        branches = Branch.objects.unscoped(Reason.COMMAND).filter(
            thread__pruned_at=None,
            thread__data_keys__purpose=DataKey.Purpose.MAC,
            thread__data_keys__destroyed_at=None,
        )
        if thread is not None:
            branches = branches.filter(thread=thread)
        if workspace is not None:
            branches = branches.filter(workspace=workspace)
        tally = Tally(due=branches.count())
        packed = 0
        for pk in branches.order_by("pk").values_list("pk", flat=True):
            try:
                packed += pack_branch(pk, rewrite=True)
            except CheckpointsError as error:
                tally.failed.append(f"Branch {pk}: {error}")
            else:
                tally.done += 1
            self._progress(tally.done, tally.due)
        self.stdout.write(f"{packed:,} segments sealed anew.")
        self._end(tally, "branches packed under their newest key")

    # Destroy

    def destroy(
        self, *, thread: UUID, reason: str, by: str, yes: bool, **options: Any
    ) -> None:
        row = lookups.thread(thread)
        person = lookups.member(lookups.person(by), row.workspace)
        if not reason.strip():
            raise CommandError("--reason is empty; say why, for who asks later.")
        try:
            hierarchy.sealing_key(thread)
        except Shredded as done:
            expire.shred(thread, work=WORK, via="command")  # what is left of it, if any
            self.stdout.write(str(done))
            return
        expire.require_free(row, WORK)
        steps = row.checkpoints.count()
        self.stdout.write(
            f"Thread {short(thread)} of {row.workspace.name}: {steps:,} step{'s'[: steps != 1]},"
            f" begun {row.created_at:%Y-%m-%d}. Once its keys are destroyed nobody opens it."
        )
        if not yes:
            self._ask(short(thread))
        expire.shred(
            thread,
            work=WORK,
            by=person,
            reason=reason,
            via="command",
        )
        self.stdout.write(f"Thread {short(thread)} is shredded.")

    def _ask(self, expected: str) -> None:
        try:
            typed = input(f"Type {expected} to destroy them: ")
        except EOFError:
            raise CommandError(
                "Nobody is there to ask. Give --yes. Nothing was destroyed."
            ) from None
        if typed.strip() != expected:
            raise CommandError(f"That was not {expected}. Nothing was destroyed.")

    # Say

    def _progress(self, done: int, due: int) -> None:
        now = time.monotonic()
        if due and now - self._said_at > EVERY:
            self._said_at = now
            self.stderr.write(f"{done:,} of {due:,}")

    def _say_young(self, tally: Tally, older_than: float | None) -> None:
        if not tally.due and not tally.failed and older_than is None:
            self.stdout.write(
                "Keys younger than a day are left alone; --older-than 0 replaces them, too."
            )

    def _end(self, tally: Tally, things: str, dry_run: bool = False) -> None:
        self.stdout.write(
            f"{'Dry run, nothing is written: ' if dry_run else ''}"
            f"{tally.done:,} of {tally.due:,} {things}."
        )
        for line in tally.failed[:SHOWN]:
            self.stderr.write(self.style.ERROR(line))
        if tally.failed:
            raise CommandError(
                f"{len(tally.failed):,} did not open and are as they were. Put right"
                " what stands above and run this again; the others are done."
            )
