"""Template tags and filters: `{% load holdpoint %}`.

{% icon "inbox" %}  {% icon "check" "s" %}        from the sprite; "s" is the small one
{% blob chip %}                                   what is kept apart, and the way to it
{{ text|visible }}                                foreign text; put it in an hx-ignore leaf
{{ text|visible_text }}                           the same for an attribute
{% if text|hides %}                               whether that shows more than the text
{% state_tree value changed=pointers %}           JSON as nested <details>
{{ value|json_pretty }}                           JSON for a <pre>
{{ when|ago }}  {{ when|soon }}  {{ ms|duration }}  {{ cost|cost }}  {{ tokens|count }}
{{ amount|money:"EUR" }}                          exact
{{ bytes|filesize }}                              68.4 KB
{% status run.status %}  {% risk approval.risk %}  {% effect call.effect %}
{% kind checkpoint.kind %}                        the letter before a step
{% request_lines group here picks %}              of the Inbox
{% step_lines list.rows remarks watch %}          of a thread's list of steps
{{ id|short }}  {{ name|initials }}               7f3a, MO
{{ user|person }}                                 Mira Okafor
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import template
from django.utils.safestring import SafeString

from agents.pages import marks, signs, text, tree
from agents.pages.chips import NO_CHIPS, Chips
from agents.pages.inbox import row as inbox_row
from agents.pages.thread import row as thread_row
from agents.pure.visible import flat, hides

register = template.Library()


register.simple_tag(marks.icon)
register.simple_tag(marks.chip_html, name="blob")
register.simple_tag(signs.status)
register.simple_tag(signs.risk)
register.simple_tag(signs.effect)
register.simple_tag(signs.kind)
register.simple_tag(inbox_row.lines, name="request_lines")
register.simple_tag(thread_row.lines, name="step_lines")
register.filter("initials", signs.initials)


@register.simple_tag
def state_tree(
    value: Any,
    changed: dict[str, str] | None = None,
    unfolded: object = False,
    chips: Chips = NO_CHIPS,
    blame: tree.Blame | None = None,
) -> SafeString:
    return tree.tree(value, changed, unfolded=bool(unfolded), chips=chips, blame=blame)


@register.filter
def short(identifier: UUID | str) -> str:
    """The end of an id, as people call a thread: its start is the time it was made."""
    return str(identifier)[-4:]


register.filter("person", text.name_of)
register.filter("visible", text.visible)
register.filter("visible_text", flat)
register.filter("hides", hides)
register.filter("json_pretty", text.json_pretty)
register.filter("money", text.money)
register.filter("cost", text.cost)
register.filter("count", text.count)
register.filter("exact", text.exact)
register.filter("filesize", text.filesize)
register.filter("duration", text.duration)
register.filter("ago", text.ago)
register.filter("soon", text.soon)
