"""What no template may hold, because the content security policy would refuse it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.template import Library
from django.template.loader import get_template

from agents.pages import signs
from agents.templatetags import holdpoint

ROOT: Path = settings.BASE_DIR
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))

FORBIDDEN = {
    "an inline style": r"\sstyle\s*=",
    "a style element": r"<style\b",
    "an inline handler": r"\son[a-z]+\s*=",
    "an htmx handler": r"\shx-on\b",
    "an htmx filter, which is evaluated": r"hx-trigger\s*=\s*[\"'][^\"']*\[",
    "script in an htmx value": r"[\"'](?:js|javascript):",
    "an inline script": r"<script(?![^>]*\ssrc=)",
    "unescaped output": r"\|\s*(?:safe|safeseq)\b|\{%\s*autoescape\s+off",
    "an address of another host": r"(?:src|href|action|hx-[a-z]+)\s*=\s*[\"'](?:https?:)?//",
}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_runs_nothing_and_trusts_nothing(path):
    source = path.read_text()
    for what, pattern in FORBIDDEN.items():
        assert not re.findall(pattern, source), what


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_compiles(path):
    get_template(str(path.relative_to(ROOT / "templates")))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_form_that_posts_carries_a_csrf_token(path):
    for form in re.findall(r"<form\b.*?</form>", path.read_text(), re.DOTALL):
        if re.search(r"<form[^>]*\bmethod=\"post\"", form):
            assert "{% csrf_token %}" in form, form[:120]


def test_every_icon_is_in_the_sprite():
    sprite = (ROOT / "static/icons.svg").read_text()
    drawn = set(re.findall(r'<symbol id="([^"]+)"', sprite))
    sources = "".join(path.read_text() for path in TEMPLATES)
    used = set(re.findall(r'{% icon "([^"]+)"', sources))
    used |= set(re.findall(r'_empty\.html" with icon="([^"]+)"', sources))
    for looks in (signs.STATUS, signs.RISK, signs.EFFECT):
        used |= {look.sign for look in looks.values()}
    assert used <= drawn, used - drawn


def test_python_writes_no_markup_that_django_did_not_escape():
    """`mark_safe` and `|safe` are where hostile text gets in; `format_html` suffices."""
    for path in [
        *(ROOT / "agents").rglob("*.py"),
        *(ROOT / "checkpoints").rglob("*.py"),
    ]:
        assert "mark_safe" not in path.read_text(), path


def test_the_tags_are_documented():
    assert isinstance(holdpoint.register, Library)
    documented = holdpoint.__doc__ or ""
    for name in [*holdpoint.register.tags, *holdpoint.register.filters]:
        assert name in documented, name
