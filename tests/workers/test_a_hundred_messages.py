"""A hundred messages sent at once to one thread: each on every page once, in one order.

A page is every place where a thread's messages are read: the tabs of its page, its other
pages, the comparison of steps and branches, the JSON API, and the files that it exports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen
from uuid import UUID

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User

from agents.models import Run
from agents.runs import start
from agents.runs.edits import ForkEdits
from checkpoints import gate
from checkpoints.models import Branch, Checkpoint, ThreadInput
from tests.conftest import as_owner
from tests.workers.conftest import ended, wait_until
from tests.workers.test_api import Program, token_of
from tests.workers.web import Visitor, web

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.unmeasured,
]

MESSAGES = 100
AT_ONCE = 25  # requests
NUMBERED = re.compile(r"message \d{3}\b")
VOID = {"area", "br", "hr", "img", "input", "link", "meta", "source", "wbr"}


class Inside(HTMLParser):
    """The text of the element with this id: what a reader sees there, tags left out."""

    def __init__(self, page: str, id: str) -> None:
        super().__init__()
        self._id, self._depth, self._found = id, 0, 0
        self._text: list[str] = []
        self.feed(page)
        assert self._found == 1, f"{self._found} elements of the page are #{id}"
        self.text = " ".join("".join(self._text).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._depth:
            self._depth += tag not in VOID
        elif ("id", self._id) in attrs:
            self._found, self._depth = self._found + 1, 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass  # of a drawing; it holds no text

    def handle_endtag(self, tag: str) -> None:
        self._depth -= self._depth > 0 and tag not in VOID

    def handle_data(self, data: str) -> None:
        if self._depth:
            self._text.append(data)


def numbered(page: str, id: str, pattern: str = "{}") -> list[str]:
    """The messages in the element with this id, in its order."""
    there = re.compile(pattern.format(f"({NUMBERED.pattern})"))
    return there.findall(Inside(page, id).text)


def linked(page: str, pattern: str) -> str | None:
    """Where the page's link leads whose address this follows."""
    found = re.search(f'href="([^"]+)"{pattern}', page)
    return found[1].replace("&amp;", "&") if found else None


def merged(pages: list[list[str]]) -> list[str]:
    """What windows of one list have, which may overlap; nothing twice in one of them."""
    for page in pages:
        assert len(set(page)) == len(page)
    return list(dict.fromkeys(name for page in pages for name in page))


def of_state(state: dict[str, Any]) -> list[str]:
    said = [each["content"] for each in state["messages"] if each["role"] == "user"]
    return [text for text in said if NUMBERED.fullmatch(text)]


def of_ops(steps: list[dict[str, Any]]) -> Iterator[str]:
    """What a file's steps append to the messages, or begin with."""
    for step in steps:
        for op in step["ops"]:
            match op:
                case ["append", "/messages", dict() as message]:
                    yield from of_state({"messages": [message]})
                case ["reset", dict() as state]:
                    yield from of_state(state)


@pytest.fixture
def visitor(workers, alice, tmp_path) -> Iterator[Visitor]:
    with as_owner():  # with a hash that the process knows
        hashed = PBKDF2PasswordHasher().encode("alice", "salt", iterations=1)
        User.objects.filter(username="alice").update(password=hashed)
    env = {**workers.web_env, "DATABASE_POOL": "8", "HOLDPOINT_DEMO": "True"}
    with web(env, tmp_path / "web.log") as address:
        visitor = Visitor(address)
        visitor.sign_in("alice", "alice")
        yield visitor


def another(visitor: Visitor) -> Visitor:
    """Another tab of the same browser."""
    tab = Visitor(visitor.address)
    for cookie in visitor.jar:
        tab.jar.set_cookie(cookie)
    return tab


def post(visitor: Visitor, form: dict[str, str]) -> int:
    """One request of its own, as from another tab of the same browser."""
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in visitor.jar)
    url = f"{visitor.address}/threads/{form['thread']}/message"
    request = Request(url, urlencode(form).encode(), {"Cookie": cookies})  # noqa: S310
    with urlopen(request, timeout=60) as answer:  # noqa: S310
        answer.read()
        return int(answer.status)


def forms_of(visitor: Visitor, branch: Branch) -> list[dict[str, str]]:
    visitor.open(f"/threads/{branch.thread_id}/")
    token = re.search(r'csrfmiddlewaretoken" value="(\w+)"', visitor.page)
    assert token is not None
    return [
        {
            "csrfmiddlewaretoken": token[1],
            "thread": str(branch.thread_id),
            "branch": str(branch.pk),
            "message": f"message {n:03}",
            "request_key": f"00000000-0000-4000-8000-{n:012}",
        }
        for n in range(MESSAGES)
    ]


def looked_at(tab: Visitor, thread: UUID, sent: Future[Any]) -> list[list[str]]:
    """What the thread's page had while messages came: as steps, then as queued."""
    pages = []
    while not sent.done():
        page = tab.open(f"/threads/{thread}/?step=0")
        pages.append(numbered(page, "step-list") + numbered(page, "composer"))
    return pages


