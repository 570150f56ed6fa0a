"""Bundles: what is exported here is the same where it is imported, or it is refused."""

from __future__ import annotations

import io
import json
import tracemalloc
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from agents.debug.bundles.export import export
from agents.debug.bundles.importing import import_bundle
from agents.debug.chatlog import import_conversations
from agents.errors import AlreadyImported, BadFile, InvalidEdit, TooLarge
from agents.models import Run
from agents.pure.bundles import file, shape
from agents.pure.chatlog import parse
from agents.runs.edits import ForkEdits
from agents.runs.start import fork_run, send_message
from checkpoints import gate
from checkpoints.access import Reason, SystemPrincipal, unscoped
from checkpoints.blobs import Contents
from checkpoints.errors import BadOperation, NotPermitted
from checkpoints.log.append import NewStep, StepMeta, commit, writer
from checkpoints.log.hydrate import read
from checkpoints.log.threads import fork
from checkpoints.models import AuditEvent, Branch, Checkpoint, Thread, Workspace
from checkpoints.pure import codec, ops
from tests.agents.test_import_chat import AIRLINE, needs_recordings
from tests.agents.waiting import make_waiting
from tests.conftest import as_owner

SECRET = "sk-" + "a1B2" * 8


@pytest.fixture
def rival(other) -> Workspace:
    return Workspace.objects.get(pk=other.workspace_id)


@pytest.fixture
def take(rival, other):
    """Imports a bundle's text elsewhere: into the other workspace."""

    def take(text: str, **more: Any) -> Thread:
        given = {"workspace": rival, "by": other, "owner_id": other.user_id, **more}
        return import_bundle(text.encode(), **given)

    return take


@pytest.fixture
def give(alice):
    """Exports: give(branch), give(branch, what="step", step=2)."""

    def give(branch: Branch, *, what: Any = "thread", **more: Any) -> str:
        more = {"step": None, "by": alice, **more}
        return export(branch.thread, what=what, branch=branch, **more)

    return give


def add(branch: Branch, *changes: Any, **meta: Any) -> list[Checkpoint]:
    """A tool step for each change of the state."""
    branch.refresh_from_db()
    at = writer(branch)
    for change in changes:
        step = NewStep(
            kind="tool",
            ops=[change],
            label="a step",
            meta=StepMeta(name="book", latency_ms=12, cost=Decimal("0.01"), **meta),
            context={"cached": {"step": 0, "saved_ms": 3}},
        )
        at = commit(at, step)
    branch.refresh_from_db()
    return list(Checkpoint.objects.unscoped(Reason.TEST).filter(branch=branch))


def branches_of(thread: Thread) -> list[Branch]:
    found = Branch.objects.unscoped(Reason.TEST).filter(thread=thread)
    return list(
        found.select_related("thread").order_by("fork_step", "created_at", "pk")
    )


def states_of(branch: Branch, by: Any) -> list[bytes]:
    """The state at each step as canonical bytes, with what is kept as blobs."""
    seen = gate.admit(by, purpose="test", threads=[branch.thread])
    contents = Contents(seen, branch.thread_id)
    history = read(seen, branch)
    every = history.states(*range(len(history.records)))
    return [codec.canonical(contents.restore(state)) for state in every]


@pytest.fixture
def tree(make_thread, alice) -> Branch:
    """main 0-3, `a` from 1, `b` from step 2 of `a`, `c` from 3 without a step."""
    main = make_thread(owner=alice, title="Trip <b>")
    steps = add(
        main,
        ops.put("/facts", "fare", 1200.5),
        ops.append("/messages", {"id": "m2", "role": "user", "content": "é\u202e"}),
        ops.set_("/goal", "x" * 70_000),
    )
    a = fork(_with(steps[1]), name="a", by_id=alice.user_id)
    [two] = add(a, ops.put("/facts", "fare", 0.0))
    b = fork(_with(two), name="b", by_id=alice.user_id)
    add(b, ops.put("/facts", "fare", -0.0), ops.unset("/messages/0"))
    fork(_with(steps[3]), name="c", by_id=alice.user_id)
    return main


def _with(checkpoint: Checkpoint) -> Checkpoint:
    found = Checkpoint.objects.unscoped(Reason.TEST).select_related("branch", "thread")
    return found.get(pk=checkpoint.pk)


