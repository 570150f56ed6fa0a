"""Files as tools: an agent that has them works on files of its own.

    register(Agent("editor", model="gpt-4o", system="…", tools=[*FILES, publish]))

Its files are a channel of the state (`agents/pure/files.py`): as with working memory, a
change is stored with its call's result in one step, a fork has the files of its step, and
nothing outside the state is touched, so nobody is asked. Tools of an agent's own reach the
same files through `Files(ctx)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Protocol

from django.conf import settings
from pydantic import Field

from agents.errors import FileRefused
from agents.pure.files import (
    CHANNEL,
    LARGEST,
    File,
    check_room,
    files_of,
    folder,
    held,
    normal,
    too_large,
    value_of,
)
from agents.tools.context import ToolContext
from agents.tools.declare import tool
from agents.tools.declared import Tool

LISTED = 200  # files of one answer
LINES = 1_000  # of one answer
_CHUNK = 64 * 1024  # bytes

At = Annotated[str, Field(description="A relative path, such as notes/plan.md")]


class Stream(Protocol):
    """What bytes are read from, such as an open file."""

    def read(self, size: int, /) -> bytes: ...


class Files:
    """The agent's files, for a tool: read, written, moved, deleted.

    Every path is relative, and any that could mean something outside is refused. What
    does not fit raises FileRefused, which tells the agent why, and changes nothing.
    """

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._files = files_of(ctx.get(CHANNEL))

    def __contains__(self, path: str) -> bool:
        return normal(path) in self._files

    def under(self, prefix: str = "") -> list[File]:
        """Those in a folder and all below it, by path."""
        start = folder(prefix)
        return [file for path, file in self._files.items() if path.startswith(start)]

    def read(self, path: str) -> str | bytes:
        """What it holds: text, or bytes that are none."""
        found = held(self._file(path).value)
        if found is None:
            raise FileRefused(f"“{path}” cannot be read: what it held is gone.")
        return found

    def write(self, path: str, content: str | bytes | Stream) -> File:
        """Make the file, or replace all of it.

        Bytes that are UTF-8 become text. Of a stream no more is read than a file may have.
        """
        path = normal(path)
        if not isinstance(content, str | bytes):
            content = _drawn(content)
        if len(content) > LARGEST:  # before anything is made of it
            raise FileRefused(too_large())
        value = value_of(path, content)
        size = len(
            content.encode(errors="replace") if isinstance(content, str) else content
        )
        check_room(self._files, path, size)
        return self._put(File(path, value, size))

    def delete(self, path: str) -> None:
        file = self._file(path)
        self._ctx.remove(CHANNEL, file.path)
        del self._files[file.path]

    def move(self, path: str, to: str) -> File:
        """Give it another path, at which nothing is."""
        file, to = self._file(path), normal(to)
        if to in self._files:
            raise FileRefused(f"“{to}” is there already. Delete it first.")
        moved = File(to, value_of(to, self.read(path)), file.size)
        others = {at: each for at, each in self._files.items() if at != file.path}
        check_room(others, to, file.size)
        self.delete(path)
        return self._put(moved)

    def _put(self, file: File) -> File:
        self._ctx.put(CHANNEL, file.path, file.value)
        self._files[file.path] = file
        return file

    def _file(self, path: str) -> File:
        found = self._files.get(normal(path))
        if found is None:
            raise FileRefused(f"There is no file “{path}”. {self._what_is_there()}")
        return found

    def _what_is_there(self) -> str:
        if not self._files:
            return "There are no files yet."
        named = ", ".join(f"“{path}”" for path in list(self._files)[:20])
        more = len(self._files) - 20
        return f"There is: {named}" + (f", and {more:,} more." if more > 0 else ".")


@tool(effect="none", title="List files")
def list_files(prefix: str = "", *, ctx: ToolContext) -> str:
    """List your files with their sizes in bytes: all, or those in one folder."""
    found = Files(ctx).under(prefix)
    if not found:
        return "There are no files" + (f" in {prefix}." if prefix else " yet.")
    lines = list(_within([f"{file.path}  {file.size:,}" for file in found[:LISTED]]))
    if len(found) > len(lines):
        lines.append(f"… and {len(found) - len(lines):,} more: name a folder.")
    total = sum(file.size for file in found)
    return "\n".join([f"{_count(len(found), 'file')}, {total:,} bytes:", *lines])


@tool(effect="none", title="Read {path}")
def read_file(
    path: At,
    offset: Annotated[int, Field(ge=1, description="The first line, from 1")] = 1,
    limit: Annotated[int, Field(ge=1, description="How many lines at most")] = LINES,
    *,
    ctx: ToolContext,
) -> str:
    """Read a file: its text from line `offset` on. A long one is read in parts."""
    content = Files(ctx).read(path)
    if isinstance(content, bytes):
        return f"{path} is not text. It has {len(content):,} bytes."
    if not content:
        return f"{path} is empty."
    lines = content.split("\n")
    if offset > len(lines):
        raise FileRefused(f"“{path}” has {_count(len(lines), 'line')}, not {offset:,}.")
    shown = list(_within(lines[offset - 1 :][: min(limit, LINES)]))
    last = offset + len(shown) - 1
    said = f"{path}, lines {offset:,} to {last:,} of {len(lines):,}"
    if last < len(lines):
        said += f"; go on with offset={last + 1}"
    return "\n".join([f"{said}:", *shown])


@tool(effect="none", title="Write {path}")
def write_file(path: At, content: str, *, ctx: ToolContext) -> str:
    """Write a whole text file: a new one, or in the place of what it held."""
    files = Files(ctx)
    is_new = path not in files
    file = files.write(path, content)
    done = "Written" if is_new else "Replaced"
    lines = _count(content.count("\n") + 1, "line")
    return f"{done}: {file.path}, {file.size:,} bytes in {lines}."


@tool(effect="none", title="Edit {path}")
def edit_file(
    path: At,
    old: Annotated[str, Field(min_length=1)],
    new: str,
    all: bool = False,
    *,
    ctx: ToolContext,
) -> str:
    """Replace a text in a file. `old` must be there exactly, and once, or else say `all`."""
    files = Files(ctx)
    content = files.read(path)
    if isinstance(content, bytes):
        raise FileRefused(f"“{path}” is not text.")
    found = content.count(old)
    if not found:
        raise FileRefused(
            f"“{path}” does not hold that text. It must be the same to the letter, with"
            " its blanks and line ends: read the file again."
        )
    if found > 1 and not all:
        raise FileRefused(
            f"“{path}” holds that text {found:,} times. Give more of what stands around"
            " the one that is meant, or say all=true."
        )
    if old == new:
        raise FileRefused("The new text is the old one.")
    if len(content) + found * (len(new) - len(old)) > LARGEST:
        raise FileRefused(too_large())
    file = files.write(path, content.replace(old, new))
    times = "" if found == 1 else f" in {found:,} places"
    return f"Edited{times}: {file.path}, {file.size:,} bytes now."


@tool(effect="none", title="Delete {path}")
def delete_file(path: At, *, ctx: ToolContext) -> str:
    """Delete a file. Earlier steps still have it."""
    Files(ctx).delete(path)
    return f"Deleted: {path}."


@tool(effect="none", title="Move {path} to {to}")
def move_file(path: At, to: At, *, ctx: ToolContext) -> str:
    """Give a file another path, at which nothing is yet."""
    return f"Moved: {path} is {Files(ctx).move(path, to).path} now."


FILES: tuple[Tool, ...] = (
    list_files,
    read_file,
    write_file,
    edit_file,
    delete_file,
    move_file,
)


def _drawn(stream: Stream) -> bytes:
    """All of a stream. Raises FileRefused as soon as it has more than a file may have."""
    content = bytearray()
    while chunk := stream.read(_CHUNK):
        content += chunk
        if len(content) > LARGEST:
            raise FileRefused(too_large())
    return bytes(content)


def _within(lines: list[str]) -> Iterator[str]:
    """As many lines as an answer has room for; of a first one that is too long, its
    beginning."""
    # What would be kept apart as a blob is what the agent cannot read.
    room = max(500, settings.BLOB_BYTES - 1_000)
    for n, line in enumerate(lines):
        size = len(line.encode()) + 1
        if size > room:
            if n == 0:
                start = line.encode()[:room].decode(errors="ignore")
                yield f"{start}… (this line goes on: it has {size - 1:,} bytes)"
            return
        room -= size
        yield line


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
