"""Values that cannot be stored, at the doors that they come in by: said, and nothing lost."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from agents.errors import InvalidEdit
from agents.models import Run
from agents.runs import start
from agents.runs.edits import ForkEdits
from checkpoints.errors import CheckpointsError
from checkpoints.log.threads import create_thread
from checkpoints.models import Branch, Checkpoint, Thread
from tests.conftest import as_owner
from tests.workers.conftest import kinds

pytestmark = pytest.mark.django_db(transaction=True)


def page(person, run: Run, step: int) -> str:
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=person.user_id))
    checkpoint = Checkpoint.objects.get(branch=run.branch_id, step=step)
    answer = client.get(f"/threads/{run.thread_id}/at/{checkpoint.pk}/")
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


@pytest.fixture
def give(begin, work, server, history):
    """Runs a tool that gives such a value; the run, and what the model was told."""

    def give(kind: str) -> tuple[Run, str]:
        server.will_call("c1", "give", kind=kind)
        server.will_say("I see.")
        run = begin()
        work()
        run.refresh_from_db()
        assert run.status == "succeeded", run.error_class
        assert kinds(run) == ["input", "model", "tool", "model"]
        message = history(run.branch).state_at(2)["messages"][-1]
        return run, message["content"]

    return give


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("not JSON", r"\$\.at\[1\] is a builtin_function_or_method; only plain JSON"),
        ("NaN", r"\$\.fare is nan; JSON has no such number"),
        ("infinity", r"\$\.fares\[1\] is inf"),
        ("over-deep", r"is more than 64 levels deep"),
        ("a large integer", r"\$\.seats is an integer beyond 64 bits"),
        ("a surrogate key", r"has a key with a lone surrogate"),
        ("over-large", r"MB|bytes|large"),
    ],
)
def test_a_result_that_cannot_be_stored_goes_back_to_the_model(give, kind, said):
    run, content = give(kind)
    assert re.search(said, content), content[:300]
    step = Checkpoint.objects.get(branch=run.branch_id, step=2)
    assert step.status == "failed"


@pytest.mark.parametrize("kind", ["a surrogate", "a surrogate text"])
def test_a_lone_surrogate_in_a_result_is_replaced_and_the_reader_is_told(
    give, alice, history, kind
):
    run, content = give(kind)
    assert "a\ufffdb" in content
    assert history(run.branch).record(2).context["cleaned"] == ["$"]
    assert "lone surrogates" in page(alice, run, 2)
    assert "lone surrogates" not in page(alice, run, 0)


def test_a_lone_surrogate_in_a_reply_is_replaced_and_the_reader_is_told(
    begin, work, server, alice
):
    server.will_say("a\ud800b")
    run = begin()
    work()
    said = page(alice, run, 1)
    assert "a\ufffdb" in said
    assert "lone surrogates" in said
    assert "$.content" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"what": "x", "what": "y"}', 'the key "what" is given twice'),
        ('{"what": NaN}', "NaN"),
        ('{"\\ud800": 1}', "a lone surrogate in a key"),
        ('{"what": ' + "[" * 80 + "]" * 80 + "}", "more than 64 levels deep"),
        ('{"what": 1e999}', ""),
    ],
)
def test_arguments_that_are_not_json_go_back_to_the_model(
    begin, work, server, history, arguments, said
):
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "look", "arguments": arguments},
    }
    server.will_answer({"role": "assistant", "content": None, "tool_calls": [call]})
    server.will_say("I see.")
    run = begin()
    work()
    run.refresh_from_db()
    assert run.status == "succeeded", run.error_class
    told = history(run.branch).state_at(2)["messages"][-1]["content"]
    assert said in told
    assert Checkpoint.objects.get(branch=run.branch_id, step=2).status == "failed"


def load(tmp_path, text: str) -> str:
    file = tmp_path / "log.json"
    file.write_text(text)
    out = StringIO()
    with as_owner(), suppress(CommandError):  # a command of the server's
        call_command("import_chat", str(file), stdout=out, stderr=out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("NaN", "NaN"),
        ('"x", "content": "y"', "given twice"),
        ("[" * 80 + "]" * 80, "levels deep"),
        ('[{"type": "text", "text": 123456789012345678901234567890}]', "64 bits"),
    ],
)
def test_a_log_that_is_not_json_is_not_imported(workspace, tmp_path, content, said):
    out = load(tmp_path, f'[{{"role": "user", "content": {content}}}]')
    assert "Nothing of it was imported" in out, out
    assert said in out or "out of range" in out, out
    assert not Thread.objects.exists()


def test_surrogates_in_a_log_are_replaced_and_the_reader_is_told(
    workspace, tmp_path, history
):
    log = [
        {"role": "user", "content": "a\ud800b"},
        {"role": "assistant", "content": "fine"},
        {"role": "user", "content": [{"type": "text", "text": "c\udfffd"}]},
    ]
    load(tmp_path, json.dumps(log))
    branch = Branch.objects.get()
    read = history(branch)
    assert [record.context for record in read.records] == [
        {"cleaned": ["$.content"]},
        None,
        {"cleaned": ["$.content[0].text"]},
    ]


@pytest.mark.parametrize(
    ("state", "path"),
    [
        ({"facts": {"at": object()}}, r"\$\.facts\.at is an? object"),
        ({"facts": [1, float("nan")]}, r"\$\.facts\[1\] is nan"),
        ({"facts": {1: 2}}, r"\$\.facts has a key that is an? int"),
        ({"facts": "\ud800"}, r"\$\.facts has a lone surrogate"),
        ({"facts": {"\ud800": 1}}, "has a key with a lone surrogate"),
        ({"facts": 2**64}, r"\$\.facts is an integer beyond 64 bits"),
    ],
)
def test_state_that_cannot_be_stored_names_the_place_and_writes_nothing(
    workspace, state: dict[str, Any], path
):
    with pytest.raises(CheckpointsError, match=path):
        create_thread(
            workspace=workspace, owner_id=None, title="x", state=state, label="x"
        )
    assert not Thread.objects.exists()


def test_a_message_and_a_fork_take_text_as_it_comes_and_say_what_they_replaced(
    begin, work, server, alice, history
):
    """A browser cannot send half a character; whoever can is taken at their word."""
    server.will_say("One.")
    run = begin("a\ud800b")
    work()
    assert "a\ufffdb" in page(alice, run, 0)
    assert "lone surrogates" in page(alice, run, 0)
    first = Checkpoint.objects.get(branch=run.branch_id, step=0)
    for bad in (float("nan"), float("inf")):
        with pytest.raises(InvalidEdit):
            start.fork_run(
                first, edits=ForkEdits(temperature=bad), name="x", by=alice, run=False
            )
    side = start.fork_run(
        first, edits=ForkEdits(message="c\ud800d"), name="\ud800", by=alice, run=False
    )
    assert side.head_step == 1
    contexts = [record.context for record in history(side).records]
    assert contexts == [{"cleaned": ["$.content"]}, {"cleaned": ["$.message"]}]


@pytest.mark.parametrize(
    ("message", "kept", "flags"),
    [
        ("e\udffff", "e\ufffdf", {"cleaned": ["$.content"]}),
        ("fine", "fine", None),
    ],
)
def test_a_message_that_waits_says_so_in_its_step(
    begin, work, server, alice, history, message, kept, flags
):
    server.will_say("One.")
    run = begin()
    work()
    start.send_message(run.branch, message=message, by=alice)
    run.branch.refresh_from_db()
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=alice.user_id))
    waiting = client.get(f"/threads/{run.thread_id}/").content.decode()
    assert kept in waiting
    server.will_say("Two.")
    work()
    run.branch.refresh_from_db()
    said = history(run.branch).record(2)
    assert (said.kind, said.context) == ("input", flags)
    assert history(run.branch).state_at(2)["messages"][-1]["content"] == kept


def test_arguments_with_a_lone_surrogate_are_used_without_it_and_the_reader_is_told(
    begin, work, server, alice
):
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "look", "arguments": '{"what": "a\\ud800b"}'},
    }
    server.will_answer({"role": "assistant", "content": None, "tool_calls": [call]})
    server.will_say("I see.")
    run = begin()
    work()
    said = page(alice, run, 1)
    assert "lone surrogates" in said
    assert "$.tool_calls[0].arguments.what" in said
