"""What a rule demands is frozen with the request that it asks."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from agents.approvals.ask import Request, ask
from agents.models import Approval, Policy
from agents.pure.terms import Demand, Step, Terms
from checkpoints.access import Reason, unscoped
from checkpoints.models import AuditEvent
from tests.agents.waiting import GOOD, book, make_calls, make_run, make_waiting
from tests.conftest import as_owner

pytestmark = pytest.mark.django_db(transaction=True)

STRICT = Terms(
    approvers=2,
    exclude=("starter",),
    deadline=3600,
    escalation=(Step(after=60, priority=3), Step(after=600, priority=9)),
    grace=7,
)


@pytest.fixture(autouse=True)
def everything():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def request_under(make_thread, alice):
    """Asks about one booking, as a rule of a stored policy demands it."""

    def request_under(**more) -> Approval:
        run = make_run(make_thread(owner=alice), alice)
        (row,) = make_calls(run, ("book", GOOD))
        with as_owner():
            policy = Policy.objects.create(
                workspace_id=run.workspace_id, version=4, rules=[]
            )
        demand = Demand(
            STRICT, "large", policy.pk, policy.version, "r1", risk="critical", **more
        )
        with transaction.atomic():
            ask(run, [Request(row, book, dict(GOOD), demand)])
        return Approval.objects.get()

    return request_under


def test_a_request_keeps_the_terms_of_the_rule_that_asks(request_under):
    asked = request_under()
    assert Terms.of(asked.terms) == STRICT
    assert (asked.approvers, asked.rule, asked.risk) == (2, "large", "critical")
    assert asked.policy is not None
    assert asked.policy.version == 4
    assert (asked.level, asked.priority) == (0, 0)
    first = asked.due_at - timedelta(seconds=3600)
    assert asked.next_step_at == first + timedelta(seconds=60)
    assert abs(first - asked.asked_at) < timedelta(seconds=30)
    told = AuditEvent.objects.get(action="ask").detail
    assert told["policy"] == str(asked.policy_id)
    assert (told["policy_version"], told["rule"]) == (4, "r1")


def test_what_is_escalated_at_once_waits_for_the_second_step(request_under):
    asked = request_under(escalated=True)
    assert (asked.level, asked.priority) == (1, 3)
    assert asked.due_at - asked.next_step_at == timedelta(seconds=3000)


@pytest.mark.parametrize("call", ["book", "ask_traveller"])
def test_without_a_policy_a_decision_can_be_taken_back_but_an_answer_cannot(
    make_thread, alice, settings, call
):
    settings.APPROVAL_GRACE_SECONDS = 5
    arguments = {"book": GOOD, "ask_traveller": {"question": "Aisle?"}}[call]
    (asked,) = make_waiting(make_thread(owner=alice), alice, (call, arguments))
    assert Terms.of(asked.terms) == Terms(grace=5 if call == "book" else 0)
    assert (asked.policy_id, asked.due_at, asked.next_step_at) == (None, None, None)
    assert (
        asked.rule
        == {"book": "dear", "ask_traveller": "ask_traveller asks a person"}[call]
    )


def test_requests_for_the_same_are_alike_in_all_threads(make_thread, alice):
    dearer = {**GOOD, "price": "1300.00"}
    for calls in ([("book", GOOD), ("book", dearer)], [("book", GOOD)]):
        make_waiting(make_thread(owner=alice), alice, *calls)
    numbered = Approval.objects.order_by("number").values_list("alike", flat=True)
    one, other, same = numbered
    assert None not in (one, other)
    assert one == same != other


def test_what_is_in_doubt_is_asked_on_the_terms_of_the_first_time(request_under):
    asked = request_under()
    call, was = asked.call, asked.due_at
    with transaction.atomic():
        ask(asked.run, [Request(call, book, dict(GOOD), in_doubt="Broke")])
    asked.refresh_from_db()
    assert (asked.kind, asked.revision, asked.approvers) == ("unknown", 2, 2)
    assert Terms.of(asked.terms) == STRICT
    assert (asked.risk, asked.policy is not None) == ("critical", True)
    assert asked.due_at > was
