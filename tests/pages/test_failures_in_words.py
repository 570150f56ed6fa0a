"""Every class of failure that our code stores has plain words, and a way on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from agents import errors
from agents.pages.thread.trouble import MEANS, OTHER, means
from agents.runs.execute import CallBroke, CallInDoubt
from checkpoints.errors import CheckpointsError

ROOT = Path(__file__).resolve().parents[2]
# Where runs, calls and requests fail; what makes a failure, and which argument names it.
PARTS = ("approvals", "llm", "policies", "pure", "runs")
MAKERS = {
    "Failure": 0,
    "ModelFailed": 0,
    "Trouble": 0,
    "Refuse": 2,
    "stop": 1,
    "_no_step": 0,  # of an agent's own loop
}
# Of the log's errors, those that no run ends with and no step tells.
NEVER = {
    "checkpoints_error",  # the base
    "fenced",  # its holder stops without a word
    "not_permitted",  # it waits for an owner
    *("not_json", "bad_archive"),  # what people give
    "bad_row",  # what verifying finds, and says itself
    *("bad_token", "token_refused", "too_many_requests"),  # of programs
    *("entry_conflict", "invalid_entry"),  # what a tool answers, and a form
    *("entry_locked", "lock_lost", "no_vectors"),  # what a tool answers
}
WAYS_ON = re.compile(
    r"retry|fork|resume|look where|message can tell|by itself|deploy|an admin|new thread"
    r"|next run",
    re.IGNORECASE,
)
Coded = errors.AgentsError | CheckpointsError


def _below(error: type[Coded]) -> Iterator[type[Coded]]:
    yield error
    for each in error.__subclasses__():
        if each.__module__.partition(".")[0] in ("agents", "checkpoints"):
            yield from _below(each)


def _texts(value: ast.expr, module: object) -> Iterator[str]:
    """What an argument may be: texts, and names of texts."""
    match value:
        case ast.Constant(value=str() as text):
            yield text
        case ast.Name(id=name):
            if isinstance(named := getattr(module, name, None), str):
                yield named
        case ast.IfExp(body=one, orelse=other):
            yield from _texts(one, module)
            yield from _texts(other, module)
        case ast.BoolOp(values=several):
            for each in several:
                yield from _texts(each, module)


def _named(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions that name a class of failure."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            at = MAKERS.get(name)
            if at is not None and len(node.args) > at:
                yield node.args[at]
            for keyword in node.keywords:
                if keyword.arg == "error_class":
                    yield keyword.value
        case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)]):
            if name == "error_class":
                yield node.value


def written() -> set[str]:
    """The classes that the code names where it makes a failure."""
    found: set[str] = set()
    for part in PARTS:
        for path in (ROOT / "agents" / part).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            module = import_module(name.removesuffix(".__init__"))
            for node in ast.walk(ast.parse(path.read_text())):
                for value in _named(node):
                    found.update(_texts(value, module))
    return found - {""}


def raised() -> set[str]:
    """The codes of errors that end a run, or go back to the model as a step."""
    for path in (ROOT / "checkpoints").rglob("*.py"):  # where they are, or are made
        parts = path.relative_to(ROOT).with_suffix("").parts
        if "migrations" not in parts:
            import_module(".".join(parts).removesuffix(".__init__"))
    told = (errors.ToolError, errors.ArgumentsDoNotFit, errors.ResultNotKept)
    kinds: tuple[type[Coded], ...] = (
        *(CheckpointsError, *told, errors.UnknownTool, CallBroke, CallInDoubt),
    )
    return {each.code for kind in kinds for each in _below(kind)} - NEVER


def test_the_code_was_read_well():
    assert {
        *("tool_raised", "tool_timeout", "tool_broke", "outcome_unknown"),
        *("model_error", "context_overflow", "too_many_steps", "repeats_itself"),
        *("rejected_again", "stopped_by_policy", "cancelled", "interrupted"),
        *("thread_full", "internal_error"),
    } <= written()
    assert {"tool_failed", "unknown_tool", "future_schema", "store_full"} <= raised()


def test_every_class_that_can_be_stored_has_words_and_no_other_has():
    assert written() | raised() == set(MEANS)


@pytest.mark.parametrize("text", sorted({*MEANS.values(), OTHER}))
def test_words_are_sentences_with_a_way_on(text):
    assert re.search(r"^[A-Z].*[a-z]\.$", text)
    assert WAYS_ON.search(text)


def test_a_class_of_a_tools_own_has_a_way_on_too():
    assert means("sold_out") == OTHER
    assert means("") == ""