# There and back


def test_a_thread_is_the_same_elsewhere_at_every_step_of_every_branch(
    tree, give, take, alice, other
):
    text = give(tree)
    thread = take(text)
    here, there = branches_of(tree.thread), branches_of(thread)
    assert len(here) == len(there) == 4
    for mine, theirs in zip(here, there, strict=True):
        assert states_of(mine, alice) == states_of(theirs, other)
    assert json.loads(text)["manifest"]["masked"] == []
    assert thread.origin == Thread.Origin.IMPORT
    assert thread.workspace_id == other.workspace_id


def test_what_is_imported_exports_to_the_same_content(tree, give, take, other):
    first = give(tree)
    thread = take(first)
    again = export(
        thread, what="thread", branch=branches_of(thread)[0], step=None, by=other
    )
    assert json.loads(again)["content"] == json.loads(first)["content"]


def test_a_branch_goes_with_all_that_it_inherits(tree, give, take, alice, other):
    branch = branches_of(tree.thread)[2]
    [made] = branches_of(take(give(branch, what="branch")))
    assert states_of(made, other) == states_of(branch, alice)


def test_a_step_goes_alone(tree, give, take, alice, other):
    text = give(tree, what="step", step=2)
    [made] = branches_of(take(text))
    assert states_of(made, other) == [states_of(tree, alice)[2]]
    assert json.loads(text)["manifest"]["step"] == 2


def test_what_is_known_of_a_step_goes_with_it(tree, give, take, other):
    branch = branches_of(take(give(tree)))[0]
    seen = gate.admit(other, purpose="test", threads=[branch.thread])
    record = read(seen, branch).record(1)
    assert (record.kind, record.latency_ms, record.cost) == (
        "tool",
        12,
        Decimal("0.01"),
    )
    assert record.label == "a step"
    assert record.name == "book"  # a tool that is registered here as well
    assert record.context is not None
    assert record.context["cached"] == {"step": 0, "saved_ms": 3}
    then = Checkpoint.objects.unscoped(Reason.TEST).get(branch=tree, step=1)
    assert record.context["imported"]["at"] == then.created_at.isoformat()
    assert record.id != then.pk


def test_calls_requests_and_decisions_are_told(make_thread, alice, give):
    [approval] = make_waiting(make_thread(owner=alice), alice)
    content = json.loads(give(approval.branch))["content"]
    [call] = [call for s in content["branches"][0]["steps"] for call in s["calls"]]
    assert (call["tool"], call["effect"], call["status"]) == (
        "book",
        "external",
        "waiting",
    )
    assert call["approval"]["number"] == approval.number
    assert call["approval"]["status"] == "pending"


def test_state_as_deep_as_can_be_stored_goes_too(make_thread, alice, give, take, other):
    deep: Any = "x"
    for _ in range(59):
        deep = [deep]
    branch = make_thread(owner=alice, state={"_schema": 1, "deep": deep})
    [made] = branches_of(take(give(branch)))
    assert states_of(made, other) == states_of(branch, alice)


