"""The files that are served as they lie."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command

STATIC: Path = settings.BASE_DIR / "static"
VENDOR = json.loads((STATIC / "vendor/VENDOR.json").read_text())
FETCHED = {
    file["path"].replace("{version}", entry["version"]): file["sha256"]
    for entry in VENDOR
    for file in entry["files"]
}


@pytest.mark.parametrize("path", FETCHED)
def test_a_library_is_what_was_fetched(path):
    content = (STATIC / path).read_bytes()
    assert hashlib.sha256(content).hexdigest() == FETCHED[path]


def test_nothing_lies_among_the_libraries_unnamed():
    present = {
        str(path.relative_to(STATIC))
        for folder in ("vendor", "fonts")
        for path in (STATIC / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert present - set(FETCHED) == {"vendor/VENDOR.json", "vendor/refresh.py"}


def test_every_library_comes_with_its_licence():
    for entry in VENDOR:
        assert entry["licence"] in {"0BSD", "MIT", "OFL-1.1"}
        assert any(file["from"] == "LICENSE" for file in entry["files"])


def test_colours_are_tokens():
    css = (STATIC / "app.css").read_text()
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    start = css.index("@layer tokens {")
    end = css.index("@layer base {")
    assert not re.findall(r"#[0-9a-f]{3,8}\b", css[:start] + css[end:])


def test_the_files_can_be_served_under_hashed_names(tmp_path, settings):
    """In production each file's name carries its hash, so browsers may keep it for ever."""
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {
            "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        },
    }
    call_command("collectstatic", "--no-input", verbosity=0)
    hashed = json.loads((tmp_path / "staticfiles.json").read_text())["paths"]
    css = (tmp_path / hashed["app.css"]).read_text()
    fonts = re.findall(r'url\("(fonts/[^"]+)"\)', css)
    assert len(fonts) == 2
    assert all(re.search(r"\.[0-9a-f]{12}\.woff2$", font) for font in fonts)
    assert all((tmp_path / font).is_file() for font in fonts)
    script = (tmp_path / hashed["app.js"]).read_text()
    for module in re.findall(r'from "\./([^"]+)"', script):
        assert (tmp_path / module).is_file()
