from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Count, Sum

from checkpoints import stores
from checkpoints.access import Reason
from checkpoints.blobs import care
from checkpoints.errors import StoreUnavailable
from checkpoints.models import Blob
from checkpoints.stores.mark import adopt, require_same


class Command(BaseCommand):
    help = (
        "Look after the blob store, where large values of state are kept, sealed "
        "(docs/blobs.md). `status`: where it is, whether it works, what is in it. "
        "`sweep`: delete objects that no row refers to, a day old or older; workers do "
        "this by themselves, bit by bit. `adopt`: take the configured place as this "
        "database's store, after its objects were moved there."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("do", choices=["status", "sweep", "adopt"])
        parser.add_argument(
            "--dry-run", action="store_true", help="sweep: count, delete nothing"
        )

    def handle(self, *args: Any, do: str, dry_run: bool, **options: Any) -> None:
        try:
            if do == "sweep":
                self._sweep(dry_run)
            elif do == "adopt":
                store = stores.configured()
                adopt(store)
                self.stdout.write(f"Objects are kept in {store.where} from now on.")
            else:
                self._status()
        except StoreUnavailable as error:
            raise CommandError(str(error)) from error

    def _status(self) -> None:
        rows = Blob.objects.unscoped(Reason.COMMAND).values("store").order_by("store")
        for row in rows.annotate(n=Count("pk"), of=Sum("size"), by=Sum("stored_size")):
            self.stdout.write(
                f"{row['store']}: {row['n']:,} blobs, {row['of']:,} bytes,"
                f" {row['by']:,} as they are stored"
            )
        store = stores.configured()
        self.stdout.write(f"New objects go to {store.where}.")
        require_same(store)
        store.check()
        self.stdout.write("It is this database's, and can be written and read.")

    def _sweep(self, dry_run: bool) -> None:
        swept = care.Swept()
        for batch in care.sweep(dry_run=dry_run):
            swept += batch
            if swept.objects % (20 * care.BATCH) == 0:
                self.stderr.write(f"… {swept.objects:,} objects looked at")
        done = "would be deleted" if dry_run else "were deleted"
        self.stdout.write(
            f"{swept.objects:,} objects a day old or older; {swept.orphans:,} of them"
            f" belong to no blob and {done}."
        )
