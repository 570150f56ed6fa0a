"""What docs/ shows a newcomer runs as it stands there, and does what the page says."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from decimal import Decimal
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from agents.approvals import decide
from agents.models import Run
from agents.runs import start
from agents.tools import Agent, registry
from checkpoints.access import Role
from tests.conftest import as_owner
from tests.pages_code import run_page
from tests.workers.conftest import kinds, pending
from tests.workers.desk.written import Shop

pytestmark = pytest.mark.django_db(transaction=True)


class WholeShop(Shop):
    """What the pages' own tools ask of the reader's module, beside the desk's."""

    def find_payment(self, key: str) -> None:
        return None

    def pay(self, amount: Decimal, *, key: str) -> dict[str, str]:
        return {"paid": str(amount)}

    def quote(self, flight: str) -> SimpleNamespace | None:
        return SimpleNamespace(price=Decimal(1500), seats=3)

    def book(self, *what: Any, key: str) -> dict[str, str]:
        return {"booked": str(what[0])}

    def search(self, query: str) -> SimpleNamespace:
        return SimpleNamespace(price="0.25", hits=[f"all about {query}"])

    def charge(self, amount: Decimal, *, key: str, password: str) -> dict[str, str]:
        return {"charged": str(amount)}

    def report(self, month: str) -> str:
        return f"{month}: all well."


@pytest.fixture
def page(monkeypatch) -> Callable[..., ModuleType]:
    """Runs a page's code; what it registers is forgotten after the test."""
    monkeypatch.setattr(registry, "_agents", dict(registry._agents))
    monkeypatch.setitem(sys.modules, "shop", WholeShop("shop"))

    def page(name: str, **more: Any) -> ModuleType:
        for known in ("support", "hello", "reconciler"):  # the desk has this page, too
            registry._agents.pop(known, None)
        return run_page(name, **more)

    return page


@pytest.fixture
def run(server, alice, work) -> Callable[..., Run]:
    """Has an agent work on a message, with these calls of its model, then an answer."""

    def run(agent: str, *calls: tuple[str, dict[str, Any]], waits: bool = False) -> Run:
        for number, (tool, arguments) in enumerate(calls):
            server.will_call(f"c{number}", tool, **arguments)
        if not waits:
            server.will_say("Done.")
        made = start.start_run(agent=agent, by=alice, message=f"Do it, {agent}.")
        work()
        made.refresh_from_db()
        return made

    return run


def told(server) -> str:
    """What the model was last told of a call."""
    return str(server.requests[-1]["messages"][-1]["content"])


def test_the_smallest_agent_answers(page, run):
    page("agents.md")
    made = run("hello")
    assert made.status == "succeeded"
    assert kinds(made) == ["input", "model"]


def test_an_agent_with_tools_looks_pays_a_little_and_asks_about_more(
    page, run, server, bob, work
):
    page("agents.md")
    made = run(
        "support",
        ("look_up", {"order": "A-1"}),
        ("pay_back", {"order": "A-1", "amount": "20"}),
        ("pay_back", {"order": "A-2", "amount": "250"}),
        waits=True,
    )
    (approval,) = pending(made)
    assert [each["body"]["amount"] for each in server.ledger("refunds")] == ["20"]
    assert approval.rule == "over $100"
    server.will_say("Both are paid back.")
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    made.refresh_from_db()
    assert made.status == "succeeded"
    assert len(server.ledger("refunds")) == 2


def test_the_smallest_tool_is_called(page, run, server):
    page("tools.md")
    assert run("adder", ("add", {"a": 2, "b": 3})).status == "succeeded"
    assert told(server) == "5"


