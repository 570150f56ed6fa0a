"""Recorded conversations on the thread's page: every step shows what was said by then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import pytest

from agents.debug.chatlog import import_conversations
from agents.pure.chatlog import parse
from checkpoints import gate
from checkpoints.access import Reason
from checkpoints.log.hydrate import read
from checkpoints.models import Branch, Checkpoint
from tests.agents.test_import_chat import AIRLINE, as_said, needs_recordings
from tests.pages.forms import fields
from tests.pages.test_thread_page import text

pytestmark = [pytest.mark.unmeasured, needs_recordings]

TABS = ["diff", "state", "messages", "raw"]
VOID = {"input", "img", "br", "hr", "meta", "link", "path", "use", "circle", "line"}


class Cards(HTMLParser):
    """The messages of the Messages tab, as somebody reads them who unfolds all."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.cards: list[Card] = []
        self._open: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        has = dict(attrs)
        if tag in VOID or not (self._open or has.get("id") == "messages"):
            return
        named = has.get("class") or ""
        self._open.append((tag, named))
        if tag == "article":
            self.cards.append(Card(new="new" in named.split()))
        elif tag == "code":
            self.cards[-1].calls.append(["", ""])

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and self._open:
            while self._open.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        tags = [tag for tag, _ in self._open]
        if "article" not in tags or "summary" in tags:
            return  # the start of a folded text stands whole below it
        card = self.cards[-1]
        if tags[-1] == "code":
            card.calls[-1][0] += data
        elif tags[-1] == "pre" and card.calls:
            card.calls[-1][1] += data
        elif tags[-1] == "pre" or "pre" in self._open[-1][1].split():
            card.text += data


@dataclass
class Card:
    new: bool
    text: str = ""
    calls: list[list[str]] = field(default_factory=list)  # name, arguments


class Texts(HTMLParser):
    """The texts within elements of one name."""

    def __init__(self, page: str, tag: str) -> None:
        super().__init__()
        self.tag, self._within = tag, False
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == self.tag:
            self.found.append("")
            self._within = True

    def handle_endtag(self, tag: str) -> None:
        self._within = self._within and tag != self.tag

    def handle_data(self, data: str) -> None:
        if self._within:
            self.found[-1] += data


def told(text: str | None) -> Any:
    """A text as it is compared: a page may lay JSON out over several lines."""
    try:
        return json.loads(text or "")
    except json.JSONDecodeError:
        return text or ""


def read_of(cards: list[Card]) -> list[Any]:
    return [
        (told(card.text), [(name, json.loads(given)) for name, given in card.calls])
        for card in cards
    ]


def said(messages: list[dict[str, Any]]) -> list[Any]:
    return [
        (
            told(message["content"]),
            [
                (call["function"]["name"], json.loads(call["function"]["arguments"]))
                for call in message.get("tool_calls") or ()
            ],
        )
        for message in messages
    ]


@pytest.fixture(params=AIRLINE, ids=lambda file: file.stem)
def recorded(request, workspace, alice) -> tuple[Branch, list[dict[str, Any]]]:
    """The branch of an imported conversation, and what the file says was said."""
    written = request.param.read_text()
    [branch] = import_conversations(
        parse(written),
        workspace=workspace,
        owner_id=alice.user_id,
        title=request.param.stem,
    )
    messages = json.loads(written)["messages"]
    return branch, [m for m in messages if m["role"] != "system"]


def test_every_step_shows_what_was_said_by_then(recorded, browser, alice):
    branch, turns = recorded
    client = browser(alice)
    made = Checkpoint.objects.unscoped(Reason.TEST).filter(branch=branch)
    steps = list(made.order_by("step"))
    began = len(steps) - len(turns)  # 1 where the agent spoke first
    entered = gate.admit(alice, purpose="test", threads=[branch.thread])
    history = read(entered, branch)
    for step in steps:
        at = f"/f/threads/{branch.thread_id}/at/{step.pk}/"
        by_then = turns[: step.step + 1 - began]
        tab = {name: text(client.get(at, {"tab": name})) for name in TABS}

        cards = Cards(tab["messages"]).cards
        assert read_of(cards) == said(by_then)
        assert [card.new for card in cards] == [turn is by_then[-1] for turn in by_then]

        record, raw = Texts(tab["raw"], "pre").found[-2:]
        state = json.loads(raw)
        assert state == history.state_at(step.step)
        assert list(map(as_said, state["messages"])) == list(map(as_said, by_then))
        assert json.loads(record)["id"] == str(step.pk)
        values, long = (
            Texts(tab["state"], "span").found,
            Texts(tab["state"], "pre").found,
        )
        for leaf in leaves(state):
            assert json.dumps(leaf, ensure_ascii=False) in values or leaf in long
        if step.step:
            changed = flat(" ".join(Texts(tab["diff"], "span").found))
            assert "+1 appended" in changed
            assert flat(by_then[-1]["content"] or "")[:100] in changed


def test_any_step_can_be_forked_and_begins_as_it_was(recorded, browser, alice):
    branch, _ = recorded
    client = browser(alice)
    entered = gate.admit(alice, purpose="test", threads=[branch.thread])
    history = read(entered, branch)
    steps = Checkpoint.objects.unscoped(Reason.TEST).filter(branch=branch)
    for at in (0, branch.head_step // 2, branch.head_step):
        page = f"/threads/{branch.thread_id}/fork/{steps.get(step=at).pk}/"
        sent = fields(text(client.get(page)), "fork-form")
        answer = client.post(page, {**sent, "name": f"again-{at}", "do": "create"})
        assert answer.status_code == 303

        made = Branch.objects.unscoped(Reason.TEST).select_related("thread")
        forked = read(entered, made.get(thread=branch.thread, fork_step=at))
        assert forked.state_at(at) == history.state_at(at)
        page = text(client.get(answer["Location"]))
        assert f"again-{at}" in page


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list) and value:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves(inner)
    else:
        yield value


def flat(said: str) -> str:
    return " ".join(said.split())
