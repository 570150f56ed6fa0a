"""`manage.py import_chat`: recorded conversations become threads, whole or not at all."""

from __future__ import annotations

import io
import json
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import MalformedLog
from agents.pure.chatlog import Conversation, parse
from checkpoints import gate
from checkpoints.access import Reason, unscoped
from checkpoints.blobs import Contents
from checkpoints.log.hydrate import head_state
from checkpoints.models import AuditEvent, Blob, Branch, Checkpoint, Thread

ROOT = Path(__file__).resolve().parent.parent.parent
SHARED = Path(
    os.environ.get("HOLDPOINT_SHARED_DATA") or ROOT.parent / "shared" / "data"
)
AIRLINE = sorted((SHARED / "airline").glob("*.json"))

needs_recordings = pytest.mark.skipif(
    not AIRLINE,
    reason="no recorded conversations: put them into ../shared/data/airline, or name"
    " the folder above with HOLDPOINT_SHARED_DATA",
)


def user(text: Any = "Cancel my booking.") -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: Any = "Done.", **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def calls(*ids: str, name: str = "cancel", arguments: str = '{"id": "EHGLP3"}'):
    function = {"name": name, "arguments": arguments}
    made = [{"id": one, "type": "function", "function": function} for one in ids]
    return says(None, tool_calls=made)


def result(id: str, content: Any = "cancelled", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


@pytest.fixture
def write(tmp_path):
    def write(value: Any, name: str = "log.json") -> Path:
        path: Path = tmp_path / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    return write


@pytest.fixture
def load(workspace):
    """Runs the command; what it wrote to standard output and to standard error."""

    def load(*files: Path, **options: Any) -> tuple[str, str]:
        out, err = io.StringIO(), io.StringIO()
        try:
            call_command(
                "import_chat", *map(str, files), stdout=out, stderr=err, **options
            )
        except CommandError as error:
            err.write(f"\n{error}")
        return out.getvalue(), err.getvalue()

    return load


def imported() -> list[Branch]:
    with unscoped(Reason.TEST):
        return list(
            Branch.objects.select_related("thread").order_by("created_at", "id")
        )


def steps_of(branch: Branch) -> list[Checkpoint]:
    with unscoped(Reason.TEST):
        return list(Checkpoint.objects.filter(branch=branch).order_by("step"))


def without_ids(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in message.items() if k != "id"} for message in messages]


# What is taken


def test_each_message_and_each_tool_result_is_a_step(load, write, history):
    log = [user(), calls("c1", "c2"), result("c1"), result("c2"), says()]
    out, err = load(write({"id": "chat-7", "model": "gpt-4o", "messages": log}))

    assert not err
    assert "5 steps" in out
    [branch] = imported()
    assert branch.thread.origin == Thread.Origin.IMPORT
    assert branch.thread.external_id == "chat-7"
    rows = steps_of(branch)
    assert [row.kind for row in rows] == ["input", "model", "tool", "tool", "model"]
    assert [row.model_requested for row in rows] == ["", "gpt-4o", "", "", "gpt-4o"]
    read = history(branch)
    for step in range(len(log)):
        messages = read.state_at(step)["messages"]
        assert len(messages) == step + 1
        assert [m["role"] for m in messages] == [m["role"] for m in log[: step + 1]]
        assert all(message["id"] for message in messages)


def test_a_replys_message_carries_the_id_of_its_step(load, write, history):
    load(write([user(), says()]))
    [branch] = imported()
    reply = steps_of(branch)[1]
    assert history(branch).state_at(1)["messages"][1]["id"] == str(reply.pk)


def test_the_system_messages_become_the_prompt(load, write, history):
    system = [{"role": "system", "content": "Be kind."}]
    developer = [
        {"role": "developer", "content": [{"type": "text", "text": "Be short."}]}
    ]
    load(write([*system, *developer, user()]))
    [branch] = imported()
    state = history(branch).state_at(0)
    assert state["params"]["system"] == "Be kind.\n\nBe short."
    assert without_ids(state["messages"]) == [user()]


