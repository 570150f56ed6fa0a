"""The audit log as a file, which can be verified without us (`pure/audit_file.py`)."""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from uuid import UUID

from checkpoints import audit, audit_chain
from checkpoints.access import UserPrincipal
from checkpoints.pure import audit_file, audit_proof
from checkpoints.pure.audit_proof import Row

FLUSH = 500  # rows that are handed on together

Format = Callable[[Iterable[Row]], Iterator[str]]


def verifier() -> str:
    """The program that verifies an export; it needs nothing but Python.

    It is two of our modules in one file, the second without what it imports of ours.
    """
    proof, files = (
        Path(str(module.__file__)).read_text(encoding="utf-8")
        for module in (audit_proof, audit_file)
    )
    lines = files.splitlines(keepends=True)
    for node in ast.parse(files).body:
        if isinstance(node, ast.ImportFrom) and node.module in _OURS:
            for at in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[at - 1] = ""
    return f"#!/usr/bin/env python3\n{proof}\n\n{''.join(lines)}"


_OURS = {"__future__", audit_proof.__name__}  # the first must not come twice


def jsonl(rows: Iterable[Row]) -> Iterator[str]:
    """A line for each row, some hundred at a time."""
    yield from _together(map(audit_file.to_jsonl, rows))


def csv_(rows: Iterable[Row]) -> Iterator[str]:
    """A line of names, then one for each row. No cell begins with what a sheet runs."""
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\r\n")

    def written(cells: Iterable[str]) -> str:
        line.seek(0)
        line.truncate()
        writer.writerow(cells)
        return line.getvalue()

    yield written(audit_file.COLUMNS)
    yield from _together(written(audit_file.to_cells(row)) for row in rows)


FORMATS: dict[str, Format] = {"jsonl": jsonl, "csv": csv_}


def begin(
    workspace_id: UUID | None,
    kind: str,
    *,
    after: int = 0,
    by: UserPrincipal | None = None,
    via: str = "web",
) -> Iterator[str]:
    """The rows after `after` up to the head as it is now, in pieces of text.

    That they are exported is recorded before the first piece.
    """
    head = audit_chain.head_of(workspace_id)
    audit.record(
        by,
        "export",
        workspace_id=workspace_id,
        purpose="audit",
        via=via,
        format=kind,
        first=after + 1,
        last=head.number,
    )
    rows = audit_chain.rows(workspace_id, after=after)
    return FORMATS[kind](takewhile(lambda row: row.number <= head.number, rows))


def _together(lines: Iterable[str]) -> Iterator[str]:
    held: list[str] = []
    for line in lines:
        held.append(line)
        if len(held) == FLUSH:
            yield "".join(held)
            held.clear()
    if held:
        yield "".join(held)
