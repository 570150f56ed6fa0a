"""References: large values out of state, and back, whatever else looks like one."""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.pure import codec, ops, refs
from checkpoints.pure.refs import Large
from tests.checkpoints.strategies import states

MOST = 100
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
URL = f"data:image/png;base64,{b64encode(PNG).decode()}"
LONG = "long text " * 20


class Shelf:
    """Takes values, and gives them back."""

    def __init__(self) -> None:
        self.held: dict[str, Large] = {}

    def take(self, large: Large) -> refs.Ref:
        made = refs.ref(uuid4(), len(large.content), large.media_type, large.words)
        self.held[made["$blob"]] = large
        return made

    def load(self, ref: refs.Ref) -> Large | None:
        return self.held.get(ref["$blob"])


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def part(url: str | refs.Ref) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.parametrize(
    ("value", "media_type", "content"),
    [
        ({"vars": {"page": LONG}}, "text/plain", LONG.encode()),
        ([{"content": LONG}], "text/plain", LONG.encode()),
        ({"content": "é" * 51}, "text/plain", "é".encode() * 51),
        ({"content": [part(URL)]}, "image/png", PNG),
        ({"file": {"file_data": URL, "filename": "a.png"}}, "image/png", PNG),
        (
            {"input_audio": {"data": b64encode(PNG).decode(), "format": "wav"}},
            "audio/wav",
            PNG,
        ),
    ],
)
def test_what_is_large_is_taken_out_and_put_back(shelf, value, media_type, content):
    kept = refs.extract(value, MOST, shelf.take)
    [found] = refs.refs(kept)
    assert refs.is_ref(found)
    assert (found["size"], found["media_type"]) == (len(content), media_type)
    assert shelf.held[found["$blob"]].content == content
    assert refs.restore(kept, shelf.load) == value


def test_a_text_is_called_by_its_first_words(shelf):
    kept = refs.extract({"page": "A  page\nof " + "words " * 50}, MOST, shelf.take)
    assert kept["page"]["digest"].startswith("A page of words words")
    assert len(kept["page"]["digest"]) == refs.WORDS


@pytest.mark.parametrize(
    "value",
    [
        {"content": "x" * MOST},
        {"content": "é" * 50},
        {"params": {"system": LONG}},
        {"tool_calls": [{"function": {"arguments": LONG}}]},
        {"role": LONG, "id": LONG, "name": LONG, "tool_call_id": LONG},
        {"url": "https://example.com/" + "x" * 200},
        {"url": "data:image/png;base64,AA=A"},
        {"url": "data:image/png;base64,AB=="},  # bits that no encoder leaves
        {"url": "data:image/png;charset=x;base64,AAAA"},
        {"url": "data:IMAGE/PNG;base64,AAAA"},
        {"url": "data:image/png,text"},
        {"content": "data:image/png;base64,AAAA"},
        {"input_audio": {"data": "AAAA", "format": "../../x"}},
        {"input_audio": {"data": "not base64", "format": "wav"}},
        {"input_audio": {"data": "AAAA"}},
        {"content": "\ud800" * MOST},
        {"n": 10**15, "b": True, "f": 0.5, "none": None},
    ],
)
def test_everything_else_stays_where_it_is(shelf, value):
    assert refs.extract(value, MOST, shelf.take) is value
    assert refs.restore(value, shelf.load) is value


@pytest.mark.parametrize(
    ("op", "taken"),
    [
        (ops.append("/messages", {"content": LONG}), True),
        (ops.put("/vars", "page", LONG), True),
        (ops.put("/params", "system", LONG), False),
        (ops.set_("/vars/page", LONG), True),
        (ops.set_("/params/system", LONG), False),
        (ops.set_("/messages/0/tool_calls/0/function/arguments", LONG), False),
        (ops.set_("/messages/0/content/0/image_url/url", URL), True),
        (ops.put("/messages/0/content/0/image_url", "url", URL), True),
        (ops.append("/url", URL), False),
        (ops.reset({"vars": {"page": LONG}, "params": {"system": LONG}}), True),
        (ops.unset("/vars/page"), False),
        (ops.delete("/vars", LONG), False),
    ],
)
def test_an_operation_gives_up_what_is_large_in_its_value(shelf, op, taken):
    [kept] = refs.extract_ops([op], MOST, shelf.take)
    assert bool(shelf.held) is taken
    assert (kept is op) is not taken
    assert list(kept[:-1]) == list(op[:-1])


REF = refs.ref(UUID(int=0xABCDEF), 5, "text/plain", "")


@pytest.mark.parametrize(
    "near",
    [
        REF | {"more": 1},
        {key: REF[key] for key in list(REF)[1:]},
        REF | {"$blob": REF["$blob"].upper()},
        REF | {"$blob": "1"},
        REF | {"$blob": 7},
        REF | {"size": "5"},
        REF | {"size": True},
        REF | {"media_type": "text/html; x"},
        REF | {"media_type": "text/" + "x" * 100},
        REF | {"media_type": None},
        REF | {"digest": ["words"]},
        [REF],
        REF["$blob"],
        None,
    ],
)
def test_only_the_exact_form_is_a_reference(near):
    assert refs.is_ref(REF)
    assert not refs.is_ref(near)


def test_what_no_blob_is_known_for_stays_a_value(shelf):
    """A reference that somebody wrote down, not we."""
    value = {"content": [REF, part(REF), {"input_audio": {"data": REF, "format": "x"}}]}
    assert refs.restore(value, shelf.load) is value
    assert refs.extract(value, MOST, shelf.take) is value
    assert len(list(refs.refs(value))) == 3


@given(states, st.integers(0, 200))
def test_taken_out_and_put_back_is_the_same_state(state, most):
    shelf = Shelf()
    kept = refs.extract(state, most, shelf.take)
    assert codec.canonical(refs.restore(kept, shelf.load)) == codec.canonical(state)
    assert refs.may_hold_large(codec.canonical(state), most) or not shelf.held
