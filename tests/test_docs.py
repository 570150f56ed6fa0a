from __future__ import annotations

import ast
import re
from pathlib import Path

from django.core.management import get_commands

from project.up.commands import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
# Read by ./dev, not by the settings.
OF_DEV = {"PORT", "HOST", "CHROMIUM"}


def read_by_settings() -> set[str]:
    """The first argument of every call of a function of `project.env`."""
    tree = ast.parse((ROOT / "project" / "settings.py").read_text())
    return {
        str(node.args[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "env"
        and isinstance(node.args[0], ast.Constant)
    }


def test_every_setting_is_in_the_readme_and_no_other():
    table = (ROOT / "README.md").read_text().partition("## Configuration")[2]
    rows = re.findall(r"^\| `([A-Z0-9_]+)` \|", table, re.MULTILINE)
    assert set(rows) - OF_DEV == read_by_settings()
    assert len(rows) == len(set(rows))


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_every_link_between_the_pages_leads_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_command_that_the_pages_name_exists():
    for page in PAGES:
        for name in re.findall(r"\./dev ([a-z]+)", page.read_text()):
            assert name in COMMANDS, f"{page.name}: ./dev {name}"
        for name in re.findall(r"\bmanage(?:\.py)? ([a-z_]+)", page.read_text()):
            assert name in get_commands(), f"{page.name}: manage {name}"
