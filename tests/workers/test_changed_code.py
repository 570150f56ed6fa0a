"""A run that is taken on by other code than it began with: who did what stays true."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.approvals import decide
from agents.models import AgentVersion, Approval, Run
from agents.runs import start
from agents.runs.claim import claim
from agents.runs.version import go_on_as_here
from checkpoints.errors import Fenced
from checkpoints.ids import short
from checkpoints.models import Branch, Checkpoint
from tests.conftest import as_owner
from tests.workers.conftest import pending
from tests.workers.desk.agents import book, desk, look, steady

pytestmark = pytest.mark.django_db(transaction=True)


def took(run: Run) -> list[tuple[str, str]]:
    """Each step's kind, and the version of the agent that it names."""
    names = {version.pk: str(version) for version in AgentVersion.objects.all()}
    steps = Checkpoint.objects.filter(branch=run.branch_id, run=run.pk)
    kinds = steps.order_by("step").values_list("kind", "agent_version")
    return [(kind, names[version]) for kind, version in kinds if version]


def panel(person, run: Run, kind: str) -> str:
    """The page of the run's last step of that kind."""
    step = Checkpoint.objects.filter(branch=run.branch_id, kind=kind).latest("step")
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=person.user_id))
    answer = client.get(f"/threads/{run.thread_id}/at/{step.pk}/")
    return " ".join(answer.content.decode().split())


@pytest.fixture
def waiting(begin, server, work) -> Run:
    """A run that waits for a person to let it book a hotel."""
    server.will_call("look", "look", what="a hotel")
    server.will_call("book", "book", item="hotel", price="2000")
    run = begin("A hotel, please.")
    work()
    return run


def approve(run: Run, by) -> None:
    (asked,) = pending(run)
    decide.approve(asked, seen=asked.as_shown(), by=by)


def test_the_steps_of_other_code_name_its_version_and_the_decision_holds(
    waiting, deploy, work, server, alice, bob
):
    deploy(desk, system="You book, and say so.", tools=[look, book])
    approve(waiting, bob)
    server.will_say("Booked.")
    work()
    waiting.refresh_from_db()
    assert waiting.status == "succeeded"
    assert took(waiting) == [
        ("model", "test-desk v1"),
        ("tool", "test-desk v1"),
        ("model", "test-desk v1"),
        ("interrupt", "test-desk v1"),
        ("decision", "test-desk v2"),
        ("resume", "test-desk v2"),
        ("tool", "test-desk v2"),
        ("model", "test-desk v2"),
    ]
    assert str(waiting.agent_version) == "test-desk v2"
    assert Approval.objects.get(run=waiting).revision == 1  # nobody was asked again
    assert len(server.ledger("bookings")) == 1
    assert f"{short(waiting.pk)}, test-desk v1" in panel(alice, waiting, "interrupt")
    assert f"{short(waiting.pk)}, test-desk v2" in panel(alice, waiting, "resume")


def test_code_that_is_as_it_was_makes_no_version(waiting, deploy, work, server, bob):
    deploy(desk)
    approve(waiting, bob)
    server.will_say("Booked.")
    work()
    assert {version for _, version in took(waiting)} == {"test-desk v1"}
    assert AgentVersion.objects.count() == 1


def test_an_agent_that_goes_on_as_it_was_names_its_version_too(
    deploy, work, server, alice
):
    run = start.start_run(agent=steady.name, message="Hello.", by=alice)
    deploy(steady, system="You answer in verse.")
    server.will_say("Hello.")
    work()
    assert took(run) == [("model", "test-steady v2")]


def test_a_worker_that_lost_the_run_does_not_say_whose_it_is(waiting, deploy, bob):
    approve(waiting, bob)
    deploy(desk, system="You book, and say so.")
    held = claim(waiting.pk, "slow")
    assert held is not None
    Branch.objects.filter(pk=waiting.branch_id).update(fence=held.branch.fence + 1)
    with pytest.raises(Fenced):
        go_on_as_here(held)
    waiting.refresh_from_db()
    assert str(waiting.agent_version) == "test-desk v1"
