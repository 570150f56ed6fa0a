"""The panel of working memory: what the agent keeps in mind at each step, and what is new."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from agents.pages.thread.memory import MOST
from agents.tools import WORKING_MEMORY, ToolContext
from checkpoints.access import Reason
from checkpoints.models import Branch, Checkpoint
from tests.pages.conftest import append, result
from tests.pages.test_thread_page import text

TOOLS = {tool.name: tool for tool in WORKING_MEMORY}
STATE: dict[str, Any] = {
    "_schema": 1,
    "messages": [{"id": "m1", "role": "user", "content": "A trip"}],
    "goal": "A trip",
    "plan": [],
    "facts": {},
    "decisions": [],
    "todos": [],
    "vars": {},
}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("remember_fact", {"name": "fare", "value": "1200.00"}),
    (
        "update_plan",
        {
            "steps": [
                {"step": "Look", "status": "done", "result": "2 found"},
                {"step": "Book"},
            ]
        },
    ),
    ("record_decision", {"decision": "TP 209", "reason": "nonstop"}),
    ("remember_fact", {"name": "fare", "value": "1500.00"}),
    ("add_todo", {"item": "Ask <b>Helen</b>\u202e"}),
    ("forget_fact", {"name": "fare"}),
]


@pytest.fixture
def kept(make_thread, alice, history) -> Branch:
    """A thread whose steps are those calls, one each."""
    branch: Branch = make_thread(owner=alice, state=STATE)
    for name, arguments in CALLS:
        context = ToolContext(history(branch).state_at(branch.head_step))
        TOOLS[name].execute(arguments, key="k", context=context)
        branch = append(branch, result(name, "ok", *context.ops))
    return branch


@pytest.fixture
def panel(browser, alice, kept):
    """The panel at a step, as somebody reads it; nothing where there is none."""

    def panel(step: int, by: Any = alice, **asked: str) -> str:
        at = Checkpoint.objects.unscoped(Reason.TEST).get(branch=kept, step=step)
        place = f"/threads/{kept.thread_id}/at/{at.pk}/"
        page = text(browser(by).get(place, {"tab": "state", **asked}))
        section = page.partition('id="memory"')[2].partition("</section>")[0]
        said = html.unescape(re.sub(r"<[^>]*>", " ", section.partition(">")[2]))
        return " ".join(said.split())

    return panel


def test_it_says_what_is_known_and_what_this_step_did(panel):
    assert "Goal A trip set at step 0" in panel(0)
    assert "new" not in panel(0)  # everything is, at the first
    assert "Facts fare 1200.00 new set at step 1" in panel(1)
    assert "Facts fare 1200.00 set at step 1" in panel(2)
    assert "Facts fare 1500.00 changed set at step 4" in panel(4)


def test_a_plan_says_how_far_it_is(panel):
    assert (
        "Plan 1 of 2 done done: Look 2 found new set at step 2"
        " to be done: Book new set at step 2"
    ) in panel(2)


def test_a_decision_stands_with_its_reason(panel):
    assert "Decisions TP 209 nonstop new set at step 3" in panel(3)


def test_what_is_forgotten_is_shown_once_more(panel):
    assert "Facts fare 1500.00 gone with this step" in panel(6)
    assert "fare" not in panel(6).replace("fare 1500.00 gone", "")


def test_what_an_agent_wrote_is_text(panel):
    said = panel(5)
    assert "To do to be done: Ask <b>Helen</b>" in said
    assert "\u202e" not in said


def test_who_searches_sees_what_was_found_and_no_panel(panel):
    assert panel(3, q="nonstop") == ""


def test_a_state_without_memory_has_no_panel(browser, alice, make_thread):
    branch = make_thread(owner=alice, state={"_schema": 1, "messages": []})
    page = text(browser(alice).get(f"/threads/{branch.thread_id}/", {"tab": "state"}))
    assert 'id="memory"' not in page


def test_what_a_step_empties_is_cut_too(browser, alice, make_thread):
    plan = [{"step": str(n), "status": "done"} for n in range(MOST + 3)]
    branch = make_thread(owner=alice, state={**STATE, "plan": plan})
    append(branch, result("look", "ok", ["set", "/plan", plan[:2]]))
    page = text(browser(alice).get(f"/threads/{branch.thread_id}/", {"tab": "state"}))
    section = page.partition('id="memory"')[2].partition("</section>")[0]
    assert "2 of 2 done" in section
    assert section.count("gone with this step") == MOST


def test_many_facts_are_cut_and_counted(browser, alice, make_thread):
    facts = {f"f{n}": n for n in range(MOST + 3)}
    branch = make_thread(owner=alice, state={**STATE, "facts": facts})
    page = text(browser(alice).get(f"/threads/{branch.thread_id}/", {"tab": "state"}))
    section = page.partition('id="memory"')[2].partition("</section>")[0]
    assert "3 earlier ones" in section
    assert section.count("<b hx-ignore>") == MOST
