"""An agent's files: what its tools do with them, what they refuse, and what is kept."""

from __future__ import annotations

import io
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ArgumentsDoNotFit, FileRefused
from agents.pure.calls import parse_arguments
from agents.pure.context import CHANNEL as CONTEXT
from agents.pure.context import FACTUAL, compose
from agents.pure.files import (
    LARGEST,
    LONGEST,
    MOST,
    TOTAL,
    check_room,
    files_of,
    held,
    normal,
    size_of,
    value_of,
)
from agents.tools import FILES, Agent, Files, ToolContext, ToolError
from agents.tools.files import LINES, LISTED
from checkpoints.pure.codec import canonical
from checkpoints.pure.ops import fold
from tests.checkpoints.strategies import states, values

AGENT = Agent("editor", model="scripted", system="Edit files.", tools=FILES)
EMPTY: dict[str, Any] = {"_schema": 1, "messages": []}
PNG = b"\x89PNG\r\n\x1a\n\0\xff"


def use(state: dict[str, Any], name: str, /, **arguments: Any) -> tuple[Any, str]:
    """The state after this call, as a run folds it, and what the model is told."""
    context = ToolContext(state)
    said = AGENT.tool(name).execute(arguments, key="k", context=context)
    return fold(state, context.ops), said


def having(**files: Any) -> dict[str, Any]:
    return {**EMPTY, "files": files}


# What they do


def test_a_file_is_written_read_edited_moved_and_deleted():
    state, said = use(EMPTY, "write_file", path="notes/plan.md", content="# Plan\nGo.")
    assert said == "Written: notes/plan.md, 10 bytes in 2 lines."
    state, said = use(state, "edit_file", path="notes/plan.md", old="Go.", new="Stay.")
    assert said == "Edited: notes/plan.md, 12 bytes now."
    _, said = use(state, "read_file", path="notes/plan.md")
    assert said == "notes/plan.md, lines 1 to 2 of 2:\n# Plan\nStay."
    state, said = use(state, "move_file", path="notes/plan.md", to="plan.md")
    assert said == "Moved: notes/plan.md is plan.md now."
    assert state["files"] == {"plan.md": "# Plan\nStay."}
    state, said = use(state, "write_file", path="plan.md", content="")
    assert said == "Replaced: plan.md, 0 bytes in 1 line."
    assert use(state, "read_file", path="plan.md")[1] == "plan.md is empty."
    state, said = use(state, "delete_file", path="plan.md")
    assert (state["files"], said) == ({}, "Deleted: plan.md.")


def test_files_are_listed_with_their_sizes_and_by_folder():
    state = having(**{"src/app.py": "x = 1", "src-old/app.py": "", "z.md": "é"})
    assert use(state, "list_files")[1] == (
        "3 files, 7 bytes:\nsrc-old/app.py  0\nsrc/app.py  5\nz.md  2"
    )
    for prefix in ("src", "src/"):
        _, said = use(state, "list_files", prefix=prefix)
        assert said == "1 file, 5 bytes:\nsrc/app.py  5"
    assert use(state, "list_files", prefix="doc")[1] == "There are no files in doc."
    assert use(EMPTY, "list_files")[1] == "There are no files yet."


def test_a_long_file_is_read_in_parts_and_says_how_to_go_on():
    state = having(log="\n".join(str(n) for n in range(1, 2_501)))
    _, said = use(state, "read_file", path="log")
    assert said.startswith("log, lines 1 to 1,000 of 2,500; go on with offset=1001:")
    assert said.endswith(f"\n{LINES}")
    _, said = use(state, "read_file", path="log", offset=2_499, limit=50)
    assert said == "log, lines 2,499 to 2,500 of 2,500:\n2499\n2500"
    _, said = use(state, "read_file", path="log", offset=7, limit=1)
    assert said == "log, lines 7 to 7 of 2,500; go on with offset=8:\n7"
    with pytest.raises(ToolError, match="has 2,500 lines, not 2,501"):
        use(state, "read_file", path="log", offset=2_501)


