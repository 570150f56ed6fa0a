"""Policies as they are written, saved, tried on a call, and on the calls of last weeks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection

from agents.approvals.decide import approve
from agents.errors import InvalidPolicy, NotEligible, Outdated
from agents.models import Agent, Policy, PolicyUse, ToolCall
from agents.policies import stored
from agents.policies.dry_run import dry_run
from agents.policies.judge import Judge
from agents.policies.test import test_call as try_call
from agents.pure.policies import Proposal, decide, problems, rules_of
from checkpoints.access import Reason, Role, UserPrincipal, unscoped
from checkpoints.models import AuditEvent, Group, Thread
from tests.agents.waiting import (
    GOOD,
    book,
    make_calls,
    make_run,
    make_waiting,
    opener_for,
)
from tests.conftest import as_owner

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "policies.md"
EXAMPLES = re.findall(
    r"<!-- example: valid -->\n```json\n(.*?)```", PAGE.read_text(), re.DOTALL
)
ALL: dict[str, Any] = {"id": "a", "name": "All", "outcome": "require"}
SUM = {"sum": "/price", "over_hours": 24, "op": "gt", "value": 5000}


@pytest.fixture(autouse=True)
def everything():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def admin(join) -> UserPrincipal:
    return join("ada", Role.ADMIN)


@pytest.fixture
def save(admin) -> Callable[..., Policy]:
    def save(*rules: dict[str, Any], after: int = 0, **more: Any) -> Policy:
        agent, by = more.pop("agent", None), more.pop("by", admin)
        with as_owner():
            return stored.save(
                by, agent, list(rules), more.pop("note", ""), after_version=after
            )

    return save


@pytest.fixture
def agent(make_thread, alice) -> Agent:
    """Of the desk, as this workspace knows it."""
    return make_run(make_thread(owner=alice), alice).agent_version.agent


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_of_the_page_are_policies(text):
    assert problems(json.loads(text)) == []
    for rule in rules_of(json.loads(text)):
        assert rule.readable


@pytest.mark.parametrize(
    ("example", "tool", "arguments", "before", "kind", "rule"),
    [
        (0, "refund_order", {"amount": "99.99"}, 0, "auto_approve", "small"),
        (0, "refund_order", {"amount": 1001}, 0, "require", "large"),
        (0, "refund_order", {"amount": 500}, 0, "require", "rest"),
        (0, "refund_order", {}, 0, "require", "large"),
        (1, "refund_order", {"amount": 1000}, 4000, "auto_approve", "rest"),
        (1, "refund_order", {"amount": 1000}, 4001, "require", "budget"),
        (1, "send_mail", {}, 10, "stop_run", "flood"),
        (2, "wire_money", {}, 0, "escalate", "wire"),
    ],
)
def test_the_examples_do_what_the_page_says(
    example, tool, arguments, before, kind, rule
):
    call = Proposal(tool, "high", arguments, asks=False)
    found = decide(
        rules_of(json.loads(EXAMPLES[example])), call, lambda window: Decimal(before)
    )
    assert found.kind == kind
    assert found.rule is not None
    assert found.rule.id == rule


def test_each_change_is_a_version_and_the_newest_counts(save, admin, agent):
    save(ALL, note="At first.")
    save({**ALL, "name": "Everything"}, after=1)
    save({**ALL, "id": "own"}, agent=agent)
    assert [each.version for each in stored.history(admin, None)] == [2, 1]
    found = stored.in_force(admin.workspace_id, agent)
    assert [(rule.id, rule.name) for rule in found.rules] == [
        ("own", "All"),
        ("a", "Everything"),
    ]
    assert [rule.origin.version for rule in found.rules if rule.origin] == [1, 2]
    everyone = stored.in_force(admin.workspace_id, None)
    assert [rule.id for rule in everyone.rules] == ["a"]
    events = AuditEvent.objects.filter(action="policy_save")
    assert [
        event.detail["policy_version"] for event in events.order_by("position")
    ] == [
        1,
        2,
        1,
    ]


def test_who_began_from_an_older_version_saves_nothing(save):
    save(ALL)
    with pytest.raises(Outdated, match="version 1 while you changed version 0"):
        save(ALL)
    assert Policy.objects.count() == 1


def test_only_admins_save(save, alice, auditor):
    for by in (alice, auditor):
        with pytest.raises(NotEligible):
            save(ALL, by=by)
    assert not Policy.objects.exists()


def test_what_is_no_policy_is_not_saved_and_says_where(save):
    with pytest.raises(InvalidPolicy, match="rule 2, outcome") as raised:
        save(ALL, {"id": "b", "name": "B", "outcome": "perhaps"})
    assert [(p.index, p.field) for p in raised.value.problems] == [(1, "outcome")]


def test_groups_are_of_the_workspace(save, workspace, other):
    with as_owner():
        ours = Group.objects.create(workspace=workspace, name="Finance")
        theirs = Group.objects.create(workspace_id=other.workspace_id, name="Finance")
    save({**ALL, "terms": {"groups": [str(ours.pk)]}})
    with pytest.raises(InvalidPolicy, match="no such group"):
        save({**ALL, "terms": {"groups": [str(theirs.pk)]}}, after=1)
    steps = [{"after": 60, "group": str(theirs.pk)}]
    with pytest.raises(InvalidPolicy, match="no such group"):
        save({**ALL, "terms": {"escalation": steps}}, after=1)


def test_policies_of_another_workspace_do_not_count(save, other, agent):
    save(ALL, by=other)
    assert stored.in_force(agent.workspace_id, agent).rules == ()


def test_what_was_stored_and_is_no_rule_asks_a_person(admin, agent):
    with as_owner():
        Policy.objects.create(
            workspace_id=admin.workspace_id, version=1, rules=[{"outcome": "allow"}]
        )
    found = try_call(admin, agent, "book", {**GOOD, "price": "1"})
    assert found.kind == "require"
    assert "cannot be read" in found.why


# Tried


def test_a_call_is_tried_and_nothing_is_written_but_that_it_was(save, admin, agent):
    save({**ALL, "when": SUM}, {"id": "b", "name": "B", "outcome": "auto_approve"})
    found = try_call(admin, agent, "book", dict(GOOD))
    assert (found.kind, found.rule and found.rule.id) == ("auto_approve", "b")
    assert try_call(admin, agent, "book", {**GOOD, "price": "5001"}).kind == "require"
    assert not PolicyUse.objects.exists()
    draft = [{"id": "d", "name": "D", "outcome": "auto_reject", "message": "No."}]
    drawn = try_call(admin, agent, "book", dict(GOOD), draft=draft)
    assert (drawn.kind, drawn.message) == ("auto_reject", "No.")
    opened = AuditEvent.objects.filter(action="open", purpose="test a call")
    assert opened.count() == 3


def test_a_try_sees_what_was_let_go_before(save, admin, agent, make_thread, alice):
    save({**ALL, "when": SUM}, {"id": "b", "name": "B", "outcome": "auto_approve"})
    run = make_run(make_thread(owner=alice), alice)
    arguments = {**GOOD, "price": "4000"}
    (row,) = make_calls(run, ("book", arguments))
    judge = Judge(run, stored.in_force(run.workspace_id, agent), opener_for(run))
    assert judge.judge(row, book, arguments).kind == "auto_approve"
    assert try_call(admin, agent, "book", dict(GOOD)).kind == "require"


# Dry runs


@pytest.fixture
def past(make_thread, alice, bob) -> None:
    """Two bookings that were asked about, and three that were not."""
    for price in ("1200.00", "3000.00"):
        asked = {**GOOD, "price": price}
        (approval,) = make_waiting(make_thread(owner=alice), alice, ("book", asked))
        approve(approval, seen=approval.as_shown(), by=bob)
    for _ in range(3):
        run = make_run(make_thread(owner=alice), alice)
        make_calls(run, ("book", {**GOOD, "price": "900.00"}))
    calls = ToolCall.objects.filter(status="proposed")
    calls.update(status="succeeded")


def rows(found: Any) -> dict[tuple[str, str], int]:
    return {(row.was, row.would_be): row.count for row in found.rows}


@pytest.mark.usefixtures("past")
def test_a_dry_run_says_what_would_change(admin):
    found = dry_run(admin, None, [])
    assert rows(found) == {
        ("require", "require"): 2,
        ("auto_approve", "auto_approve"): 3,
    }
    limit = {"path": "/price", "op": "gt", "value": 2000}
    draft = [
        {**ALL, "when": limit},
        {"id": "b", "name": "B", "outcome": "auto_approve"},
    ]
    found = dry_run(admin, None, draft)
    assert rows(found) == {
        ("require", "require"): 1,
        ("require", "auto_approve"): 1,
        ("auto_approve", "auto_approve"): 3,
    }
    assert found.rows[0].changes
    assert len(found.rows[0].samples) == 1
    assert (found.opened, found.more, found.unreadable) == (5, False, 0)
    assert AuditEvent.objects.filter(purpose="dry run of a policy").count() == 2
    assert not Policy.objects.exists()


@pytest.mark.usefixtures("past")
def test_a_dry_run_counts_and_sums_as_it_goes(admin):
    most = {"sum": "/price", "over_hours": 24, "op": "gt", "value": 5000}
    draft = [
        {**ALL, "when": most},
        {"id": "b", "name": "B", "outcome": "auto_approve"},
    ]
    # 1200 + 3000, then 900 three times: the first of them is more than there is room for.
    assert rows(dry_run(admin, None, draft)) == {
        ("require", "auto_approve"): 2,
        ("auto_approve", "require"): 3,
    }


@pytest.mark.usefixtures("past")
def test_a_dry_run_shows_nothing_of_threads_that_one_does_not_see(admin):
    hidden = ToolCall.objects.filter(approval=None)[0].thread_id
    Thread.objects.filter(pk=hidden).update(visibility="private")
    assert dry_run(admin, None, []).opened == 4


def test_a_dry_run_of_what_is_no_policy_says_what_is_wrong(admin):
    with pytest.raises(InvalidPolicy):
        dry_run(admin, None, [{"id": "x"}])


def test_rules_are_written_once(save):
    save(ALL)
    with as_owner(), connection.cursor() as cursor, pytest.raises(DatabaseError):
        cursor.execute(f"UPDATE {Policy._meta.db_table} SET rules = '[]'")  # noqa: S608
