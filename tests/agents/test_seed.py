"""The demo's past: made by real runs, the same each time, made once."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from agents import errors
from agents.approvals import decide
from agents.demo import seed, stories
from agents.demo.agents import SYSTEM
from agents.models import Approval, Run
from agents.pure.terms import Terms
from agents.runs.edits import ForkEdits
from agents.runs.runner import work
from agents.runs.start import fork_run
from checkpoints import gate
from checkpoints.access import Reason, Role, UserPrincipal, unscoped
from checkpoints.log import hydrate
from checkpoints.models import Branch, Checkpoint, Membership, Thread

# `seed_demo` is a command of the server's: it makes a workspace and people.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.owner]


@pytest.fixture
def demo(capsys):
    """The seeded demo; what the command printed."""
    call_command("seed_demo")
    return capsys.readouterr().out


def principal(login: str) -> UserPrincipal:
    member = Membership.objects.unscoped(Reason.TEST).get(user__username=login)
    return UserPrincipal(
        user_id=member.user_id,
        workspace_id=member.workspace_id,
        role=Role(member.role),
        can_approve=member.can_approve,
        name=login,
    )


def titled(title: str) -> Thread:
    mira = principal("mira")
    threads = list(Thread.objects.for_user(mira))
    opener = gate.admit(mira, purpose="test", threads=threads)
    return next(thread for thread in threads if opener.open(thread, "title") == title)


def main_run(story: stories.Story) -> Run:
    thread = titled(story.title)
    with unscoped(Reason.TEST):
        return Run.objects.get(thread=thread, branch__parent=None)


def counts():
    with unscoped(Reason.TEST):
        return [
            model.objects.count()
            for model in (Thread, Branch, Checkpoint, Run, Approval, Membership)
        ]


def test_four_trips_ended_as_their_stories_say_and_are_made_once(demo, client):
    for person in seed.PEOPLE:
        assert person.login in demo
        assert client.login(username=person.login, password=seed.PASSWORD)
    mira = principal("mira")
    assert mira.can_approve
    assert not principal("omar").can_approve
    assert User.objects.get(username="admin").is_superuser

    assert main_run(stories.FINISHED).status == Run.Status.SUCCEEDED
    assert main_run(stories.WAITING).status == Run.Status.WAITING

    failed = main_run(stories.FAILED)
    assert (failed.status, failed.failed_step) == (Run.Status.FAILED, 20)
    opener = gate.admit(mira, purpose="test", threads=[failed.thread])
    history = hydrate.read(opener, failed.branch)
    kinds = "".join(record.kind[0] for record in history.records)
    assert kinds == "imttmtmtmtmtmttmtmtme"
    assert "JL 57" in history.record(stories.WRONG_TURN).label
    assert "lands in Tokyo on Tue 8 Dec" in opener.open(failed, "error")

    forked = main_run(stories.FORKED)
    branches = list(Branch.objects.for_user(mira).filter(thread=forked.thread))
    opener = gate.admit(mira, purpose="test", threads=[forked.thread])
    names = set(opener.open_all(branches, "name"))
    assert names == {"main", "refundable", "cheapest"}
    runs = Run.objects.for_user(mira).filter(thread=forked.thread)
    assert {run.status for run in runs} == {Run.Status.SUCCEEDED}

    before = counts()
    call_command("seed_demo")
    assert counts() == before


def test_with_the_usual_window_the_past_is_over_and_the_request_that_waits_has_it(
    settings,
):
    settings.APPROVAL_GRACE_SECONDS = 5
    call_command("seed_demo")
    assert settings.APPROVAL_GRACE_SECONDS == 5
    forked = main_run(stories.FORKED)
    mira = principal("mira")
    runs = Run.objects.for_user(mira).filter(thread=forked.thread)
    assert [run.status for run in runs] == [Run.Status.SUCCEEDED] * 3
    (waiting,) = Approval.objects.for_user(mira).pending()
    assert str(waiting) == "APR-2041"
    assert waiting.run_id == main_run(stories.WAITING).pk
    assert Terms.of(waiting.terms).grace == 5


def test_one_request_waits_and_its_approval_finishes_the_trip(demo, llm, settings):
    settings.OPENAI_BASE_URL, settings.OPENAI_API_KEY = llm.base_url, "test"
    settings.HOLDPOINT_DEMO_LEDGER = llm.ledger_url
    mira = principal("mira")
    (approval,) = Approval.objects.for_user(mira).pending()
    opener = gate.admit(mira, purpose="test", threads=[approval.thread])
    assert (
        opener.open(approval.call, "title") == "Book TP 209 for Helen Marsh, $1,200.00"
    )
    assert "UA 65" in opener.open(approval.call, "reason")
    decide.approve(approval, seen=approval.as_shown(), by=mira)
    work(approval.run_id)
    assert main_run(stories.WAITING).status == Run.Status.SUCCEEDED
    (booking,) = llm.ledger("bookings")
    assert booking["key"] == str(approval.call_id)


def test_the_fare_that_rose_meanwhile_is_booked_by_whoever_approves_the_new_one(
    demo, llm, settings
):
    settings.OPENAI_BASE_URL, settings.OPENAI_API_KEY = llm.base_url, "test"
    settings.HOLDPOINT_DEMO_LEDGER = llm.ledger_url
    mira = principal("mira")
    (old,) = Approval.objects.for_user(mira).pending()
    assert old.guard == Approval.Guard.SAME
    call_command("demo_fare")
    decide.approve(old, seen=old.as_shown(), by=mira)
    work(old.run_id)
    assert llm.ledger("bookings") == []
    (new,) = Approval.objects.for_user(mira).pending()
    assert (new.pk, new.guard, new.revision) == (old.pk, Approval.Guard.CHANGED, 2)
    opener = gate.admit(mira, purpose="test", threads=[new.thread])
    assert opener.open(new, "guard_found")["text"].startswith(
        "The fare was $1,200.00 when asked, is now $1,500.00."
    )
    assert ["Charged", "$1,500.00 to the corporate card"] in opener.open(
        new, "preview"
    )["rows"]
    with pytest.raises(errors.Stale):
        decide.approve(old, seen=old.as_shown(), by=mira)
    decide.approve(new, seen=new.as_shown(), by=mira)
    work(new.run_id)
    assert main_run(stories.WAITING).status == Run.Status.SUCCEEDED
    (booking,) = llm.ledger("bookings")
    assert booking["body"]["price"] == "1500.00"


def test_edits_at_step_14_of_the_failed_trip_lead_to_different_places(
    demo, llm, settings
):
    settings.OPENAI_BASE_URL, settings.OPENAI_API_KEY = llm.base_url, "test"
    settings.HOLDPOINT_DEMO_LEDGER = llm.ledger_url
    mira = principal("mira")
    failed = main_run(stories.FAILED)
    before = Checkpoint.objects.for_user(mira).get(branch=failed.branch, step=14)

    def replies(branch: Branch) -> list[str]:
        opener = gate.admit(mira, purpose="test", threads=[failed.thread])
        records = hydrate.read(opener, branch).records
        return [
            record.label
            for record in records
            if record.kind == "model" and record.step > 14
        ]

    def fork(system: str) -> list[str]:
        branch = fork_run(before, edits=ForkEdits(system=system), name="", by=mira)
        work(Run.objects.for_user(mira).get(branch=branch).pk)
        return replies(branch)

    original = replies(failed.branch)
    assert fork(SYSTEM.replace("\n", "\n\n ")) == original
    edited = [
        fork(f"{SYSTEM}\n{more}")
        for more in (
            stories.LESSON,
            "Book premium economy only.",
            "Never exceed $700.",
            "Always ask the traveller first.",
            "Be kind.",
        )
    ]
    assert len({tuple(labels) for labels in [*edited, original]}) == 6
    assert llm.ledger("bookings") == []
