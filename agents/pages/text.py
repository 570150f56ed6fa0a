"""How values are written on a page: foreign text, JSON, money, time."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.utils import timezone
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from agents.pure.visible import flat, is_plain, parts

SOON = 10  # seconds
UNKNOWN = "\N{EN DASH}"
# seconds, letter, seconds of the smaller part, its letter
_SPANS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s"))
_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}


def visible(text: object) -> SafeString:
    """Escaped, with everything that hides or misleads made visible as a `.tok`.

    For element content only; in an attribute use `agents.pure.visible.flat`.
    """
    text = str(text)
    if is_plain(text):
        return escape(text)
    pieces = format_html_join(
        "",
        "{}",
        (
            (escape(part),)
            if isinstance(part, str)
            else (
                format_html(
                    '<span class="tok {}" title="{}">{}</span>',
                    "red" if part.alarm else "amber",
                    part.why,
                    part.shown,
                ),
            )
            for part in parts(text)
        ),
    )
    if any(map(_reads_leftwards, text)):
        # It must not reorder what stands beside it.
        return format_html("<bdi>{}</bdi>", pieces)
    return pieces


def name_of(person: AbstractUser) -> str:
    """What others read for them: nothing in a name, which they may have chosen, hides."""
    return flat(person.get_full_name() or person.get_username())


def _reads_leftwards(char: str) -> bool:
    return unicodedata.bidirectional(char) in {"R", "AL", "AN"}


def json_pretty(value: Any) -> SafeString:
    """Indented JSON for a `<pre>`, made visible."""
    return visible(json.dumps(value, indent=2, ensure_ascii=False))


def money(amount: Decimal | str | int, currency: str = "USD") -> str:
    """An exact amount: `$1,200.00`, `CHF 1,200.00`. Digits are added, never dropped."""
    exact = Decimal(amount)
    digits = max(2, -int(exact.as_tuple().exponent))
    sign = _SIGNS.get(currency, f"{currency} ")
    return f"{'-' if exact < 0 else ''}{sign}{abs(exact):,.{digits}f}"


def cost(amount: Decimal | float | None) -> str:
    """About what something cost, in dollars: `$0.061`, `$12.40`."""
    if amount is None:
        return UNKNOWN
    if 0 < amount < Decimal("0.001"):
        return "<$0.001"
    return f"${amount:,.3f}" if 0 < amount < 1 else f"${amount:,.2f}"


def count(number: int | None) -> str:
    """A number to compare, not to reckon with: `940`, `38.2k`, `1.4M`."""
    if number is None:
        return UNKNOWN
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return str(number)


def filesize(size: int) -> str:
    """Bytes: `940 B`, `68.4 KB`, `47.7 MB`."""
    for unit, name in ((1024**2, "MB"), (1024, "KB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size} B"


def exact(number: int) -> str:
    """A number that is one: `18,402`."""
    return f"{number:,}"


def duration(length: timedelta | float | None) -> str:
    """A time span, from a timedelta or milliseconds: `210ms`, `1.1s`, `6m 12s`, `3d 2h`."""
    if length is None:
        return UNKNOWN
    if isinstance(length, timedelta):
        length = length.total_seconds() * 1000
    if length < 999.5:
        return f"{length:.0f}ms"
    if length < 59_950:
        return f"{length / 1000:.1f}s"
    seconds = round(length / 1000)
    size, big, part, small = next(span for span in _SPANS if seconds >= span[0])
    return f"{seconds // size}{big} {seconds % size // part}{small}"


def absolute(when: datetime) -> str:
    """`21 Nov 2026, 14:14 UTC`; the script turns it into the viewer's own time."""
    return f"{when.astimezone(UTC):%-d %b %Y, %H:%M} UTC"


def soon(when: datetime) -> SafeString | str:
    """As `ago`, of what is to come: that says "now" for the last ten seconds."""
    left = (when - timezone.now()).total_seconds()
    return "in a few seconds" if left < SOON else ago(when)


def ago(when: datetime | None) -> SafeString:
    """A moment as "2h ago" or "in 22m", absolute in its title and without script."""
    if when is None:
        return SafeString(UNKNOWN)
    return format_html(
        '<relative-time datetime="{}" format-style="narrow" prefix="">{}</relative-time>',
        when.isoformat(),
        absolute(when),
    )
