"""Small pieces of HTML that templates and the state tree share."""

from __future__ import annotations

from functools import cache

from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from agents.pages.chips import Chip
from agents.pages.text import visible


@cache  # there are as many as the sprite has; its address is the same while this runs
def icon(name: str, size: str = "") -> SafeString:
    """An icon of the sprite, in the colour of the text; `size` "s" is 12 px."""
    return format_html(
        '<svg class="i{}" width="16" height="16" aria-hidden="true">'
        '<use href="{}#{}"/></svg>',
        f" {size}" if size else "",
        static("icons.svg"),
        name,
    )


def chip_html(chip: Chip) -> SafeString:
    """A link to what is kept apart: its kind and first words, or the image, small.

    The image is asked for when it comes into sight: each look is an opening.
    """
    words = (
        format_html(' <span class="clip" hx-ignore>{}</span>', visible(chip.words))
        if chip.words
        else SafeString()
    )
    image = (
        format_html(
            '<img src="{}" alt="" loading="lazy" width="120" height="80">',
            chip.thumbnail,
        )
        if chip.thumbnail
        else SafeString()
    )
    return format_html(
        '<a class="blob" href="{}">{}<span class="chip slate">{}{}</span>{}</a>',
        chip.page,
        image,
        icon(chip.icon, "s"),
        chip.kind,
        words,
    )
