from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents.demo import airline
from agents.demo.world import flights

FLIGHT, FARE, PRICE = "TP 209", "Premium Economy", "1500.00"


class Command(BaseCommand):
    help = (
        "Let a fare of the demo rise while its request waits: the booking that was asked"
        f" for at $1,200 costs ${PRICE} from now on."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("price", nargs="?", default=PRICE, help=f"({PRICE})")
        parser.add_argument("--flight", default=FLIGHT, help=f"({FLIGHT})")
        parser.add_argument("--fare", default=FARE, help=f"({FARE})")
        parser.add_argument("--seats", type=int, default=2, help="that are left (2)")
        parser.add_argument(
            "--reset", action="store_true", help="every fare is what it was at first"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        price, flight, fare = options["price"], options["flight"], options["fare"]
        if not flights.is_price(price):
            raise CommandError(f"{price!r} is no price, such as {PRICE}.")
        moved = {flight: {fare: {"price": price, "seats": options["seats"]}}}
        try:
            airline.charge({} if options["reset"] else moved)
        except OSError as error:
            raise CommandError(
                f"The demo's airline was not reached: {error}"
            ) from error
        self.stdout.write(
            "Every fare is what it was at first."
            if options["reset"]
            else f"{fare} on {flight} costs ${price} now."
        )