def test_an_answer_is_never_so_long_that_the_agent_could_not_read_it(settings):
    many = {f"{n:04}{'x' * 190}/{'y' * 195}": "" for n in range(LISTED + 50)}
    state = having(wide="é" * 300_000, **many, lines="\n".join(["z" * 900] * 500))
    for name, arguments in (
        ("read_file", {"path": "wide"}),
        ("read_file", {"path": "lines"}),
        ("list_files", {}),
    ):
        _, said = use(state, name, **arguments)
        assert 40_000 < len(said.encode()) <= settings.BLOB_BYTES
    assert (
        "this line goes on: it has 600,000 bytes"
        in use(state, "read_file", path="wide")[1]
    )
    assert "more: name a folder." in use(state, "list_files")[1]


def test_an_edit_names_one_place_or_says_that_it_means_all():
    state = having(a="one two one")
    with pytest.raises(ToolError, match="holds that text 2 times"):
        use(state, "edit_file", path="a", old="one", new="1")
    with pytest.raises(ToolError, match="does not hold that text"):
        use(state, "edit_file", path="a", old="One", new="1")
    with pytest.raises(ToolError, match="The new text is the old one"):
        use(state, "edit_file", path="a", old="two", new="two")
    state, said = use(state, "edit_file", path="a", old="one", new="1", all=True)
    assert (state["files"]["a"], said) == (
        "1 two 1",
        "Edited in 2 places: a, 7 bytes now.",
    )


def test_what_is_not_there_is_told_with_what_is():
    with pytest.raises(ToolError, match=r"no file “b”\. There is: “a”"):
        use(having(a=""), "read_file", path="b")
    for name in ("read_file", "delete_file"):
        with pytest.raises(ToolError, match="There are no files yet"):
            use(EMPTY, name, path="a")


def test_moving_never_writes_over_another_file_and_may_change_case():
    state = having(a="1", b="2")
    with pytest.raises(ToolError, match="“b” is there already"):
        use(state, "move_file", path="a", to="b")
    state, _ = use(state, "move_file", path="a", to="A")
    assert state["files"] == {"b": "2", "A": "1"}


def test_nobody_is_asked_and_nothing_leaves_the_house():
    assert {tool.effect for tool in FILES} == {"none"}
    assert not any(tool.requires({}) for tool in FILES)


def test_a_resumed_run_is_told_which_files_there_are_and_not_what_they_hold():
    state = having(**{"notes/a.md": "secret words", "b.bin": value_of("b.bin", PNG)})
    state["messages"] = [{"role": "user", "content": "Go on"}]
    state[CONTEXT] = {"policy": FACTUAL, "from": 1}
    [told, *_] = compose(state, AGENT.schemas).messages
    assert 'Files:\n- "b.bin", 10 bytes\n- "notes/a.md", 12 bytes' in told["content"]
    assert "secret words" not in told["content"]


# Paths

ESCAPES = [
    "",
    ".",
    "..",
    "../a",
    "a/../../b",
    "a/./b",
    "./a",
    "/etc/passwd",
    "//server/share",
    "~/.ssh/id_rsa",
    "a//b",
    "a/",
    "C:\\Windows\\win.ini",
    "C:/Windows/win.ini",
    "..\\a",
    "file:///etc/passwd",
    "a\0b",
    "a\nb",
    "a\tb",
    "a\u202eb",
    "a\u200bb",
    "a\u00a0b",
    "a\ud800",
    "/dev/zero",
    "/proc/self/environ",
    "link -> /etc/passwd",
    "a:stream",
    "CON",
    "nul.txt",
    "a/com1",
    "LPT9.md/b",
    "COM²",
    "a ",
    " a",
    "a.",
    "a./b",
    "a*",
    "what?",
    "x" * 201,
    "é" * 101,
    "/".join("x" * 17),
    "x/" * 200 + "y",
    "x" * 100_000,
]