def test_the_agent_may_speak_first(load, write, history):
    load(write([says("Hello!"), user()]))
    [branch] = imported()
    read = history(branch)
    assert read.state_at(0)["messages"] == []
    assert without_ids(read.state_at(2)["messages"]) == [says("Hello!"), user()]


def test_a_call_id_that_the_provider_repeats_is_no_matter(load, write, history):
    log = [
        user(),
        calls("same", "same"),
        result("same", "first"),
        result("same", "second"),
        calls("same"),
        result("same", "third"),
        says(),
    ]
    assert not load(write(log))[1]
    [branch] = imported()
    messages = history(branch).state_at(6)["messages"]
    assert [m["content"] for m in messages if m["role"] == "tool"] == [
        "first",
        "second",
        "third",
    ]


def test_content_in_parts_is_kept_as_it_is_and_named_by_its_text(
    load, write, history, alice
):
    parts = [
        {"type": "text", "text": "Look at this"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ]
    load(
        write([user(parts), calls("c"), result("c", [{"type": "text", "text": "ok"}])])
    )
    [branch] = imported()
    read = history(branch)
    assert read.state_at(2)["messages"][0]["content"] == parts
    assert read.state_at(2)["messages"][2]["content"] == "ok"
    assert read.record(0).label == "Look at this [image_url]"


def test_steps_are_named_by_their_first_words_or_their_calls(load, write, history):
    log = [user("a\nb  c"), calls("c"), result("c", name="cancel"), says("x" * 300)]
    load(write(log))
    [branch] = imported()
    labels = [record.label for record in history(branch).records]
    assert labels[:3] == ["a b c", "cancel(EHGLP3)", "cancel: cancelled"]
    assert len(labels[3]) == 160


def test_a_refusal_and_malformed_arguments_are_what_the_model_said(
    load, write, history
):
    log = [
        user(),
        calls("c", arguments='{"id": '),
        result("c"),
        says(None, refusal="No."),
    ]
    assert not load(write(log))[1]
    [branch] = imported()
    read = history(branch)
    made = read.state_at(3)["messages"][1]["tool_calls"][0]["function"]
    assert made["arguments"] == '{"id": '
    assert read.record(1).label == "cancel(…)"
    assert read.record(3).label == "No."


def test_lone_surrogates_are_replaced_and_nul_is_kept(load, write, history):
    load(write('[{"role": "user", "content": "a\\ud800b\\u0000c \\ud83d\\ude00"}]'))
    [branch] = imported()
    assert history(branch).state_at(0)["messages"][0]["content"] == "a\ufffdb\0c 😀"


def test_a_file_may_hold_a_list_of_conversations(load, write):
    two = [{"id": "a", "messages": [user()]}, {"messages": [user(), says()]}]
    out, _ = load(write(two))
    assert out.count("steps") == 2
    assert len(imported()) == 2


def test_a_jsonl_file_holds_one_a_line(load, write):
    text = "".join(
        json.dumps({"messages": [user(word)]}, ensure_ascii=False) + "\r\n\n"
        for word in ("one", "two\u2028lines", "three")
    )
    assert not load(write(text, "log.jsonl"))[1]
    assert len(imported()) == 3


def test_a_byte_order_mark_is_no_part_of_the_log(load, write, tmp_path):
    path = tmp_path / "marked.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps([user()]).encode())
    assert not load(path)[1]


def test_what_else_the_file_says_goes_to_the_vars(load, write, history):
    load(write({"messages": [user()], "succeeded": False, "tools": [{"big": 1}]}))
    [branch] = imported()
    assert history(branch).state_at(0)["vars"] == {"succeeded": False}


def test_owner_and_audit(load, write, alice):
    load(write([user()]), owner="alice")
    [branch] = imported()
    assert branch.thread.owner_id == alice.user_id
    with unscoped(Reason.TEST):
        event = AuditEvent.objects.get(action="import")
    assert (event.via, event.object_id) == ("command", branch.thread_id)
    assert event.detail == {"steps": 1, "task": "import_chat"}


def test_nothing_that_was_said_is_stored_in_clear(load, write, django_db_blocker):
    load(
        write(
            {
                "id": "chat-1",
                "messages": [user("Sesame opens"), calls("c", name="opens")],
            }
        )
    )
    with unscoped(Reason.TEST):
        for row in [*Thread.objects.all(), *imported(), *Checkpoint.objects.all()]:
            clear = {
                field.name: field.value_from_object(row) for field in row._meta.fields
            }
            assert "opens" not in str(clear)


# What is refused

GOOD = {"id": "good", "messages": [user()]}

MALFORMED: dict[str, tuple[Any, str]] = {
    "not JSON": ('{"messages": [', "is not JSON"),
    "an empty file": ("", "is not JSON"),
    "NaN": ('[{"role": "user", "content": "a", "x": NaN}]', "NaN is not a number"),
    "a key given twice": ('{"messages": [], "messages": []}', "is given twice"),
    "a text": ('"hello"', 'expected an object with a list "messages"'),
    "a number in the list": ([GOOD, 7], "conversation 1: expected an object"),
    "no messages": ({"id": "x"}, 'expected an object with a list "messages"'),
    "messages of another type": ({"messages": {"0": user()}}, 'a list "messages"'),
    "an empty conversation": ({"messages": []}, "there is no message in it"),
    "an empty file list": ([], "there is no conversation in it"),
    "only a system message": (
        [{"role": "system", "content": "Be kind."}],
        "there is no message in it",
    ),
    "a message that is none": ({"messages": [user(), None]}, "message 1 is null"),
    "no role": (
        {"messages": [user(), {"content": "a"}]},
        "message 1 has the role null",
    ),
    "an unknown role": (
        [user(), {"role": "function"}],
        'message 1 has the role "function"',
    ),
    "a late system message": (
        [user(), {"role": "system", "content": "b"}],
        "message 1 is a system message after the start",
    ),
    "content of another type": ([user(), says(7)], "message 1 has content of a number"),
    "parts that are none": ([user(["a"])], "message 0 has content of a list"),
    "a result's part without text": (
        [user(), calls("c"), result("c", [{"type": "image_url"}])],
        "message 2, part 0: expected a text",
    ),
    "a reply without anything": ([user(), says(None)], "message 1 has neither content"),
    "calls of another type": (
        [user(), says(None, tool_calls={"id": "c"})],
        'message 1 has "tool_calls" of an object',
    ),
    "a call without a function": (
        [user(), says(None, tool_calls=[{"id": "c"}])],
        "message 1, tool call 0: expected an id and a function",
    ),
    "arguments that are no string": (
        [user(), calls("c", arguments={"id": 1})],  # type: ignore[arg-type]
        "message 1, tool call 0",
    ),
    "a result of no call": (
        [user(), result("c")],
        'message 1 answers the tool call "c"',
    ),
    "a second result": (
        [user(), calls("c"), result("c"), result("c")],
        "message 3 answers the tool call",
    ),
    "a call without a result": (
        [user(), calls("c1", "c2"), result("c1"), user()],
        "message 3 is a user message, but 1 tool call(s) before it have no result",
    ),
    "an id that is no name": (
        {"id": {"a": 1}, "messages": [user()]},
        "its id is an object",
    ),
    "an id that is too long": (
        {"id": "x" * 201, "messages": [user()]},
        "its id is not a name",
    ),
    "an id with NUL": ({"id": "a\0b", "messages": [user()]}, "its id is not a name"),
    "a model that is no name": (
        {"model": [], "messages": [user()]},
        "its model is a list",
    ),
    "the same id twice": (
        [GOOD, {"id": "good", "messages": [user("other")]}],
        'conversation 1 has the id "good", as conversation 0 has',
    ),
    "the same conversation twice": (
        [{"messages": [user()]}, {"messages": [user()]}],
        "conversation 1 has the same messages, as conversation 0 has",
    ),
    "too deep": (
        [user([{"type": "text", "text": "a", "x": json.loads("[" * 60 + "]" * 60)}])],
        "message 0 is nested more than 56 levels deep",
    ),
    "too deep beside the messages": (
        {"messages": [user()], "x": json.loads("[" * 60 + "]" * 60)},
        "what is beside the messages is nested",
    ),
    "too large": (
        [user(), calls("c", arguments=json.dumps("x" * 6_000_000)), result("c")],
        "message 1 is larger than",
    ),
    "too large for a blob": (
        [user(), says("x" * 70_000_000)],
        "message 1 holds a value of 70,000,000 bytes",
    ),
    "a key with a lone surrogate": (
        '{"messages": [], "\\ud800": 1}',
        "a lone surrogate",
    ),
    "an integer beyond 64 bits": (
        '{"messages": [], "x": 1e400}',
        "too large for a float",
    ),
    "its second conversation": (
        [GOOD, {"id": "bad", "messages": [user(), {"role": "robot"}]}],
        "conversation 1: message 1 has the role",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_log_is_refused_whole_with_file_index_and_problem(
    name, load, write
):
    content, problem = MALFORMED[name]
    file = write(content, "bad.json")
    out, err = load(file)
    assert not out
    assert str(file) in err
    assert problem in err
    assert "Nothing of it was imported." in err
    assert "1 of 1 files failed." in err
    assert imported() == []


def test_a_bad_line_of_a_jsonl_file_is_named(load, write):
    file = write(f"{json.dumps([user()])}\n\n{{}}\n", "bad.jsonl")
    assert "line 3: expected an object" in load(file)[1]
    assert imported() == []


def test_a_good_file_beside_a_bad_one_is_imported(load, write):
    good, bad = write([user()], "good.json"), write("{", "bad.json")
    out, err = load(bad, good)
    assert "good.json" in out
    assert "1 of 2 files failed." in err
    assert len(imported()) == 1


def test_a_file_that_cannot_be_read_is_named(load, tmp_path):
    missing, latin, folder = tmp_path / "missing.json", tmp_path / "l1.json", tmp_path
    latin.write_bytes(b'["caf\xe9"]')
    err = load(missing, latin, folder)[1]
    assert "missing.json: cannot be read (No such file or directory)." in err
    assert "l1.json: byte 5 is not UTF-8" in err
    assert "cannot be read (Is a directory)." in err


@pytest.mark.parametrize("log", [GOOD, [user()]], ids=["by id", "by what was said"])
def test_a_repeated_import_is_refused(log, load, write):
    file = write(log)
    load(file)
    out, err = load(file)
    [branch] = imported()
    assert not out
    assert f"was imported before, as {branch.thread}." in err


def test_another_workspace_may_import_the_same(load, write, other):
    file = write(GOOD)
    assert not load(file, workspace="acme")[1]
    assert not load(file, workspace="rival")[1]
    assert len({branch.workspace_id for branch in imported()}) == 2


def test_a_wrong_workspace_or_owner_is_named(load, write, other):
    file = write(GOOD)
    assert "Say --workspace; there are: acme, rival." in load(file)[1]
    assert "No workspace is called 'nope'" in load(file, workspace="nope")[1]
    assert "No user is called 'nope'." in load(file, workspace="acme", owner="nope")[1]
    assert imported() == []


# Real ones


@needs_recordings
@pytest.mark.parametrize("file", AIRLINE, ids=lambda file: file.stem)
def test_a_recorded_conversation_becomes_the_same_conversation(
    file, load, history, alice
):
    recorded = json.loads(file.read_text())
    turns = [m for m in recorded["messages"] if m["role"] != "system"]
    assert not load(file)[1]

    [branch] = imported()
    read = history(branch)
    title = gate.admit(alice, purpose="test", threads=[branch.thread]).open(
        branch.thread, "title"
    )
    assert title.startswith(recorded["id"])
    skipped = 0 if turns[0]["role"] == "user" else 1  # the agent spoke first
    assert len(read.records) == len(turns) + skipped
    for step in range(skipped, len(read.records)):
        messages = read.state_at(step)["messages"]
        assert len(messages) == step + 1 - skipped
        assert as_said(messages[-1]) == as_said(turns[step - skipped])
    assert list(map(as_said, messages)) == list(map(as_said, turns))


def as_said(message: dict[str, Any]) -> tuple[Any, ...]:
    made = [
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    ]
    return message["role"], message["content"], message.get("tool_call_id"), made


# Laws

words = st.text(st.characters(codec=None), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4)
    ),
    max_leaves=12,
)
nearly_calls = st.lists(
    st.fixed_dictionaries(
        {"id": st.sampled_from(["a", "b"]) | values},
        optional={
            "function": st.fixed_dictionaries(
                {}, optional={"name": words | values, "arguments": words | values}
            )
            | values
        },
    )
    | values,
    max_size=3,
)
nearly_messages = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "tool", "system", "developer"])
        | values,
        "content": words | st.lists(st.dictionaries(words, words), max_size=2) | values,
        "tool_call_id": st.sampled_from(["a", "b"]) | values,
        "tool_calls": nearly_calls | values,
        "refusal": words | values,
        "name": words | values,
    },
)
nearly_logs = st.fixed_dictionaries(
    {"messages": st.lists(nearly_messages | values, max_size=5)},
    optional={"id": words | values, "model": words | values, "more": values},
)


