"""The code in docs/environment.md runs, and the limits that it names are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agents.pure import files
from agents.tools import ToolContext, registry
from agents.tools.files import LINES
from checkpoints.pure.ops import fold

PAGE = Path(__file__).resolve().parents[2] / "docs" / "environment.md"


@pytest.fixture
def said(monkeypatch) -> dict[str, Any]:
    """What the page's code declares, one block after the other."""
    monkeypatch.setattr(registry, "_agents", dict(registry._agents))
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102  # our own page
    return names


def test_the_agent_has_the_tools_that_the_page_lists(said):
    table = PAGE.read_text().partition("| tool | does |")[2].partition("\n\n")[0]
    told = re.findall(r"`(\w+)\(", table)
    assert told == [tool.name for tool in registry.agent("editor").tools]


def test_its_own_tools_read_and_write_files(said):
    state: dict[str, Any] = {"files": {"a.md": "three short words"}}
    context = ToolContext(state)
    assert (
        said["count_words"].execute({"path": "a.md"}, key="k", context=context) == "3"
    )
    told = said["make_picture"].execute({"path": "a.gif"}, key="k", context=context)
    assert told == "a.gif has 43 bytes."
    after = fold(state, context.ops)["files"]["a.gif"]
    assert after["file_data"].startswith("data:image/gif;base64,R0lGODlh")


def test_the_limits_are_the_ones_that_hold():
    page = PAGE.read_text()
    assert f"1 MB ({files.LARGEST:,} bytes)" in page
    assert f"{files.TOTAL // 1024**2} MB, and {files.MOST:,} files" in page
    assert (
        f"{files.LONGEST} bytes, {files.DEEPEST} names of {files.LONGEST_NAME} bytes"
        in page
    )
    assert f"{LINES:,} lines" in page