@pytest.mark.parametrize("path", ESCAPES, ids=ascii)
def test_a_path_that_could_mean_anything_else_is_refused_by_every_tool(path):
    state = having(a="1")
    for name, arguments in (
        ("read_file", {"path": path}),
        ("write_file", {"path": path, "content": "x"}),
        ("edit_file", {"path": path, "old": "1", "new": "2"}),
        ("delete_file", {"path": path}),
        ("move_file", {"path": path, "to": "b"}),
        ("move_file", {"path": "a", "to": path}),
    ):
        context = ToolContext(state)
        arguments = {k: v.replace("\ud800", "\u200b") for k, v in arguments.items()}
        with pytest.raises(FileRefused):
            AGENT.tool(name).execute(arguments, key="k", context=context)
        assert context.ops == ()


@pytest.mark.parametrize("path", ["..", "a/../b", "/etc", "src\\a"])
def test_a_folder_is_named_as_strictly(path):
    with pytest.raises(FileRefused):
        use(having(a="1"), "list_files", prefix=path)


def test_one_path_has_one_form():
    state, _ = use(EMPTY, "write_file", path="re\u0301sume\u0301.md", content="1")
    assert list(state["files"]) == ["r\u00e9sum\u00e9.md"]
    state, _ = use(state, "write_file", path="r\u00e9sum\u00e9.md", content="2")
    assert state["files"] == {"r\u00e9sum\u00e9.md": "2"}


@pytest.mark.parametrize(
    ("there", "path", "why"),
    [
        ("README.md", "readme.md", "“README.md” is there and differs"),
        ("Src/a", "src/b", "“Src” is there and differs from “src”"),
        ("straße", "STRASSE", "in case alone"),
        ("src", "src/a", "“src” is a file, so nothing can lie in it"),
        ("src/a/b", "src/a", "“src/a” is a folder"),
        ("SRC/x", "src", "in case alone"),
    ],
)
def test_two_files_that_one_disk_could_not_hold_are_refused(there, path, why):
    with pytest.raises(ToolError, match=why):
        use(having(**{there: "1"}), "write_file", path=path, content="x")


names = st.text(st.characters(exclude_characters="/"), min_size=1, max_size=8)
paths = st.lists(
    names | st.sampled_from(["a", "A", "é", ".", ".."]), min_size=1, max_size=4
).map("/".join)


@given(paths | st.text(max_size=30))
def test_what_is_taken_for_a_path_stays_inside_and_keeps_its_form(path):
    try:
        taken = normal(path)
    except FileRefused:
        return  # most are: what is taken is what this is about
    assert normal(taken) == taken == unicodedata.normalize("NFC", path)
    assert not taken.startswith(("/", "~"))
    assert "\\" not in taken
    assert taken.isprintable()
    assert len(taken.encode()) <= LONGEST
    assert not {"", ".", ".."} & set(taken.split("/"))


@given(st.lists(paths, max_size=8))
def test_whatever_is_written_a_disk_that_knows_no_case_could_hold_it(wanted):
    state = EMPTY
    for path in wanted:
        try:
            state, _ = use(state, "write_file", path=path, content=path)
        except (FileRefused, ArgumentsDoNotFit):
            pass  # and nothing was changed
    kept = state.get("files", {})
    folded = [unicodedata.normalize("NFC", path.casefold()) for path in kept]
    assert len(set(folded)) == len(folded)
    assert not any(a != b and b.startswith(f"{a}/") for a in folded for b in folded)


# What they hold


@given(st.text(max_size=50))
def test_a_text_comes_back_as_it_was_written(content):
    state, _ = use(EMPTY, "write_file", path="a", content=content)
    assert Files(ToolContext(state)).read("a") == content


@given(st.binary(max_size=60), st.sampled_from(["a", "a.png", "a.txt", "name", "url"]))
def test_bytes_come_back_as_they_were_written(content, path):
    context = ToolContext(EMPTY)
    file = Files(context).write(path, content)
    state = fold(EMPTY, context.ops)
    canonical(state)
    read = Files(ToolContext(state)).read(path)
    assert (read.encode() if isinstance(read, str) else read) == content
    assert files_of(state["files"])[path].size == file.size == len(content)


