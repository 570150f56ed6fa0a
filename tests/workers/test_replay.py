"""A step saved as a test case, and `manage.py replay`: the code of today against it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.approvals import decide
from agents.debug.replay import Outcome
from agents.debug.replay import replay as replayed
from agents.debug.testcase import save
from agents.errors import BadFile, NoTestCase, TooLarge
from agents.models import Run
from agents.pure.bundles import file, testcase
from agents.runs import start
from agents.runs.edits import ForkEdits
from agents.tools import Agent, Rule, ToolContext, ToolError, never, register, tool
from agents.tools.declare import ask
from checkpoints.models import AuditEvent, Branch, Checkpoint
from checkpoints.pure import ops
from tests.agents.test_bundles import add, change, sealed
from tests.workers.conftest import kinds, pending

pytestmark = pytest.mark.django_db(transaction=True)

MADE: list[str] = []  # effects


@tool(
    effect="external",
    idempotent=True,
    title="Order {what} for {price}",
    approve=Rule("dear", when={"path": "/price", "op": "gt", "value": "100"}),
)
def order(what: str, price: Decimal, *, ctx: ToolContext) -> str:
    """Order something."""
    MADE.append(what)
    ctx.put("facts", what, "ordered")
    return f"{what} comes"


@tool(effect="none", title="Add up")
def add_up(prices: list[int], *, ctx: ToolContext) -> str:
    """Add up."""
    ctx.put("facts", "sum", sum(prices))
    return f"It is {sum(prices)}"


@ask(title="{question}")
def ask_whom(question: str) -> None:
    """Ask whom."""


@tool(effect="read", approve=never)
def look_up(what: str) -> str:
    """Look something up."""
    if what == "nothing":
        raise ToolError("There is no such thing.")
    MADE.append(f"looked for {what}")
    return f"{what}: in stock"


CLERK = register(
    Agent(
        "replay-clerk",
        model="scripted",
        system="You order.\nBe quick.",
        tools=[order, add_up, ask_whom, look_up],
    )
)


@pytest.fixture
def go(server, alice, work) -> Callable[..., Branch]:
    """Runs the clerk until it has finished, or waits."""
    MADE.clear()

    def go(message: str = "Order it.") -> Branch:
        run = start.start_run(agent="replay-clerk", message=message, by=alice)
        work()
        return Branch.objects.select_related("thread").get(pk=run.branch_id)

    return go


@pytest.fixture
def at_work(go, server, work, bob) -> Branch:
    """Looks up, adds up, orders with an approval and without, asks, and answers."""
    server.will_call_all(
        ("c1", "look_up", {"what": "paper"}), ("c2", "add_up", {"prices": [40, 2]})
    )
    server.will_call("c3", "look_up", what="nothing")
    server.will_call_all(
        ("c4", "order", {"what": "paper", "price": "120"}),
        ("c5", "order", {"what": "pens", "price": "12"}),
        ("c6", "order", {"what": "gold", "price": "1200"}),
    )
    server.will_call("c7", "ask_whom", question="For whom?")
    server.will_call("c8", "nobody_knows", x=1)
    server.will_call("c9", "order", what="ink")
    server.will_say("All ordered.")
    branch = go()
    run = Run.objects.get(branch=branch)
    paper, gold = pending(run)
    edited = {"what": "A4 paper", "price": "110"}
    decide.edit(paper, seen=paper.as_shown(), by=bob, arguments=edited)
    decide.reject(gold, seen=gold.as_shown(), by=bob, reason="too dear")
    work()
    (question,) = pending(run)
    decide.respond(question, seen=question.as_shown(), by=bob, response="for Mira")
    work()
    assert MADE == ["looked for paper", "pens", "A4 paper"]
    MADE.clear()
    branch.refresh_from_db()
    return branch


def load(text: str) -> testcase.TestCase:
    return testcase.parse(file.read(text.encode(), format=file.TEST_CASE).content)


def again(text: str, **changed: Any) -> Outcome:
    """With the clerk as it is, but for what is changed."""
    return replayed(load(text), replace(CLERK, **changed))


def with_tool(name: str, function: Any) -> list[Any]:
    return [function if each.name == name else each for each in CLERK.tools]


def test_the_same_code_agrees_from_every_step(at_work, alice):
    for step in range(at_work.head_step):
        outcome = again(save(at_work, step=step, by=alice))
        assert outcome.divergence is None, (step, outcome.divergence)
        assert outcome.steps == at_work.head_step - step
    assert MADE == []


def test_nothing_is_asked_of_the_database_or_of_a_server(at_work, alice, server):
    case = load(save(at_work, step=0, by=alice))
    asked = len(server.requests)
    with CaptureQueriesContext(connection) as queries:
        assert replayed(case, CLERK).divergence is None
    assert not queries.captured_queries
    assert len(server.requests) == asked


def test_another_result_of_code_without_effects_is_shown(at_work, alice):
    @tool(effect="none", title="Add up", name="add_up")
    def add_wrong(prices: list[int], *, ctx: ToolContext) -> str:
        """Add up."""
        ctx.put("facts", "sum", sum(prices))
        return f"It is {max(prices)}"

    outcome = again(
        save(at_work, step=0, by=alice), tools=with_tool("add_up", add_wrong)
    )
    found = outcome.divergence
    assert found is not None
    assert (found.step, outcome.steps) == (3, 2)
    assert found.expected == "tool add_up"
    assert "-It is 42" in found.diff
    assert "+It is 40" in found.diff


def test_another_change_of_the_state_is_shown(at_work, alice):
    @tool(effect="none", title="Add up", name="add_up")
    def add_elsewhere(prices: list[int], *, ctx: ToolContext) -> str:
        """Add up."""
        ctx.put("vars", "sum", sum(prices))
        return f"It is {sum(prices)}"

    outcome = again(
        save(at_work, step=0, by=alice), tools=with_tool("add_up", add_elsewhere)
    )
    assert outcome.divergence is not None
    assert '-["put","/facts","sum",42]' in outcome.divergence.diff


def test_a_rule_that_asks_where_it_did_not_is_found(at_work, alice):
    strict = replace(order, rule=Rule("always"))
    outcome = again(save(at_work, step=0, by=alice), tools=with_tool("order", strict))
    found = outcome.divergence
    assert found is not None
    assert found.expected == "tool order"  # the pens
    assert found.came == "people are asked"


def test_a_rule_that_asks_no_more_is_found(at_work, alice):
    lax = replace(order, rule=None)
    outcome = again(save(at_work, step=0, by=alice), tools=with_tool("order", lax))
    found = outcome.divergence
    assert found is not None
    assert "of which no result is recorded here" in found.came


def test_a_tool_that_is_gone_is_found(at_work, alice):
    outcome = again(save(at_work, step=0, by=alice), tools=[order, add_up, ask_whom])
    found = outcome.divergence
    assert found is not None
    assert found.step == 2
    assert found.came == "tool of no registered name, unknown_tool"


def test_arguments_that_fit_no_more_are_found(at_work, alice):
    @tool(effect="read", approve=never, name="look_up")
    def look_up_there(what: str, where: str) -> str:
        """Look something up."""
        return ""

    outcome = again(
        save(at_work, step=0, by=alice), tools=with_tool("look_up", look_up_there)
    )
    found = outcome.divergence
    assert found is not None
    assert found.came == "tool look_up, arguments_do_not_fit"


def test_another_prompt_is_noted_and_agrees(at_work, alice):
    outcome = again(
        save(at_work, step=0, by=alice), system="You order.\nBe slow.", temperature=1
    )
    assert outcome.divergence is None
    prompt, temperature = outcome.notes
    assert "-Be quick." in prompt
    assert "+Be slow." in prompt
    assert temperature == "params.temperature was 0, is 1."


@pytest.mark.parametrize(
    ("calls", "ends"), [("recorded", "interrupt"), ("simulate", "model")]
)
def test_what_a_fork_asks_or_pretends_agrees(calls, ends, at_work, alice, server, work):
    source = Checkpoint.objects.select_related("branch", "thread").get(
        branch=at_work, step=5
    )
    server.will_call("c9", "order", what="pens", price="12")
    server.will_say("Done.")
    made = start.fork_run(
        source, edits=ForkEdits(), name="again", by=alice, calls=calls
    )
    work()
    made = Branch.objects.select_related("thread").get(pk=made.pk)
    assert kinds(Run.objects.get(branch=made))[-1] == ends
    for step in (0, 5, 6):
        outcome = again(save(made, step=step, by=alice))
        assert outcome.divergence is None, outcome.divergence
    assert MADE == []


def test_a_model_that_failed_fails_again(go, server, alice):
    server.fault("overflow", times=None)
    branch = go()
    outcome = again(save(branch, step=0, by=alice))
    assert outcome.divergence is None
    assert outcome.steps == 1


def test_what_is_too_large_is_refused_before_it_is_in_memory(at_work, alice):
    add(at_work, *(ops.put("/facts", f"{n}", f"{n}" * 5_000_000) for n in range(4)))
    for step in (0, at_work.head_step - 1):
        with pytest.raises(TooLarge, match="A value that is kept as a blob"):
            save(at_work, step=step, by=alice)


def test_a_large_text_goes_with_its_test_case(at_work, alice):
    add(at_work, ops.put("/facts", "large", "x" * 100_000))
    for step in (0, at_work.head_step - 1):
        assert "x" * 100_000 in save(at_work, step=step, by=alice)


def test_saving_is_recorded(at_work, alice):
    save(at_work, step=2, by=alice)
    event = AuditEvent.objects.get(action="export")
    assert (event.object_id, event.purpose) == (at_work.thread_id, "test case")
    assert event.detail["step"] == 2


def test_what_is_no_test_case_says_why(at_work, alice, make_thread):
    with pytest.raises(NoTestCase, match="Nothing follows step"):
        save(at_work, step=at_work.head_step, by=alice)
    with pytest.raises(NoTestCase, match="No agent has worked"):
        save(make_thread(owner=alice), step=0, by=alice)


# By command


def run(path: Path, **options: Any) -> tuple[int, str, str]:
    out = io.StringIO()
    try:
        call_command("replay", str(path), stdout=out, **options)
    except CommandError as wrong:
        return wrong.returncode, out.getvalue(), str(wrong)
    except SystemExit as ended:
        return int(str(ended.code)), out.getvalue(), ""
    return 0, out.getvalue(), ""


@pytest.fixture
def saved(at_work, alice, tmp_path) -> Path:
    path: Path = tmp_path / "case.json"
    path.write_text(save(at_work, step=0, by=alice))
    return path


def test_the_command_agrees(saved):
    code, out, err = run(saved)
    assert (code, err) == (0, "")
    assert "agreed" in out
    code, out, _ = run(saved, json=True)
    assert code == 0
    assert json.loads(out)["agreed"] is True


def test_the_command_says_where_it_is_another(saved):
    found = json.loads(saved.read_text())
    place = next(
        n for n, s in enumerate(found["content"]["steps"]) if s["name"] == "add_up"
    )
    was = found["content"]["steps"][place]["ops"]
    was[-1][2]["content"] = "It is 43\u202e"
    saved.write_text(sealed(found))
    code, out, _ = run(saved)
    assert code == 1
    assert "step 3 is another one, after 2 that agreed" in out
    assert "-It is 43⟦U+202E⟧" in out
    assert "+It is 42" in out
    code, out, _ = run(saved, json=True)
    assert code == 1
    assert json.loads(out)["divergence"]["step"] == 3


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("content.agent", "nobody", "No agent is called 'nobody'"),
        ("content.steps", [], "no step of the agent's"),
        ("content.steps.0.kind", "magic", "step 0 of the file: kind"),
        ("content.steps.0.ops", [["explode"]], "step 0 of the file: ops"),
        ("content.steps.0.ops", [], "appends its reply"),
        ("content.start", 7, "content: start"),
        ("format", "holdpoint bundle", 'whose "format" is'),
        ("version", 9, "reads up to 1"),
        ("content.agent", "\u009b2J", "'\\x9b2J'"),
        ("content.\u009b2J", 1, "⟦U+009B⟧2J"),
    ],
)
def test_the_command_refuses_what_is_no_test_case(saved, path, value, problem):
    saved.write_text(sealed(change(json.loads(saved.read_text()), path, value)))
    code, out, err = run(saved)
    assert (code, out) == (2, "")
    assert problem in err


def test_the_command_refuses_what_was_changed_and_what_is_not_there(saved):
    saved.write_text(saved.read_text().replace("It is 42", "It is 43"))
    assert "changed or damaged" in run(saved)[2]
    code, _, err = run(saved.parent / "no.json")
    assert code == 2
    assert "cannot be read" in err


def test_a_bundle_is_no_test_case():
    with pytest.raises(BadFile, match="found an object"):
        file.read(b'{"format": "holdpoint bundle"}', format=file.TEST_CASE)
