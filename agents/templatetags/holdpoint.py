"""Template tags and filters: `{% load holdpoint %}`.

{% icon "inbox" %}  {% icon "check" "s" %}        from the sprite; "s" is the small one
{% blob chip %}                                   what is kept apart, and the way to it
{{ text|visible }}                                foreign text; put it in an hx-ignore leaf
{{ text|visible_text }}                           the same for an attribute
{% state_tree value changed=pointers %}           JSON as nested <details>
{{ value|json_pretty }}                           JSON for a <pre>
{{ when|ago }}  {{ ms|duration }}  {{ cost|cost }}  {{ tokens|count }}
{{ amount|money:"EUR" }}                          exact
{% status run.status %}  {% risk approval.risk %}  {% effect call.effect %}
{% kind checkpoint.kind %}                        the letter before a step
{{ id|short }}  {{ name|initials }}               7f3a, MO
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from agents.pages import marks, text, tree
from agents.pages.chips import NO_CHIPS, Chips
from agents.pure.visible import flat

register = template.Library()


class Look(NamedTuple):
    """How a state is told: a colour, an icon or letter, and always a word."""

    colour: str
    sign: str
    word: str


STATUS = {
    # runs, and threads by their newest run
    "ready": Look("slate", "queue", "queued"),
    "running": Look("indigo", "run", "running"),
    "waiting": Look("amber", "clock", "waiting"),
    "succeeded": Look("jade", "check", "done"),
    "failed": Look("red", "alert", "failed"),
    "cancelled": Look("slate", "x", "cancelled"),
    "imported": Look("slate", "import", "imported"),
    "paused": Look("amber", "clock", "paused"),
    "idle": Look("slate", "low", "not run"),
    # approvals and decisions
    "pending": Look("amber", "clock", "waiting"),
    "approved": Look("jade", "check", "approved"),
    "edited": Look("violet", "write", "edited"),
    "rejected": Look("red", "x", "rejected"),
    "responded": Look("indigo", "ask", "answered"),
    "expired": Look("slate", "clock", "expired"),
    "superseded": Look("slate", "undo", "superseded"),
    # tool calls
    "proposed": Look("slate", "ask", "proposed"),
    "executing": Look("indigo", "run", "executing"),
    "unknown": Look("red", "ask", "outcome unknown"),
    "simulated": Look("violet", "fork", "simulated"),
    # steps
    "ok": Look("jade", "check", "done"),
    # workers
    "free": Look("slate", "low", "idle"),
    "busy": Look("indigo", "run", "busy"),
    "silent": Look("amber", "clock", "silent"),
    "lost": Look("red", "alert", "lost"),
    # branches
    "forked": Look("violet", "fork", "forked"),
}

RISK = {
    "low": Look("slate", "low", "low risk"),
    "medium": Look("amber", "med", "medium risk"),
    "high": Look("red", "high", "high risk"),
    "critical": Look("red", "alert", "critical risk"),
}

EFFECT = {
    "none": Look("slate", "low", "no effect"),
    "read": Look("slate", "eye", "read"),
    "write": Look("amber", "write", "write"),
    "external": Look("red", "out", "external effect"),
}

KIND = {
    "input": Look("slate", "U", "person"),
    "model": Look("indigo", "L", "model"),
    "tool": Look("jade", "T", "tool"),
    "interrupt": Look("amber", "?", "waits for a person"),
    "decision": Look("slate", "D", "decision"),
    "edit": Look("violet", "E", "edit"),
    "summary": Look("violet", "S", "summary"),
    "snapshot": Look("slate", "V", "environment snapshot"),
    "migrate": Look("slate", "M", "schema migration"),
    "progress": Look("slate", "P", "progress"),
    "error": Look("red", "!", "failed"),
}


icon = register.simple_tag(marks.icon)
register.simple_tag(marks.chip_html, name="blob")


def _chip(look: Look) -> SafeString:
    return format_html(
        '<span class="chip {}">{}{}</span>',
        look.colour,
        icon(look.sign, "s"),
        look.word,
    )


@register.simple_tag
def status(value: str) -> SafeString:
    """A chip for the status of a run, thread, approval, tool call or step."""
    return _chip(STATUS[value])


@register.simple_tag
def risk(value: str) -> SafeString:
    return _chip(RISK[value])


@register.simple_tag
def effect(value: str) -> SafeString:
    return _chip(EFFECT[value])


@register.simple_tag
def kind(value: str, failed: bool = False) -> SafeString:
    """The letter before a step; a failed step of any kind has a `!`."""
    look = KIND["error" if failed else value]
    return format_html(
        '<span class="k {}" title="{}"><span aria-hidden="true">{}</span>'
        '<span class="vh">{}</span></span>',
        look.colour,
        look.word,
        look.sign,
        look.word,
    )


@register.simple_tag
def state_tree(
    value: Any,
    changed: dict[str, str] | None = None,
    unfolded: object = False,
    chips: Chips = NO_CHIPS,
) -> SafeString:
    return tree.tree(value, changed, unfolded=bool(unfolded), chips=chips)


@register.filter
def initials(name: str) -> str:
    """`MO` of "Mira Okafor", for the disc before a name."""
    words = name.split()
    return "".join(word[0] for word in (words[:1] + words[1:][-1:])).upper()


@register.filter
def short(identifier: UUID | str) -> str:
    """The end of an id, as people call a thread: its start is the time it was made."""
    return str(identifier)[-4:]


register.filter("visible", text.visible)
register.filter("visible_text", flat)
register.filter("json_pretty", text.json_pretty)
register.filter("money", text.money)
register.filter("cost", text.cost)
register.filter("count", text.count)
register.filter("exact", text.exact)
register.filter("duration", text.duration)
register.filter("ago", text.ago)
