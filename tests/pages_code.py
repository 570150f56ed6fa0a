"""The Python that the pages of docs/ show, run: each page's blocks, one after the other."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def run_page(
    page: str, *, given: Mapping[str, Any] | None = None, most: int | None = None
) -> ModuleType:
    """A module of what the page's code declares; `given`: names that it takes as there.

    At most the first `most` blocks. Line numbers are the page's, so that a function's
    source is found there.
    """
    path = DOCS / page
    text = path.read_text()
    module = ModuleType(f"docs_{path.stem.replace('-', '_')}")
    sys.modules[module.__name__] = module  # where annotations are looked up
    vars(module).update(given or {})
    blocks = list(_BLOCK.finditer(text))
    assert blocks, f"{page} shows no code"
    for block in blocks[:most]:
        above = "\n" * text.count("\n", 0, block.start(1))
        code = compile(above + block[1], str(path), "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102  # our own page
    return module
