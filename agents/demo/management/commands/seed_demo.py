from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.demo import seed


class Command(BaseCommand):
    help = "Make the demo's people and trips, where they are missing; print the logins."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            seed.seed()
        except seed.StoryWentElsewhere as error:
            raise CommandError(str(error)) from error
        self.stdout.write(seed.logins())