def test_what_is_no_text_says_so_and_is_never_edited():
    state = having(**{"a.png": value_of("a.png", PNG), "bad": value_of("bad", b"\xff")})
    assert state["files"]["a.png"]["file_data"].startswith("data:image/png;base64,")
    _, said = use(state, "read_file", path="a.png")
    assert said == "a.png is not text. It has 10 bytes."
    with pytest.raises(ToolError, match="is not text"):
        use(state, "edit_file", path="bad", old="a", new="b")
    state, _ = use(state, "move_file", path="a.png", to="a.gif")
    assert state["files"]["a.gif"]["file_data"].startswith("data:image/gif;")


def test_invalid_utf8_of_a_model_becomes_text_that_can_be_kept():
    arguments, problem, _ = parse_arguments('{"path": "a", "content": "x\\ud800y"}')
    assert not problem
    state, _ = use(EMPTY, "write_file", **(arguments or {}))
    assert state["files"] == {"a": "x\ufffdy"}


class Endless:
    """A gigabyte that nobody has: it counts what is taken of it."""

    taken = 0

    def read(self, size: int, /) -> bytes:
        assert 0 < size < LARGEST
        self.taken += size
        return bytes(size) if self.taken <= 1024**3 else b""


def test_a_gigabyte_is_refused_without_being_held():
    stream, context = Endless(), ToolContext(EMPTY)
    with pytest.raises(FileRefused, match="a file has 1,048,576 at most"):
        Files(context).write("big.bin", stream)
    assert stream.taken <= LARGEST + 64 * 1024
    assert context.ops == ()


def test_a_stream_that_fits_is_a_file():
    context = ToolContext(EMPTY)
    assert Files(context).write("a.bin", io.BytesIO(PNG)).size == len(PNG)


@pytest.mark.parametrize("content", ["x" * (LARGEST + 1), "é" * (LARGEST // 2 + 1)])
def test_one_file_has_an_end(content):
    with pytest.raises(FileRefused, match=r"1,048,576 at most\. Nothing was written"):
        use(EMPTY, "write_file", path="a", content=content)
    state, _ = use(EMPTY, "write_file", path="a", content="x" * LARGEST)
    with pytest.raises(FileRefused, match="at most"):
        use(state, "edit_file", path="a", old="x", new="y" * 1_000_000, all=True)


def test_all_files_together_have_an_end():
    whole = {f"{n}": "x" * LARGEST for n in range(TOTAL // LARGEST)}
    with pytest.raises(FileRefused, match="together would have 8,388,609 bytes"):
        use(having(**whole), "write_file", path="one more", content="y")
    use(having(**whole), "write_file", path="0", content="shorter")


def test_of_ten_thousand_files_a_thousand_are_kept():
    context = ToolContext(EMPTY)
    files = Files(context)
    for n in range(MOST):
        files.write(f"d{n % 10}/{n}", "")
    for n in range(MOST, 10_000):
        with pytest.raises(FileRefused, match="1,000 files, which is the most"):
            files.write(f"d{n % 10}/{n}", "")
    files.write("d0/0", "there already")
    files.move("d0/0", "moved")
    assert len(fold(EMPTY, context.ops)["files"]) == MOST


@given(st.fixed_dictionaries({}, optional={"files": states | values}))
def test_any_state_is_read(state):
    for path, file in files_of(state.get("files")).items():
        assert file.path == path
        assert file.size >= 0
        assert size_of(file.value) == file.size
        held(file.value)


@given(st.dictionaries(st.text(max_size=5), values, max_size=5))
def test_any_state_can_be_worked_on(channel):
    state = {**EMPTY, "files": channel}
    for path in ("a", "b/c"):
        try:
            after, _ = use(state, "write_file", path=path, content="x")
        except FileRefused:
            continue
        assert after["files"][path] == "x"


def test_a_channel_of_another_shape_is_not_overwritten():
    odd = {**EMPTY, "files": ["not", "ours"]}
    with pytest.raises(ToolError, match="Working memory was not changed"):
        use(odd, "write_file", path="a", content="1")


def test_room_is_asked_for_before_it_is_taken():
    with pytest.raises(FileRefused):
        check_room({}, "a", LARGEST + 1)
    check_room({}, "a", LARGEST)
