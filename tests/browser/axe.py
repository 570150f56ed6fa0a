"""axe-core, asked about a page as it stands: every rule of it that says what is wrong.

The library lies in vendor/ as its npm package `axe-core` has it, with its licences. It is
put into the page through the browser, not through the page, so the content security policy
is the one that people have.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Page

from tests.browser.conftest import DESKTOP, PHONE

VENDOR = Path(__file__).parent / "vendor"
LIBRARY = VENDOR / "axe-4.14.1.min.js"
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"

# WCAG 2.0, 2.1 and 2.2, levels A and AA, and what axe holds to be good practice.
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
EVERY = {"type": "tag", "values": TAGS}
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
SIZES = {"type": "rule", "values": ["target-size"]}
RUN = """async ([runOnly, without]) => {
  const rules = Object.fromEntries(without.map((id) => [id, { enabled: false }]));
  const found = await axe.run(document, { runOnly, rules, resultTypes: ["violations"] });
  return found.violations.map(({ id, nodes }) => ({
    id,
    nodes: nodes.map(({ target, failureSummary }) => `${target.join(" ")}: ${failureSummary}`),
  }));
}"""


@cache
def library() -> str:
    content = LIBRARY.read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256, (
        "This is not what was fetched."
    )
    return content.decode()


def violations(
    page: Page, rules: dict[str, Any] = EVERY, *, but: dict[str, Any] | None = None
) -> list[str]:
    """A paragraph for each rule that the page breaks, with where and why.

    `but`: rules that are asked elsewhere.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(library())
    without = but["values"] if but and rules["type"] == "tag" else []
    found: list[dict[str, Any]] = page.evaluate(RUN, [rules, without])
    return [f"{one['id']}\n    " + "\n    ".join(one["nodes"][:5]) for one in found]


def wrong_in_any_look(page: Page) -> list[str]:
    """As `violations`, of the page in the light and wide, and dark on a phone, where it
    may not be wider than the screen either."""
    wrong = []
    looks: list[tuple[Literal["light", "dark"], tuple[int, int]]] = [
        ("light", DESKTOP),
        ("dark", PHONE),
    ]
    for scheme, size in looks:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size({"width": size[0], "height": size[1]})
        wrong += violations(page, EVERY, but=SIZES)
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wrong.append(f"It is wider than {size[0]} px.")
    page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
    return wrong
