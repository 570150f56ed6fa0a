"""What a browser would send: the fields of a form, as a page has them."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from django.test import Client

from agents.models import Approval


class _Fields(HTMLParser):
    def __init__(self, form: str) -> None:
        super().__init__()
        self.form, self.inside = form, False
        self.found: dict[str, list[str]] = {}
        self.select: str | None = None
        self.textarea: str | None = None

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        has = dict(attrs)
        if tag == "form":
            self.inside = has.get("id") == self.form
        name = has.get("name")
        if not self.inside:
            return
        if tag == "input" and name:
            ticked = has.get("type") not in ("checkbox", "radio") or "checked" in has
            if ticked:
                self._add(name, has.get("value") or "")
        elif tag == "select":
            self.select = name
        elif tag == "option" and self.select:
            first = self.select not in self.found
            if first or "selected" in has:
                self.found[self.select] = [has.get("value") or ""]
        elif tag == "textarea" and name:
            self.textarea = name
            self._add(name, "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.inside = False
        if tag == "select":
            self.select = None
        if tag == "textarea":
            self.textarea = None

    def handle_data(self, data: str) -> None:
        if self.textarea:
            self.found[self.textarea][-1] += data

    def _add(self, name: str, value: str) -> None:
        self.found.setdefault(name, []).append(value)


def hash_on_page(client: Client, approval: Approval) -> str:
    """The hash of what this person's page shows, as the form carries it that they have
    there; of who has none, one of nothing."""
    for form in ("", "sheet/break_glass"):
        page = client.get(f"/inbox/{approval.pk}/{form}").content.decode()
        if found := re.search(r'name="shown" value="(\w+)"', page):
            return found[1]
    return "00" * 32


def fields(page: str, form: str) -> dict[str, list[str]]:
    """The fields of the form with this id, and what they would send."""
    reader = _Fields(form)
    reader.feed(page)
    assert reader.found, f"There is no form #{form} with fields."
    return reader.found
