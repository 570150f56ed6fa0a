from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.management import lookups
from agents.runs.retention import WORK
from checkpoints.access import Reason
from checkpoints.errors import CheckpointsError
from checkpoints.log import retention, rules
from checkpoints.log.retention import Done
from checkpoints.log.tasks import said
from checkpoints.models import Archive, Deletion, RetentionPolicy, Workspace


class Command(BaseCommand):
    help = (
        "How long threads keep their content: the policies, what they lead to now, and "
        "doing it. Workers do it every minute; this is for looking, and for backlogs. "
        "Threads on legal hold, pinned, or with a run or approval that is not over keep "
        "everything."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workspace", help="slug; without it, all of them")
        parts = parser.add_subparsers(dest="part", required=True)
        parts.add_parser("status", help="policies, archives and the deletion journal")
        run = parts.add_parser("run", help="do what is due, until nothing is")
        run.add_argument(
            "--dry-run", action="store_true", help="say what is due; change nothing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        workspaces = (
            [lookups.workspace(options["workspace"])]
            if options["workspace"]
            else list(Workspace.objects.order_by("slug"))
        )
        for workspace in workspaces:
            if options["part"] == "status":
                self._status(workspace)
            elif options["dry_run"]:
                self._dry_run(workspace)
            else:
                self._run(workspace)

    def _status(self, workspace: Workspace) -> None:
        self.stdout.write(workspace.slug)
        for rule in rules.rules(workspace.pk):
            source = "" if rule.policy else " (RETENTION_DAYS)"
            self.stdout.write(f"  {rule.name}: {in_words(rule)}{source}")
        for status in Archive.Status:
            count = (
                Archive.objects.unscoped(Reason.COMMAND)
                .filter(workspace=workspace, status=status)
                .count()
            )
            if count:
                self.stdout.write(f"  archives, {status.label}: {count:,}")
        for what in Deletion.What:
            count = (
                Deletion.objects.unscoped(Reason.COMMAND)
                .filter(workspace=workspace, what=what)
                .count()
            )
            if count:
                self.stdout.write(f"  journal, {what.label}: {count:,}")

    def _dry_run(self, workspace: Workspace) -> None:
        self.stdout.write(workspace.slug)
        for report in rules.forecast(workspace.pk, WORK):
            size = rules.size_of(report.due)
            self.stdout.write(
                f"  {report.rule.name}: {in_words(report.rule)}: would"
                f" {'delete' if report.rule.deletes else 'archive'} {len(report.due):,}"
                f" threads, {size:,} bytes"
            )
            for reason, count in report.kept.items():
                self.stdout.write(f"    {count:,} kept: {reason}")

    def _run(self, workspace: Workspace) -> None:
        total = Done()
        while True:
            try:
                done = retention.sweep(WORK, workspace_id=workspace.pk, via="command")
            except CheckpointsError as problem:
                raise CommandError(str(problem)) from None
            for name, count in vars(done).items():
                setattr(total, name, getattr(total, name) + count)
            if not done:
                break
            self.stderr.write(f"… {workspace.slug}: {said(total)}")
        self.stdout.write(f"{workspace.slug}: {said(total)}")


def in_words(rule: rules.Rule) -> str:
    if rule.keep_days is None:
        return "kept for ever"
    then = RetentionPolicy.Then(rule.then).label
    words = f"after {rule.keep_days:,} days without a step, {then}"
    if rule.archive_days is not None and not rule.deletes:
        words += f"; after {rule.archive_days:,} more, destroy its keys"
    return words
