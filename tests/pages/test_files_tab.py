"""The Files tab: what there is at a step, what became of it, and what one file holds."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.pages.thread.files import LINES
from agents.pure.files import MOST, value_of
from agents.tools import FILES, Files, ToolContext
from checkpoints import gate
from checkpoints.access import Reason, UserPrincipal
from checkpoints.blobs import Contents
from checkpoints.log import hydrate
from checkpoints.log.threads import fork
from checkpoints.models import AuditEvent, Branch, Checkpoint
from checkpoints.pure import ops
from checkpoints.pure.pointer import pointer
from tests.pages.conftest import append, result
from tests.pages.test_thread_page import text

TOOLS = {tool.name: tool for tool in FILES}
MINUS = "\N{MINUS SIGN}"
STATE: dict[str, Any] = {"_schema": 1, "messages": [], "goal": "A handbook"}
GIF = bytes.fromhex(
    "47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b"
)
LONG = "\n".join(f"line {n}" for n in range(1, 15_001))  # is a blob
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "notes/plan.md", "content": "# Plan\n\nTake the tram.\n"}),
    ("write_file", {"path": "notes/deep/old.md", "content": "was <b>here</b>\u202e"}),
    ("edit_file", {"path": "notes/plan.md", "old": "the tram", "new": "a taxi"}),
    ("delete_file", {"path": "notes/deep/old.md"}),
    ("write_file", {"path": "log.txt", "content": LONG}),
    ("edit_file", {"path": "log.txt", "old": "line 777\n", "new": "another\n"}),
]


def context_of(branch: Branch, by: UserPrincipal) -> ToolContext:
    """As a worker gives it to a tool."""
    opened = gate.admit(by, purpose="test", threads=[branch.thread])
    contents = Contents(opened, branch.thread_id)
    return ToolContext(hydrate.state(opened, branch), contents.restore)


def taken(branch: Branch, by: UserPrincipal, name: str, **arguments: Any) -> Branch:
    """The branch after a step that made this call."""
    context = context_of(branch, by)
    TOOLS[name].execute(arguments, key="k", context=context)
    return append(branch, result(name, "ok", *context.ops))


@pytest.fixture
def kept(make_thread, alice) -> Branch:
    """A thread whose steps are those calls, one each; then a picture."""
    branch: Branch = make_thread(owner=alice, state=STATE)
    for name, arguments in CALLS:
        branch = taken(branch, alice, name, **arguments)
    context = context_of(branch, alice)
    Files(context).write("dot.gif", GIF)
    return append(branch, result("draw", "ok", *context.ops))


@pytest.fixture
def look(browser, alice, kept):
    """The tab at a step, as markup: look(3, file="notes/plan.md")."""

    def look(step: int, *, of: Branch = kept, file: str = "", **asked: str) -> str:
        query = {"tab": "files", **asked}
        if file:
            query["path"] = pointer("files", file)
        at = checkpoint(of, step)
        page = text(browser(alice).get(f"/threads/{of.thread_id}/at/{at}/", query))
        return page.partition('id="inspector"')[2].partition("</main>")[0]

    return look


def checkpoint(branch: Branch, step: int) -> Any:
    return Checkpoint.objects.unscoped(Reason.TEST).get(branch=branch, step=step).pk


def said(markup: str, id: str) -> str:
    """What a part of the page says, as somebody reads it."""
    part = re.split(r"</section>|<form", markup.partition(f'id="{id}"')[2], maxsplit=1)[
        0
    ]
    plain = html.unescape(re.sub(r"<[^>]*>", " ", part.partition(">")[2]))
    return " ".join(plain.split())


# The list


def test_it_lists_what_there_is_with_sizes_and_what_this_step_did(look):
    assert said(look(1), "files") == (
        "1 file, 23 B 1 new with this step"
        " notes/ 1 file, 23 B changed here plan.md 23 B new set at step 1"
    )
    assert said(look(3), "files") == (
        "2 files, 39 B 1 changed with this step notes/ 2 files, 39 B changed here"
        " deep/ 1 file, 18 B old.md 18 B set at step 2"
        " plan.md 21 B changed set at step 3"
    )


def test_what_is_gone_is_listed_once_more_and_can_be_read(look):
    there = said(look(4), "files")
    assert there.startswith("1 file, 21 B 1 gone with this step")
    assert "deep/ 0 files, 0 B changed here old.md 18 B gone" in there
    assert "old.md" not in said(look(5), "files")
    page = look(4, file="notes/deep/old.md")
    assert "It is gone; this is what it held." in said(page, "file")
    assert "was &lt;b&gt;here&lt;/b&gt;" in page
    assert "\u202e" not in page


def test_since_another_step_one_chooses(look, kept):
    since = said(look(4, base=str(checkpoint(kept, 1))), "files")
    assert since.startswith("1 file, 21 B 1 changed since then")
    page = look(4, file="notes/plan.md", base=str(checkpoint(kept, 0)))
    assert "Compared with" in page
    assert "plan.md 21 B new" in said(page, "file")


def test_a_step_of_another_branch_can_be_compared_with(look, kept, alice):
    source = Checkpoint.objects.unscoped(Reason.TEST).get(branch=kept, step=2)
    other = fork(source, name="by bus", by_id=alice.user_id)
    other = taken(
        other, alice, "edit_file", path="notes/plan.md", old="tram", new="bus"
    )
    mine = look(3, of=other, file="notes/plan.md", base=str(checkpoint(kept, 3)))
    diff = said(mine, "file-diff")
    assert f"{MINUS} Take a taxi . + Take the bus ." in diff
    assert said(look(3, of=other), "files").startswith("2 files, 40 B 1 changed")
    assert "taxi" not in look(3, of=other, file="notes/plan.md")


def test_the_tab_is_there_where_there_are_files(browser, alice, kept, make_thread):
    client = browser(alice)
    page = text(client.get(f"/threads/{kept.thread_id}/"))
    assert ">Files</a>" in page
    first = f"/threads/{kept.thread_id}/at/{checkpoint(kept, 0)}/"
    assert ">Files</a>" not in text(client.get(first))
    assert "no files at this step" in text(client.get(first, {"tab": "files"}))


def test_an_auditor_sees_no_files(browser, auditor, kept):
    client = browser(auditor)
    place = f"/threads/{kept.thread_id}/at/{checkpoint(kept, 1)}/"
    page = text(client.get(place, {"tab": "files", "path": "/files/notes~1plan.md"}))
    assert "tram" not in page
    assert "plan.md" not in page.replace("notes~1plan.md", "")
    assert client.get(f"{place}file", {"path": "notes/plan.md"}).status_code == 403


# One file


def test_an_open_file_shows_its_difference_its_text_and_who_changed_it(look):
    page = look(3, file="notes/plan.md")
    assert f"{MINUS} Take the tram . + Take a taxi ." in said(page, "file-diff")
    assert '<pre class="code" hx-ignore># Plan\n\nTake a taxi.\n</pre>' in page
    assert "Previous change of it, at step 1" in page
    assert ">All files</a>" in page
    later = look(5, file="notes/plan.md")
    assert 'id="file-diff"' not in later
    assert "set at step 3" in said(later, "watch")
    assert "Take a taxi" not in said(later, "watch")


def test_side_by_side(look):
    assert 'class="diff split2"' in look(3, file="notes/plan.md", split="1")


def test_a_long_file_is_folded_and_compared_though_it_is_kept_apart(look, kept):
    assert kept.thread.blobs.filter(media_type="text/plain").count() == 2
    page = look(6, file="log.txt")
    assert f"{MINUS} line 777 + another" in said(page, "file-diff")
    assert f"{15_000 - LINES:,} more lines, show" in page
    assert f"line {LINES}</pre>" in page
    assert "characters are not shown" not in page
    listed = said(look(6), "files")
    assert "log.txt 150.3 KB changed set at step 6" in listed


def test_what_differs_all_over_is_cut(look, kept, alice):
    before = "\n".join(f"a{n}" for n in range(3_000))
    branch = taken(kept, alice, "write_file", path="many", content=before)
    after = before.replace("a", "b")
    branch = taken(branch, alice, "write_file", path="many", content=after)
    page = look(branch.head_step, of=branch, file="many")
    assert "5,000 more lines differ" in page
    branch = taken(branch, alice, "write_file", path="many", content="y" * 900_000)
    branch = taken(branch, alice, "write_file", path="many", content="z" * 900_000)
    page = look(branch.head_step, of=branch, file="many")
    assert "text, 878.9 KB" in said(page, "file-diff")
    assert "700,000 more characters are not shown here" in page


def test_a_picture_is_drawn_and_other_bytes_are_not_text(look):
    page = look(7, file="dot.gif")
    assert "[image/gif" not in page
    assert "image/gif, 43 B" in said(page, "file-text")
    assert "/image" in page


def test_a_file_that_is_not_there(look):
    assert "There is no such file at this step." in look(3, file="other.md")


def test_what_an_agent_wrote_hides_nothing(look):
    page = look(2, file="notes/deep/old.md")
    assert "was &lt;b&gt;here&lt;/b&gt;" in page
    assert "U+202E" in page
    assert "\u202e" not in page


# To keep


def test_a_file_is_downloaded_as_it_was_at_the_step(browser, alice, kept):
    client = browser(alice)

    def get(step: int, path: str) -> Any:
        at = checkpoint(kept, step)
        return client.get(f"/threads/{kept.thread_id}/at/{at}/file", {"path": path})

    answer = get(1, "notes/plan.md")
    assert answer.content == b"# Plan\n\nTake the tram.\n"
    assert answer["Content-Disposition"] == 'attachment; filename="plan.md"'
    assert answer["Content-Type"] == "application/octet-stream"
    assert "sandbox" in answer["Content-Security-Policy"]
    assert get(3, "notes/plan.md").content == b"# Plan\n\nTake a taxi.\n"
    assert get(7, "dot.gif").content == GIF
    assert get(5, "log.txt").content == LONG.encode()
    for path in ("other", "notes", "../notes/plan.md", "/etc/passwd", "a\0b"):
        assert get(7, path).status_code == 404, path
    everything = get(7, "")
    assert everything.status_code == 302
    assert "tab=files" in everything["Location"]
    events = AuditEvent.objects.unscoped(Reason.TEST)
    assert events.filter(action="open", purpose="file download").count() >= 4


def test_a_name_outside_ascii_is_quoted(browser, alice, kept):
    branch = taken(kept, alice, "write_file", path="é 'q'.md", content="x")
    at = checkpoint(branch, branch.head_step)
    place = f"/threads/{branch.thread_id}/at/{at}/file"
    answer = browser(alice).get(place, {"path": "é 'q'.md"})
    assert answer["Content-Disposition"].startswith(
        "attachment; filename*=utf-8''%C3%A9"
    )


# What states may hold that no tool of ours wrote


@pytest.mark.parametrize(
    "files",
    [
        None,
        "text",
        ["a"],
        {"a": 1, "b": None, "c": {"x": 1}, "d": ["e"]},
        {"../up": "x", "/abs": "y", "a//b": "z", "": "empty", "new\nline": "n"},
        {"a": "x", "a/b": "y", "a/b/c": "z"},
        {"/".join(["d"] * 5_000): "x", "d/d": "y"},
        {"x": {"file_data": "data:text/html;base64,PGI+"}, "y": {"file_data": "no"}},
        {
            "ref": {
                "$blob": "00000000-0000-4000-8000-000000000000",
                "size": -5,
                "media_type": "text/plain",
                "digest": "forged",
            }
        },
    ],
    ids=ascii,
)
def test_any_state_can_be_looked_at(browser, alice, make_thread, files):
    branch = make_thread(owner=alice, state={**STATE, "files": files})
    branch = append(branch, result("x", "ok", ops.set_("/goal", "Another")))
    place, client = f"/threads/{branch.thread_id}/", browser(alice)
    opened = list(files) if isinstance(files, dict) else ["a"]
    opened = [name for name in opened if len(name) < 5_000]  # else no address
    for path in ("", *(pointer("files", name) for name in opened)):
        answer = client.get(place, {"tab": "files", "path": path})
        assert answer.status_code == 200
        assert "PGI+" not in text(answer)


def test_ten_thousand_files_are_listed_in_part(browser, alice, make_thread):
    files = {f"d{n % 20}/f{n}": "" for n in range(10_000)}
    branch = make_thread(owner=alice, state={**STATE, "files": files})
    branch = append(branch, result("x", "ok", ops.put("/files", "zz", "last")))
    place = f"/threads/{branch.thread_id}/"
    page = text(browser(alice).get(place, {"tab": "files"}))
    assert f"{10_001 - MOST:,} more are not listed" in page
    assert ">zz</span>" in page  # what changed is
    assert page.count("<details") < 40


def test_more_files_and_steps_ask_nothing_more(browser, alice, make_thread):
    client = browser(alice)

    def asked(files: int) -> int:
        held = {f"f{n}": value_of(f"f{n}", "x") for n in range(files)}
        branch = make_thread(owner=alice, state={**STATE, "files": held})
        branch = append(branch, result("x", "ok", ops.put("/files", "f0", "y")))
        place = f"/threads/{branch.thread_id}/"
        query = {"tab": "files", "path": "/files/f0"}
        client.get(place, query)
        with CaptureQueriesContext(connection) as found:
            client.get(place, query)
        return len(found)

    assert asked(1) == asked(100)
