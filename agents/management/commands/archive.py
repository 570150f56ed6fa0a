from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from agents.management import lookups
from agents.runs.retention import WORK
from checkpoints.access import Reason
from checkpoints.errors import CheckpointsError
from checkpoints.log import archive as archives
from checkpoints.log import archive_care, expire, source
from checkpoints.log.restore import restore
from checkpoints.models import Archive
from checkpoints.stores import configured
from checkpoints.stores.names import is_name


class Command(BaseCommand):
    help = (
        "Archive threads, and bring them back (docs/archive.md). An archive is "
        "ciphertext: restoring it into an empty database takes the key-encryption key. "
        "Every part can be killed and run again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parts = parser.add_subparsers(dest="part", required=True)
        thread = parts.add_parser(
            "thread", help="write and verify an archive of each thread; removes nothing"
        )
        thread.add_argument("threads", nargs="+", type=UUID, metavar="id")
        thread.add_argument(
            "--prune",
            action="store_true",
            help="then remove the content from the database, without a grace period",
        )
        back = parts.add_parser(
            "restore", help="bring threads back from files, or from the blob store"
        )
        back.add_argument(
            "archives",
            nargs="+",
            metavar="file|name|id",
            help="an exported file (its keys beside it in FILE.keys), an object's name,"
            " or the id of an archive or thread",
        )
        listed = parts.add_parser("list", help="archives that the database knows of")
        listed.add_argument("--workspace", help="slug; without it, all of them")
        listed.add_argument(
            "--store",
            action="store_true",
            help="names in the blob store instead: what an empty database can restore",
        )
        export = parts.add_parser("export", help="an archive as one file, and its keys")
        export.add_argument("archive", metavar="name|id")
        export.add_argument("file", type=Path)
        parts.add_parser(
            "keys",
            help="write the wrapped keys beside each archive anew, after the"
            " key-encryption key was rotated",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        part = {
            "thread": self._thread,
            "restore": self._restore,
            "list": self._list,
            "export": self._export,
            "keys": self._keys,
        }[options["part"]]
        try:
            part(options)
        except CheckpointsError as problem:
            raise CommandError(str(problem)) from None

    def _thread(self, options: dict[str, Any]) -> None:
        for thread_id in options["threads"]:
            thread = lookups.thread(thread_id)
            if thread.pruned_at is not None and options["prune"]:
                self.stdout.write(f"{thread_id}: archived already")
                continue
            archive = archives.write(thread_id, via="command")
            gone = options["prune"] and expire.prune(archive, work=WORK, via="command")
            if options["prune"] and not gone:
                raise CommandError(
                    f"{thread_id}: it went on meanwhile, or its archive did not stay as"
                    " it was verified. It keeps its content, and the archive was given"
                    " up; run this again."
                )
            self.stdout.write(
                f"{thread_id}: {archive.steps:,} steps, {archive.size:,} bytes in"
                f" {archive.object_name}{'; its content went' if gone else ''}"
            )

    def _restore(self, options: dict[str, Any]) -> None:
        for name in options["archives"]:
            try:
                done = restore(self._source(name), via="command")
            except CheckpointsError as problem:
                raise CommandError(f"{name}: {problem}") from None
            self.stdout.write(
                f"{done.thread_id}: is here already"
                if done.was_here
                else f"{done.thread_id}: {done.steps:,} steps restored"
                + (", the thread is new here" if done.is_new else "")
            )

    def _list(self, options: dict[str, Any]) -> None:
        if options["store"]:
            for name in configured().names("archive/"):
                if name.endswith("/keys.json"):
                    self.stdout.write(name.removesuffix("/keys.json"))
            return
        found = Archive.objects.unscoped(Reason.COMMAND).select_related("workspace")
        if options["workspace"]:
            found = found.filter(workspace=lookups.workspace(options["workspace"]))
        archive = None
        for archive in found.order_by("created_at").iterator():
            self.stdout.write(
                f"{archive.pk}  {archive.created_at:%Y-%m-%d}  {archive.status:8} "
                f" {archive.size:>10,} bytes  {archive.workspace.slug} "
                f" thread {archive.thread_id}  {archive.object_name}"
            )
        if archive is None:
            self.stderr.write("There are no archives.")

    def _export(self, options: dict[str, Any]) -> None:
        archive = self._archive(options["archive"])
        kind = archive.store if archive else configured().kind
        name = archive.object_name if archive else options["archive"]
        if not is_name(name):
            raise CommandError(
                f"{name} is no archive here, and no name in the blob store; `manage.py"
                " archive list` shows those, and with --store these."
            )
        try:
            source.export(kind, name, options["file"])
        except FileExistsError as there:
            raise CommandError(
                f"{there.filename2 or there.filename} is there already."
            ) from None
        except OSError as problem:
            raise CommandError(
                f"{options['file']} cannot be written ({problem.strerror}). Make room, or"
                " name another place, and run this again."
            ) from None
        except CheckpointsError as problem:
            raise CommandError(str(problem)) from None
        self.stdout.write(
            f"{options['file']} and {source.keys_path(options['file'])} are written."
        )

    def _keys(self, options: dict[str, Any]) -> None:
        kept = Archive.objects.unscoped(Reason.COMMAND).filter(
            status__in=archive_care.KEPT
        )
        done = failed = 0
        for archive in kept.order_by("created_at").iterator():
            try:
                archive_care.write_keys_anew(archive)
            except CheckpointsError as problem:
                failed += 1
                self.stderr.write(f"{archive.object_name}: {problem}")
            else:
                done += 1
        self.stdout.write(
            f"The keys of {done:,} archives are as the database has them."
        )
        if failed:
            raise CommandError(f"{failed:,} were left as they are; run this again.")

    def _source(self, name: str) -> source.Source:
        path = Path(name)
        if path.is_file():
            return source.filed(path)
        archive = self._archive(name)
        if archive is not None:
            return source.stored(archive.store, archive.object_name)
        if "/" not in name:
            raise CommandError(
                f"{name} is no file, no archive here, and no name in the blob store;"
                " `manage.py archive list --store` shows those."
            )
        return source.stored(configured().kind, name)

    def _archive(self, name: str) -> Archive | None:
        found = Archive.objects.unscoped(Reason.COMMAND).order_by("-created_at")
        try:
            pk = UUID(name)
        except ValueError:
            return found.filter(object_name=name).first()
        return found.filter(pk=pk).first() or found.filter(thread_id=pk).first()
