"""The audit log as a file: written, read back, and verified from the file alone.

    python3 audit_proof.py audit.jsonl --anchor 18402:9c1f…

What `manage.py export_audit --verifier` prints is this module behind `audit_proof`.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TextIO

from checkpoints.pure.audit_proof import FIELDS, Head, Row, Verdict, verify

COLUMNS = ("number", "previous", "hash", *FIELDS)
CAN_BE_NULL = frozenset({"workspace", "actor", "address", "object_id"})

# What a spreadsheet would run. A quote mark before it makes it text; and a quote mark
# gets one, too, so that the text comes back as it was.
_RUNS = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


class Unreadable(ValueError):
    """A line of an export is not a row."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line} {problem}")


def to_jsonl(row: Row) -> str:
    """One line, with its end."""
    line = {
        "number": row.number,
        "previous": row.previous.hex(),
        "hash": row.hash.hex(),
        "event": {field: row.event[field] for field in FIELDS},
    }
    return json.dumps(line, separators=(",", ":")) + "\n"


def to_cells(row: Row) -> list[str]:
    """The cells of a CSV line, in the order of `COLUMNS`."""
    values = [row.number, row.previous.hex(), row.hash.hex()]
    values += [row.event[field] for field in FIELDS]
    return [_to_cell(name, value) for name, value in zip(COLUMNS, values, strict=True)]


def _to_cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name == "detail":
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    text = str(value)
    return "'" + text if text.startswith(_RUNS) else text


def read_jsonl(lines: Iterable[str]) -> Iterator[Row]:
    """Raises Unreadable."""
    for at, line in enumerate(lines, 1):
        try:
            found = json.loads(line, object_pairs_hook=_once)
            event = found["event"]
            if set(event) != set(FIELDS) or len(found) != 4:
                raise ValueError
            yield _row(found["number"], found["previous"], found["hash"], event)
        except (ValueError, TypeError, KeyError, RecursionError):
            raise Unreadable(at, "is not a row of an audit log as JSON.") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Another reader might take the first of two, where the hash is of the second."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def read_csv(lines: Iterable[str]) -> Iterator[Row]:
    """Raises Unreadable."""
    table = csv.reader(lines, strict=True)
    try:
        if tuple(next(table, ())) != COLUMNS:
            raise Unreadable(1, f"must name the columns {', '.join(COLUMNS)}.")
        for cells in table:
            try:
                found = {
                    name: _from_cell(name, cell)
                    for name, cell in zip(COLUMNS, cells, strict=True)
                }
                event = {field: found[field] for field in FIELDS}
                row = _row(found["number"], found["previous"], found["hash"], event)
                # As it was written: without its quote mark, a cell would be run.
                if to_cells(row) != cells:
                    raise ValueError
            except (ValueError, TypeError, RecursionError):
                raise Unreadable(
                    table.line_num, "is not a row of an audit log."
                ) from None
            yield row
    except csv.Error as problem:
        raise Unreadable(table.line_num, f"is not CSV ({problem}).") from None


def _from_cell(name: str, text: str) -> Any:
    if name in CAN_BE_NULL and not text:
        return None
    if name in ("number", "position", "actor"):
        return int(text)
    if name == "detail":
        return json.loads(text, object_pairs_hook=_once)
    return text[1:] if text.startswith("'") else text


def _row(number: object, previous: str, digest: str, event: Mapping[str, Any]) -> Row:
    if type(number) is not int:
        raise ValueError
    return Row(number, bytes.fromhex(previous), bytes.fromhex(digest), event)


# The program


def main(arguments: list[str], say: Callable[[str], object]) -> int:
    """0: the export holds; 1: it does not, or cannot be read."""
    parser = argparse.ArgumentParser(
        description="Verify an exported audit log (.jsonl, or .csv) from the file alone."
    )
    parser.add_argument("file", help="what was exported; - reads JSONL from the input")
    parser.add_argument(
        "--anchor",
        action="append",
        default=[],
        metavar="NUMBER:HASH",
        help="a head that was kept outside; the log must still have it (repeatable)",
    )
    options = parser.parse_args(arguments)
    try:
        anchors = [Head.parse(text) for text in options.anchor]
    except ValueError as wrong:
        parser.error(str(wrong))
    try:
        if options.file == "-":
            verdict = _verify_file(sys.stdin, read_jsonl, anchors)
        else:
            reads = read_csv if options.file.endswith(".csv") else read_jsonl
            with open(options.file, encoding="utf-8", newline="") as file:
                verdict = _verify_file(file, reads, anchors)
    except (OSError, UnicodeDecodeError, Unreadable) as problem:
        say(f"FAILED {options.file}: {problem}")
        return 1
    if verdict.fault is not None:
        say(f"FAILED {verdict.fault}")
        return 1
    if verdict.head.number == verdict.start.number:
        say("ok     no rows")
        return 0
    if verdict.start.number:
        say(f"       a part of a log, which follows on {verdict.start}")
    say(f"ok     rows {verdict.start.number + 1} to {verdict.head.number}")
    say(f"head   {verdict.head}")
    return 0


def _verify_file(
    file: TextIO,
    reads: Callable[[Iterable[str]], Iterator[Row]],
    anchors: list[Head],
) -> Verdict:
    return verify(reads(file), anchors=anchors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], lambda line: sys.stdout.write(line + "\n")))