@pytest.mark.parametrize(
    ("name", "arguments", "came"),
    [
        ("pay_back", {"order": "A-1", "amount": "0"}, "Nothing is paid back"),
        ("search", {"query": "trains"}, '["all about trains"]'),
        ("fetch_report", {"month": "2026-11"}, "2026-11: all well."),
    ],
)
def test_each_tool_of_the_page_does_what_it_says(
    page, run, server, name, arguments, came
):
    code = page("tools.md")
    registry.register(Agent("taught", model="scripted", tools=[getattr(code, name)]))
    made = run("taught", (name, arguments))
    assert made.status == "succeeded"
    assert came in told(server)
    assert made.cost in (None, Decimal("0.25"))


def test_a_tool_reads_and_changes_working_memory_with_its_result(
    page, run, server, history
):
    code = page("tools.md")
    registry.register(Agent("taught", model="scripted", tools=[code.count]))
    made = run("taught", ("count", {"what": "sheep"}), ("count", {"what": "sheep"}))
    assert told(server) == "2"
    made.branch.refresh_from_db()
    read = history(made.branch)
    seen = [read.state_at(step)["vars"] for step in range(made.branch.head_step + 1)]
    assert seen == [{}, {}, {"sheep": 1}, {"sheep": 1}, {"sheep": 2}, {"sheep": 2}]


def test_tools_with_effects_ask_with_their_guard_and_preview(page, run, server):
    code = page("tools.md")
    asks = [code.pay, code.book_flight, code.charge]
    registry.register(Agent("taught", model="scripted", tools=asks))
    booked = {"flight": "TP 209", "passenger": "Marsh", "price": "1200"}
    made = run("taught", ("book_flight", booked), waits=True)
    (approval,) = pending(made)
    assert approval.call.tool == "book_flight"
    assert code.book_flight.reversible == "for 24 hours"
    assert not server.ledger()


def test_the_policy_lets_small_refunds_go_and_asks_about_the_rest(
    page, run, server, join
):
    page("agents.md")
    ada = join("ada", Role.ADMIN, can_approve=True)
    with as_owner():
        page_of_policies = run_page("policies.md", given={"ada": ada})
    assert page_of_policies.policy.version == 1
    page("agents.md")
    made = run(
        "support",
        ("pay_back", {"order": "A-1", "amount": "40"}),
        ("pay_back", {"order": "A-2", "amount": "60"}),
        waits=True,
    )
    assert [each["body"]["amount"] for each in server.ledger("refunds")] == ["40"]
    (approval,) = pending(made)
    assert approval.rule == "Other refunds"


def test_an_agent_remembers_beyond_its_thread(page, run, server, alice, bob):
    page("memory.md", given={"alice": alice, "bob": bob})
    seat = {"scope": "user", "namespace": ["travellers"], "key": "seat"}
    run("concierge", ("memory_put", {**seat, "value": "aisle"}))
    server.reset()
    made = run("concierge", ("memory_get", seat))
    assert made.status == "succeeded"
    assert json.loads(told(server))["value"] == "aisle"


def test_an_agent_keeps_what_it_finds_in_working_memory(page, run, history):
    page("working-memory.md")
    made = run("notetaker", ("remember_fact", {"name": "seat", "value": "aisle"}))
    made.branch.refresh_from_db()
    state = history(made.branch).state_at(made.branch.head_step)
    assert state["facts"] == {"seat": "aisle"}


def test_an_agent_works_on_files_of_its_own(page, run, server):
    page("environment.md")
    run(
        "editor",
        ("write_file", {"path": "a.md", "content": "three short words"}),
        ("read_file", {"path": "a.md"}),
    )
    assert "three short words" in told(server)


def test_a_question_with_a_form_waits_for_its_answer(page, run, server, bob, work):
    code = page("approvals.md")
    registry.register(Agent("taught", model="scripted", tools=[code.ask_seat]))
    made = run("taught", ("ask_seat", {"flight": "TP 209"}), waits=True)
    (approval,) = pending(made)
    answer = {"row": 7, "letter": "C", "surcharge": "12.50"}
    server.will_say("Row 7.")
    decide.respond(approval, seen=approval.as_shown(), by=bob, response=answer)
    work()
    assert json.loads(told(server)) == answer
