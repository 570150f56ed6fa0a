"""Golden paths are looked at, kept as a file, and taken in again, with and without script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser import axe

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])
def test_a_file_is_looked_at_exported_and_imported(visit, script, tmp_path: Path):
    page = visit("/threads/", as_="omar", script=script)
    page.locator("#trajectories-link").click()
    expect(page.locator("h1")).to_have_text("Trajectories")
    page.get_by_role("button", name="Look").click()
    expect(page.locator("#counts")).to_contain_text("match")
    expect(page.locator("#example-1")).to_contain_text("messages")
    if script:
        assert axe.wrong_in_any_look(page) == []
    with page.expect_download() as kept:
        page.get_by_role("button", name="Export to a file").click()
    file = tmp_path / "golden.jsonl"
    kept.value.save_as(file)
    first, *_ = file.read_text().splitlines()
    assert json.loads(first)["messages"][-1]["role"] == "assistant"
    file.write_text(first + "\n{no\n")
    page.set_input_files("#file", file)
    page.get_by_role("button", name="Import").click()
    expect(page.locator("#file-e")).to_contain_text("line 2 is not JSON")
    file.write_text(json.dumps({**json.loads(first), "id": f"again-{script}"}))
    page.set_input_files("#file", file)
    page.get_by_role("button", name="Import").click()
    expect(page.locator("h1")).to_contain_text(f"again-{script}")