@given(
    value=values | nearly_logs | st.lists(nearly_messages | nearly_logs | values),
    lines=st.booleans(),
)
def test_any_json_is_conversations_or_a_malformed_log(value, lines):
    total(json.dumps(value), lines)


@given(text=st.text(max_size=200), lines=st.booleans())
def test_any_text_is_conversations_or_a_malformed_log(text, lines):
    total(text, lines)


def total(text: str, lines: bool) -> None:
    try:
        conversations = parse(text, lines=lines)
    except MalformedLog:
        return
    assert conversations
    for one in conversations:
        assert isinstance(one, Conversation)
        assert one.messages
        assert one.messages[0]["role"] in ("user", "assistant")


def test_long_texts_and_images_of_a_log_become_blobs(workspace, alice, write):
    image = b"\x89PNG\r\n\x1a\n" + bytes(6_000_000)
    url = f"data:image/png;base64,{b64encode(image).decode()}"
    looked = [{"type": "image_url", "image_url": {"url": url}}]
    call_command("import_chat", str(write([user(looked), says("x" * 6_000_000)])))
    with unscoped(Reason.TEST):
        branch = Branch.objects.select_related("thread").get()
        kept = Blob.objects.values_list("media_type", "size").order_by("media_type")
        assert list(kept) == [("image/png", len(image)), ("text/plain", 6_000_000)]
    opened = gate.admit(alice, purpose="test", threads=[branch.thread])
    state = Contents(opened, branch.thread_id).restore(head_state(opened, branch))
    assert [message["content"] for message in state["messages"]] == [
        looked,
        "x" * 6_000_000,
    ]


def test_a_log_is_not_imported_while_the_store_is_away(workspace, write, settings):
    settings.BLOB_DIR = write("", "a file")
    err = io.StringIO()
    with pytest.raises(CommandError):
        call_command("import_chat", str(write([user("x" * 100_000)])), stderr=err)
    assert "cannot be used" in err.getvalue()
    assert "Nothing of it was imported" in err.getvalue()
    with unscoped(Reason.TEST):
        assert not Thread.objects.exists()