@needs_recordings
def test_every_recorded_conversation_is_the_same_after_a_round_trip(
    workspace, alice, give, take, other
):
    for path in AIRLINE:
        conversations = parse(path.read_text())
        [branch] = import_conversations(
            conversations, workspace=workspace, owner_id=None, title=path.stem
        )
        middle = Checkpoint.objects.unscoped(Reason.TEST).select_related(
            "branch", "thread"
        )
        for name, step in (("early", 1), ("late", branch.head_step // 2)):
            made = fork(
                middle.get(branch=branch, step=step), name=name, by_id=alice.user_id
            )
            add(made, ops.set_("/goal", name))
        here = branches_of(branch.thread)
        there = branches_of(take(give(branch)))
        assert len(here) == len(there) == 3
        for mine, theirs in zip(here, there, strict=True):
            assert states_of(mine, alice) == states_of(theirs, other), path.stem


# What is masked


def test_a_secret_that_slipped_in_is_masked_and_named(make_thread, alice, give, take):
    branch = make_thread(owner=alice)
    # As state that was stored before this form of secrets was known.
    add(branch, ops.put("/facts", "note", f"use {SECRET} now"))
    text = give(branch)
    assert SECRET not in text
    assert "use [secret api-key] now" in text
    assert json.loads(text)["manifest"]["masked"] == [
        {"what": "secret", "name": "api-key"}
    ]
    take(text)


def test_a_secret_in_a_key_is_masked_in_every_later_step(
    make_thread, alice, give, take, other
):
    branch = make_thread(owner=alice)
    add(
        branch,
        ops.put("/facts", SECRET, {"at": 1}),
        ops.put(f"/facts/{SECRET}", "at", 2),
        ops.delete("/facts", SECRET),
    )
    text = give(branch)
    assert SECRET not in text
    [made] = branches_of(take(text))
    facts = [json.loads(state)["facts"] for state in states_of(made, other)]
    assert facts == [
        {},
        {"[secret api-key]": {"at": 1}},
        {"[secret api-key]": {"at": 2}},
        {},
    ]


def test_a_chosen_path_is_masked_and_its_text_wherever_it_stands(
    make_thread, alice, give, take, other
):
    branch = make_thread(owner=alice)
    add(
        branch,
        ops.put("/facts", "passport", {"number": "X1234567"}),
        ops.append("/messages", {"id": "m", "role": "user", "content": "X1234567?"}),
        ops.put("/facts/passport", "number", "Y7654321"),
    )
    text = give(branch, masked=["/facts/passport", "/nowhere/0"])
    assert "X1234567" not in text
    assert "Y7654321" not in text
    assert json.loads(text)["manifest"]["masked"] == [
        {"what": "path", "name": "/facts/passport"}
    ]
    [made] = branches_of(take(text))
    last = json.loads(states_of(made, other)[-1])
    assert last["facts"] == {"passport": "[masked]"}
    assert last["messages"][1]["content"] == "[secret /facts/passport]?"


def test_masking_paths_keeps_forks_what_they_are(tree, give, take, alice, other):
    text = give(tree, masked=["/goal"])
    there = branches_of(take(text))
    for mine, theirs in zip(branches_of(tree.thread), there, strict=True):
        expected = [
            {**json.loads(state), "goal": "[masked]"}
            for state in states_of(mine, alice)
        ]
        assert [json.loads(state) for state in states_of(theirs, other)] == expected


def test_a_masked_text_is_masked_in_titles_and_names(make_thread, alice, give):
    branch = make_thread(owner=alice, title="Passport X1234567")
    steps = add(branch, ops.put("/facts", "passport", "X1234567"))
    fork(_with(steps[1]), name="not X1234567", by_id=alice.user_id)
    text = give(branch, masked=["/facts/passport"])
    assert "X1234567" not in text
    assert json.loads(text)["content"]["title"] == "Passport [secret /facts/passport]"


def test_what_a_bundle_told_of_steps_is_masked_when_it_goes_on(bundle, take, other):
    call = {**CALL, "title": "Book with X1234567", "tool": "book_X1234567"}
    found = change(bundle, f"{STEP}.ops", [["put", "/facts", "passport", "X1234567"]])
    for name, value in (("calls", [call]), ("by", "X1234567"), ("name", "X1234567")):
        found = change(found, f"{STEP}.{name}", value)
    [branch] = branches_of(take(sealed(found)))
    paths = ["/facts/passport"]
    text = export(
        branch.thread, what="thread", branch=branch, step=None, by=other, masked=paths
    )
    assert "X1234567" not in text


def test_masked_words_that_a_file_is_made_of_leave_it_one(
    bundle, take, other, rival, workspace
):
    """An effect is "read" whatever somebody masks."""
    found = change(bundle, f"{STEP}.calls", [{**CALL, "effect": "read"}])
    words = {"access": "read", "state": "done", "what": "tool", "long/" * 40: "book"}
    found = change(found, f"{STEP}.ops", [["put", "/facts", "words", words]])
    [branch] = branches_of(take(sealed(found)))
    paths = ["/facts/words/" + word.replace("/", "~1") for word in words]
    text = export(
        branch.thread, what="thread", branch=branch, step=None, by=other, masked=paths
    )
    assert "book" not in text
    take(text, workspace=workspace, by=SystemPrincipal("test", workspace.pk))


def test_the_version_of_a_state_is_not_masked(make_thread, alice, give):
    branch = make_thread(owner=alice, state={"_schema": 3, "messages": []})
    with pytest.raises(BadOperation, match="a state's version stays"):
        give(branch, masked=["/_schema"])


# Who may, and what is recorded


def test_an_export_and_an_import_are_recorded(tree, give, take):
    thread = take(give(tree, what="branch"))
    with unscoped(Reason.TEST):
        exported = AuditEvent.objects.get(action="export")
        imported = AuditEvent.objects.get(action="import")
        opened = AuditEvent.objects.get(action="open", purpose="export")
    assert (exported.object_id, exported.detail["holds"]) == (tree.thread_id, "branch")
    assert opened.object_id == tree.thread_id
    assert (imported.object_id, imported.detail["steps"]) == (thread.pk, 4)


def test_who_may_not_read_exports_nothing(tree, give, auditor, other):
    for person in (auditor, other):
        with pytest.raises(NotPermitted):
            give(tree, by=person)


def test_a_viewer_imports_nothing(tree, give, viewer, workspace):
    with pytest.raises(NotPermitted, match="an operator can"):
        import_bundle(
            give(tree).encode(), workspace=workspace, by=viewer, owner_id=viewer.user_id
        )


def test_the_same_bundle_is_one_thread(tree, give, take):
    text = give(tree)
    thread = take(text)
    with pytest.raises(AlreadyImported, match=f"was imported before, as {thread}"):
        take(text)
    with pytest.raises(AlreadyImported):  # exported again, at another time
        take(give(tree))


def test_what_is_too_large_is_refused_before_it_is_in_memory(make_thread, alice, give):
    branch = make_thread(owner=alice)
    add(branch, *(ops.put("/facts", f"{n}", f"{n}" * 5_000_000) for n in range(4)))
    with pytest.raises(TooLarge, match=r"kept as a blob is too large.*16 MB.*one step"):
        give(branch)


# What may follow


def test_nothing_goes_on_where_a_bundle_ends_and_a_fork_of_it_does(
    make_thread, alice, give, take, other
):
    branch = make_thread(owner=alice)
    [made] = branches_of(take(give(branch)))
    with pytest.raises(NotPermitted, match="stays as it came"):
        send_message(made, message="Go on.", by=other, agent="waiting-desk")
    head = _with(Checkpoint.objects.unscoped(Reason.TEST).get(branch=made))
    forked = fork_run(
        head, edits=ForkEdits(), name="on", by=other, agent="waiting-desk"
    )
    with unscoped(Reason.TEST):
        assert Run.objects.get().branch_id == forked.pk


def test_calls_that_were_made_elsewhere_are_nobodys_here(
    make_thread, alice, give, take, other
):
    function = {"name": "book", "arguments": "{}"}
    calls = [{"id": "c", "type": "function", "function": function}]
    said = {"id": str(uuid4()), "role": "assistant", "content": "", "tool_calls": calls}
    branch = make_thread(owner=alice)
    add(branch, ops.append("/messages", said))
    made = branches_of(take(give(branch)))[0]
    rows = Checkpoint.objects.unscoped(Reason.TEST).filter(branch=made)
    reply = rows.get(step=1)
    with pytest.raises(InvalidEdit, match="calls that it made elsewhere"):
        fork_run(_with(reply), edits=ForkEdits(), name="", by=other, run=False)
    forked = fork_run(
        _with(rows.get(step=0)), edits=ForkEdits(), name="", by=other, run=False
    )
    assert forked.fork_step == 0


# What is refused


def sealed(found: dict[str, Any]) -> str:
    """With the hash of what it says now: as who wants to deceive would write it."""
    body = {name: value for name, value in found.items() if name != "sha256"}
    return json.dumps({**body, "sha256": sha256(codec.canonical(body)).hexdigest()})


@pytest.fixture
def bundle(make_thread, alice, give) -> dict[str, Any]:
    branch = make_thread(owner=alice)
    add(branch, ops.put("/facts", "fare", 1))
    found: dict[str, Any] = json.loads(give(branch))
    return found


def change(found: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """As `path` says: content.branches.0.steps.1.kind; ... removes the key."""
    found = deepcopy(found)
    *parents, last = path.split(".")
    node: Any = found
    for part in parents:
        node = node[int(part) if part.isdecimal() else part]
    if value is ...:
        del node[last]
    elif isinstance(node, list):
        node[int(last)] = value
    else:
        node[last] = value
    return found


STEP = "content.branches.0.steps.1"
CALL = {
    **dict.fromkeys(("started_at", "finished_at", "approval")),
    "ordinal": 0,
    "tool": "book",
    "title": "Book",
    "effect": "none",
    "status": "done",
    "error_class": "",
    "attempts": 1,
}
DEEP = json.loads("[" * 100 + "]" * 100)
FORGED = {
    "another format": ("format", "holdpoint archive", 'whose "format" is'),
    "from the future": ("version", 2, "reads up to 1"),
    "no version": ("version", None, "expected 1, found null"),
    "a version that is none": ("version", True, "expected 1, found true"),
    "more beside it": ("more", 1, 'the key "more" does not belong there'),
    "no manifest": ("manifest", ..., 'the key "manifest" is missing'),
    "content of another type": ("content", [], "content: expected an object"),
    "no branches": ("content.branches", [], "there is no branch in it"),
    "branches of another type": ("content.branches", {}, "expected a list"),
    "a branch of another type": (
        "content.branches.0",
        7,
        "branch 0: expected an object",
    ),
    "a first branch with a parent": ("content.branches.0.parent", 0, "has no parent"),
    "no steps": ("content.branches.0.steps", [], "there is no step in it"),
    "a step that is none": (STEP, None, "branch 0, step 1: expected an object"),
    "an unknown key": (f"{STEP}.id", "x", 'step 1: the key "id" does not belong'),
    "a missing key": (f"{STEP}.ops", ..., 'step 1: the key "ops" is missing'),
    "an unknown kind": (f"{STEP}.kind", "magic", "step 1: kind: expected one of"),
    "a kind of another type": (f"{STEP}.kind", [], "step 1: kind: expected one of"),
    "another number": (f"{STEP}.step", 5, "step 1: step: expected 1"),
    "a step that is no number": (f"{STEP}.step", True, "a whole number"),
    "a time without a zone": (
        f"{STEP}.at",
        "2026-07-14T09:30:00",
        "a time with its zone",
    ),
    "a time that is none": (f"{STEP}.at", 7, "a time with its zone"),
    "a cost that is none": (f"{STEP}.cost", "NaN", "US dollars as a text"),
    "a cost that is a number": (f"{STEP}.cost", 0.5, "US dollars as a text"),
    "a cost below nothing": (f"{STEP}.cost", "-0", "US dollars as a text"),
    "a cost beyond its column": (f"{STEP}.cost", "999999.9999999", "US dollars as"),
    "a cost of a billion digits": (f"{STEP}.cost", "1e-999999999", "US dollars as"),
    "many tokens": (f"{STEP}.tokens_in", 2**40, "a whole number"),
    "a seed beyond 64 bits": (f"{STEP}.seed", 2**63, "a whole number"),
    "a temperature of text": (f"{STEP}.temperature", "hot", "expected a number"),
    "a model with NUL": (f"{STEP}.model_requested", "a\0", "has not the form"),
    "an error class of words": (f"{STEP}.error_class", "Oh no", "has not the form"),
    "a long name": (f"{STEP}.name", "n" * 101, "101 characters; 100 at most"),
    "an operation that is none": (f"{STEP}.ops", [["explode", "/a"]], "step 1: ops: "),
    "an operation that does not fit": (
        f"{STEP}.ops",
        [["delete", "/facts", "x"]],
        "there is no key 'x'",
    ),
    "operations that are no list": (f"{STEP}.ops", 7, "ops: expected a list"),
    "operations that are no JSON": (f"{STEP}.ops", "[", "ops: it is not JSON"),
    "operations nested too deep": (
        f"{STEP}.ops",
        json.dumps([["put", "/facts", "deep", DEEP]]),
        "more than 64 levels deep",
    ),
    "another schema version": (f"{STEP}.schema_version", 3, "expected 1, as its state"),
    "a first step that adds": (
        "content.branches.0.steps.0.ops",
        [["put", "", "messages", []]],
        "the first step sets the whole state",
    ),
    "context of another type": (f"{STEP}.context", [], "context: expected an object"),
    "an import that never was": (f"{STEP}.context", {"imported": {}}, "an import only"),
    "context that breaks pages": (
        f"{STEP}.context",
        {"left_out": 7},
        "expected a list",
    ),
    "a request of another type": (f"{STEP}.context", {"request": 1}, '"request"'),
    "calls of another type": (f"{STEP}.calls", {}, "calls: expected a list"),
    "a call that is none": (f"{STEP}.calls", [1], "calls 0: expected an object"),
    "a surrogate": (f"{STEP}.label", "\ud800", "lone surrogate"),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_is_no_bundle_is_refused_with_place_and_problem(name, bundle, take):
    path, value, problem = FORGED[name]
    before = Thread.objects.unscoped(Reason.TEST).count()
    if name == "a surrogate":
        text = json.dumps(change(bundle, path, value))
    else:
        text = sealed(change(bundle, path, value))
    with pytest.raises(BadFile) as refused:
        take(text)
    assert problem in str(refused.value)
    assert Thread.objects.unscoped(Reason.TEST).count() == before


UNREADABLE = {
    "nothing": (b"", "is not JSON"),
    "a list": (b"[]", "found a list"),
    "not JSON": (b'{"format": ', "is not JSON"),
    "not UTF-8": (b'{"a": "\xff"}', "Byte 7: it is not UTF-8"),
    "a key given twice": (b'{"a": 1, "a": 2}', "is given twice"),
    "NaN": (b'{"a": NaN}', "NaN is not a number"),
    "too deep": (b'{"a":' + b"[" * 100_000, "levels deep"),
    "too large": (b" " * (file.MOST_BYTES + 1), "16 MB at most"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_refused(name):
    data, problem = UNREADABLE[name]
    with pytest.raises(BadFile, match=problem):
        file.read(data, format=file.BUNDLE)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{STEP}.label", "another"),
        (f"{STEP}.ops.0.3", 1.0),
        ("manifest.made_by", "Mallory"),
        ("manifest.masked", [{"what": "path", "name": "/x"}]),
        ("sha256", "0" * 64),
        ("sha256", None),
    ],
)
def test_what_was_changed_on_the_way_is_found(path, value, bundle, take):
    with pytest.raises(BadFile, match="changed or damaged since it was exported"):
        take(json.dumps(change(bundle, path, value)))


def test_blanks_and_the_order_of_keys_are_no_change(bundle, take):
    text = json.dumps(dict(reversed(bundle.items())), indent=3)
    assert take(f"\ufeff{text}\r\n")


def test_a_file_that_breaks_off_at_its_last_step_leaves_nothing(bundle, take):
    """Not found by looking at the file: at the last step, when others are stored."""
    last = {**bundle["content"]["branches"][0]["steps"][-1], "step": 2}
    last["ops"] = [["put", "/facts", f"{SECRET}", 1]]
    found = change(bundle, "content.branches.0.steps", [
        *bundle["content"]["branches"][0]["steps"], last
    ])  # fmt: skip
    before = Thread.objects.unscoped(Reason.TEST).count()
    with pytest.raises(BadFile, match="a secret stands in a key"):
        take(sealed(found))
    assert Thread.objects.unscoped(Reason.TEST).count() == before


def test_a_secret_in_a_file_from_elsewhere_is_not_stored(bundle, take, other):
    found = change(bundle, f"{STEP}.ops", [["put", "/facts", "key", SECRET]])
    [made] = branches_of(take(sealed(found)))
    assert json.loads(states_of(made, other)[1])["facts"] == {"key": "[secret api-key]"}


def test_a_secret_in_the_name_of_a_model_is_in_no_column(bundle, take):
    found = bundle
    for name in ("model_requested", "model_returned", "fingerprint"):
        found = change(found, f"{STEP}.{name}", SECRET)
    take(sealed(found))
    row = Checkpoint.objects.unscoped(Reason.TEST).get(thread__origin="import", step=1)
    named = {row.model_requested, row.model_returned, row.fingerprint}
    assert named == {"[secret api-key]"}


def test_a_key_that_fits_nowhere_is_not_said_in_full(bundle, take):
    found = change(bundle, f"{STEP}.ops", [["delete", "/facts", "x" * 100_000]])
    with pytest.raises(BadFile, match="there is no key 'xxx") as refused:
        take(sealed(found))
    assert len(str(refused.value)) < 400


def test_a_list_that_grows_by_steps_is_not_copied_for_each(bundle):
    """Or a file of a few MB took all memory: each copy is as long as the list."""
    first, one = bundle["content"]["branches"][0]["steps"]
    steps = [
        {**first, "ops": [["reset", {"list": [0] * 100_000}]]},
        *({**one, "step": n, "ops": [["append", "/list", n]]} for n in range(1, 200)),
    ]
    main = {**bundle["content"]["branches"][0], "steps": steps}
    last = {**one, "step": 100, "ops": [["unset", "/list/100099"]]}  # there is none
    fork = {"name": "f", "parent": 0, "fork_step": 99, "steps": [last]}
    tracemalloc.start()
    try:
        shape.parse({"title": "", "branches": [main]})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 10 * 1024**2  # 160 MB, where each step had its own
    with pytest.raises(BadFile, match=r"branch 1, step 100: .* the list has 100099"):
        shape.parse({"title": "", "branches": [main, fork]})


def test_another_persons_thread_is_not_named_to_who_imports_the_same(
    tree, give, take, other, rival
):
    text = give(tree)
    with as_owner():
        user = User.objects.create_user("ovid")
    ovid = replace(other, user_id=user.pk, name="Ovid")
    thread = take(text, visibility=Thread.Visibility.PRIVATE)
    with pytest.raises(AlreadyImported) as refused:
        take(text, by=ovid, owner_id=ovid.user_id)
    assert str(thread) not in str(refused.value)
    assert "as a thread that is not shared with you" in str(refused.value)


def test_what_is_written_can_be_read_again_or_is_refused():
    """Lines make a file of numbers three times as long."""
    content = {"numbers": [0] * 3_000_000}
    whole = file.write(file.TEST_CASE, {}, content, lines=False)
    found = file.read(whole.encode(), format=file.TEST_CASE)
    assert found.content == content
    with pytest.raises(TooLarge):
        file.write(file.TEST_CASE, {}, content, lines=True)


# By command


def run(command: str, *arguments: Any, **options: Any) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command(command, *map(str, arguments), stdout=out, stderr=err, **options)
    except CommandError as error:
        err.write(f"\n{error}")
    return out.getvalue(), err.getvalue()


def test_the_commands_bring_a_thread_from_one_workspace_to_another(
    tree, rival, alice, other, tmp_path
):
    path = tmp_path / "trip.json"
    out, err = run("export_bundle", tree.thread_id, path, by="alice")
    assert "the thread" in out
    assert not err
    out, err = run("import_bundle", path, workspace="rival", owner="oscar")
    assert not err
    made = Thread.objects.unscoped(Reason.TEST).get(workspace=rival)
    assert str(made.pk) in out
    assert made.owner_id == other.user_id
    again, err = run("import_bundle", path, workspace="rival")
    assert not again
    assert f"{path}: This bundle was imported before" in err
    assert "Nothing of it was imported. 1 of 1 files failed." in " ".join(err.split())


def test_the_commands_name_what_is_wrong(tree, alice, tmp_path):
    path = tmp_path / "x.json"
    assert (
        "no branch"
        in run(
            "export_bundle", tree.thread_id, path, by="alice", branch=tree.thread_id
        )[1]
    )
    assert (
        "has no step 9"
        in run("export_bundle", tree.thread_id, path, by="alice", step=9)[1]
    )
    assert not path.exists()
    path.write_text("mine")
    assert (
        "is there already" in run("export_bundle", tree.thread_id, path, by="alice")[1]
    )
    assert "is not JSON" in run("import_bundle", path, workspace="acme")[1]
    assert (
        "cannot be read" in run("import_bundle", tmp_path / "no", workspace="acme")[1]
    )


def test_nothing_that_a_file_says_steers_a_terminal(bundle, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(sealed(change(bundle, f"{STEP}.\u009b2J\u202e", 1)))
    said = run("import_bundle", path, workspace="acme")[1]
    assert "⟦U+009B⟧2J⟦U+202E⟧" in said
    assert not {"\u009b", "\u202e"} & set(said)