def test_a_hundred_messages_sent_at_once_are_on_every_page_once(
    visitor, workers, workspace, begin, server, alice
):
    server.always("Noted.")
    run = begin("Begin.")
    branch = run.branch
    forms = forms_of(visitor, branch)
    workers.start(2)
    wait_until(lambda: ended(run))  # from here on, runs take messages in as they come

    def send() -> None:
        with ThreadPoolExecutor(AT_ONCE) as crowd:
            assert set(crowd.map(lambda form: post(visitor, form), forms)) == {200}
            # And every form again, as an impatient hand would.
            assert set(crowd.map(lambda form: post(visitor, form), forms[:20])) == {200}

    with ThreadPoolExecutor(1) as aside:
        sending = aside.submit(send)
        pages = looked_at(another(visitor), run.thread_id, sending)
        sending.result()
    wait_until(
        lambda: (
            not ThreadInput.objects.undelivered().exists()
            and not Run.objects.filter(status__in=Run.LIVE).exists()
        )
    )
    branch.refresh_from_db()
    order = _taken(alice, branch)
    assert sorted(order) == [form["message"] for form in forms]
    assert pages
    for found in pages:  # at any moment those that had come, and nothing else
        assert found == order[: len(found)]
    fork = _forked(branch, alice)
    wrong = {
        name: found
        for name, found in [
            *_tabs(visitor, branch),
            *_other_pages(visitor, branch, fork, order),
            *_for_programs(Program(token_of(workspace)), branch),
            *_files(visitor, branch),
        ]
        if found != order
    }
    assert wrong == {}


def _taken(by: Any, branch: Branch) -> list[str]:
    """The messages in the order in which they were taken."""
    opened = gate.admit(by, purpose="test", threads=[branch.thread])
    return opened.open_all(list(branch.inputs.order_by("position")), "content")


def _forked(branch: Branch, by: Any) -> Branch:
    """A branch that has none of them, to compare with."""
    first = Checkpoint.objects.get(branch=branch, step=0)
    fork = start.fork_run(first, edits=ForkEdits(temperature=0.5), name="none", by=by)
    wait_until(lambda: ended(fork.runs.get()))
    return fork


def _tabs(visitor: Visitor, branch: Branch) -> Iterator[tuple[str, list[str]]]:
    """The thread's page: its list of steps, and each tab that shows messages."""
    thread, head = branch.thread_id, branch.head_id
    steps = Checkpoint.objects.filter(branch=branch)
    first, last = steps.get(step=0).pk, steps.filter(kind="model").latest("step").pk

    def tab(name: str, more: str = "", *, at: UUID | None = head) -> str:
        return visitor.open(f"/threads/{thread}/at/{at}/?tab={name}{more}")

    rows = []
    for step in (0, branch.head_step):  # a long list is shown around a step
        page = visitor.open(f"/threads/{thread}/?branch={branch.pk}&step={step}")
        assert ">queued</span>" not in page
        rows.append(numbered(page, "step-list"))
    yield "steps", merged(rows)
    yield "messages", numbered(tab("messages"), "messages")
    yield "state", numbered(tab("state"), "state", 'content: "{}"')
    found = tab("state", "&q=message+")
    yield "state, searched", numbered(found, "state", 'content: "{}"')
    context = tab("context", at=last)
    yield "context", numbered(context, "request")
    yield "as curl", numbered(context, "as-curl")
    yield "as Python", numbered(context, "as-python")
    for split in ("", "&split=1"):
        yield f"diff{split}", numbered(tab("diff", f"&base={first}{split}"), "diff")
    yield "raw", numbered(tab("raw"), "raw")


def _other_pages(
    visitor: Visitor, branch: Branch, fork: Branch, order: list[str]
) -> Iterator[tuple[str, list[str]]]:
    thread, head = branch.thread_id, branch.head_id
    first = Checkpoint.objects.get(branch=branch, step=0).pk
    of = f"branch={branch.pk}"
    found = visitor.open(f"/threads/{thread}/search?{of}&q=message+0")
    yield "search", numbered(found, "main")
    changes: list[str] = []
    next_page: str | None = f"/threads/{thread}/history?{of}&path=/messages"
    while next_page:  # newest first, a page at a time
        page = visitor.open(next_page)
        changes += numbered(page, "main", "person “{}”")
        next_page = linked(page, ' rel="next"')
    yield "history of a path", changes[::-1]
    two = visitor.open(f"/threads/diff/{first}/{head}/")
    yield "two steps", numbered(two, "diff")
    rows = []
    next_page = f"/threads/compare/{branch.pk}/{fork.pk}/"
    while next_page:
        page = visitor.open(next_page)
        rows.append(numbered(page, "cmp-steps", "Alice: {}"))
        next_page = linked(page, r"[^>]*>Later rows")
    yield "two branches", merged(rows)
    forking = visitor.open(f"/threads/{thread}/fork/{head}/")
    newest = numbered(forking, "fork-said")
    assert newest
    yield "fork", order[: -len(newest)] + newest[::-1]  # the newest that it offers


def _for_programs(program: Program, branch: Branch) -> Iterator[tuple[str, list[str]]]:
    thread, of = branch.thread_id, {"branch": branch.pk}
    at = program.get(f"threads/{thread}/states/{branch.head_step}", **of).json()
    yield "JSON state", of_state(at["state"])
    labels, after = [], -1
    while after < branch.head_step:
        page = program.get(f"threads/{thread}/history", after=after, limit=40, **of)
        steps = page.json()["steps"]
        labels += [step["label"] for step in steps]
        after = steps[-1]["step"]
    yield "JSON history", [n for label in labels for n in NUMBERED.findall(label)]


def _files(visitor: Visitor, branch: Branch) -> Iterator[tuple[str, list[str]]]:
    form = f"/threads/{branch.thread_id}/export?branch={branch.pk}"
    for what in ("step", "branch", "thread"):
        visitor.open(form)
        file = json.loads(visitor.send("^$", what=what))
        steps = [step for each in file["content"]["branches"] for step in each["steps"]]
        yield f"file of a {what}", list(of_ops(steps))
