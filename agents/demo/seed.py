"""What the demo starts with: a workspace, five people, their trips, a handbook, an audit.

They are real runs, made through the services by the real runner. Only the model is
always the scripted one, on a server of its own for as long as this takes: the past must
be the same whatever model is configured. A second call finds everything there; one
that was cut short is gone on with.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID, uuid5

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User

from agents.approvals import decide
from agents.demo import stories
from agents.demo.agents import (
    HANDBOOKS,
    SYSTEM,
    handbook_editor,
    invoice_auditor,
    trip_planner,
)
from agents.demo.model.server import ScriptedServer, Services
from agents.demo.stories import Story
from agents.models import Approval, Run
from agents.runs.edits import ForkEdits
from agents.runs.runner import work
from agents.runs.start import fork_run, start_run
from agents.tools import Agent
from checkpoints.access import Reason, Role, UserPrincipal
from checkpoints.keys.hierarchy import create_workspace_keys
from checkpoints.models import Checkpoint, Membership, Workspace

PASSWORD = "holdpoint"  # noqa: S105  # printed at every start; the demo is for one machine
SLUG = "northwind"
FIRST_NUMBER = 2035  # so that the request that waits is APR-2041
KEYS = UUID("5eed0000-0000-4000-8000-000000000000")  # a name space for request keys


class StoryWentElsewhere(Exception):
    """A seeded run did not end as its story says; the message names both."""


@dataclass(frozen=True)
class Person:
    login: str
    name: str
    role: Role
    can_approve: bool = False
    superuser: bool = False


PEOPLE = (
    Person("admin", "Ruth Adeyemi", Role.ADMIN, can_approve=True, superuser=True),
    Person("mira", "Mira Okafor", Role.OPERATOR, can_approve=True),
    Person("omar", "Omar Haddad", Role.OPERATOR),
    Person("vera", "Vera Lindqvist", Role.VIEWER),
    Person("ana", "Ana Castro", Role.AUDITOR),
)


def seed() -> None:
    """Make what is missing. Raises StoryWentElsewhere."""
    workspace = _workspace()
    password = make_password(PASSWORD)  # once: it is slow by design
    people = {person.login: _member(workspace, person, password) for person in PEOPLE}
    mira, omar = people["mira"], people["omar"]
    with _scripted_model():
        with _meanwhile(APPROVAL_GRACE_SECONDS=0):
            _finished_trip(omar, mira)
            _trip_with_branches(mira)
        _handbook(mira)
        _invoices(mira)
        _failed_trip(omar)
        _waiting_trip(omar)


def logins() -> str:
    """Who may sign in, for the ready line of `./dev up`."""
    notes = {
        "admin": "admin pages too",
        "mira": "operator, may approve",
        "omar": "operator, may not approve",
        "vera": "viewer",
        "ana": "auditor",
    }
    return "\n".join(
        [
            f"{PEOPLE[1].login}, password {PASSWORD} ({notes['mira']})",
            "and with the same password: "
            + ", ".join(
                f"{person.login} ({notes[person.login]})"
                for person in PEOPLE
                if person.login != "mira"
            ),
        ]
    )


# The runs


def _finished_trip(by: UserPrincipal, approver: UserPrincipal) -> None:
    run = _start(stories.FINISHED, by)
    if run.status == Run.Status.WAITING:
        (question,) = _pending(run, approver)
        decide.respond(
            question, seen=question.as_shown(), by=approver, response="Window, please."
        )
        run = _work(run)
    _expect(stories.FINISHED, run, Run.Status.SUCCEEDED)


def _trip_with_branches(by: UserPrincipal) -> None:
    """Main, one fork that people let through to its end, one that they stopped."""
    run = _start(stories.FORKED, by)
    _expect(stories.FORKED, run, Run.Status.SUCCEEDED)
    if run.status != Run.Status.SUCCEEDED:
        return
    refundable = _fork(run, 12, "refundable", f"{SYSTEM}\nPrefer refundable fares.", by)
    while refundable.status == Run.Status.WAITING:
        for approval in _pending(refundable, by):
            decide.approve(approval, seen=approval.as_shown(), by=by)
        refundable = _work(refundable)
    _expect(stories.FORKED, refundable, Run.Status.SUCCEEDED)
    cheapest = _fork(
        run,
        5,
        "cheapest",
        f"{SYSTEM}\nTake the cheapest fare, even with a stop.",
        by,
    )
    for approval in _pending(cheapest, by):
        decide.reject(
            approval,
            seen=approval.as_shown(),
            by=by,
            reason="Stop here: eleven hours with a change is too long before a hearing.",
        )
    _expect(stories.FORKED, _work(cheapest), Run.Status.SUCCEEDED)


def _handbook(by: UserPrincipal) -> None:
    """An agent that works on files, and a fork that goes on from those of one step."""
    run = _start(stories.HANDBOOK, by, agent=handbook_editor)
    _expect(stories.HANDBOOK, run, Run.Status.SUCCEEDED)
    if run.status == Run.Status.SUCCEEDED:
        system = f"{HANDBOOKS}\nPrices in euros."
        euros = _fork(run, stories.FILES_AT, "euros", system, by)
        _expect(stories.HANDBOOK, euros, Run.Status.SUCCEEDED)


def _invoices(by: UserPrincipal) -> None:
    """A long run: what it is sent stays small, and it forgets nothing that it kept."""
    with _meanwhile(MAX_STEPS=2_000):
        run = _start(stories.INVOICES, by, agent=invoice_auditor)
    _expect(stories.INVOICES, run, Run.Status.SUCCEEDED)


def _failed_trip(by: UserPrincipal) -> None:
    run = _start(stories.FAILED, by)
    _expect(stories.FAILED, run, Run.Status.FAILED)


def _waiting_trip(by: UserPrincipal) -> None:
    """Left alone once it is there: from then on it is the visitor's."""
    _start(stories.WAITING, by)


# How


def _start(story: Story, by: UserPrincipal, *, agent: Agent = trip_planner) -> Run:
    run = start_run(
        agent=agent.name,
        message=story.ask,
        by=by,
        title=story.title,
        request_key=uuid5(KEYS, story.title),
    )
    return _work(run)


def _fork(run: Run, step: int, name: str, system: str, by: UserPrincipal) -> Run:
    checkpoint = Checkpoint.objects.for_user(by).get(branch=run.branch_id, step=step)
    branch = fork_run(
        checkpoint,
        edits=ForkEdits(system=system),
        name=name,
        by=by,
        request_key=uuid5(KEYS, f"{run.branch_id}/{name}"),
    )
    runs = Run.objects.for_user(by).filter(branch=branch).order_by("created_at")
    return _work(runs[0])  # visitors may have started more


def _work(run: Run) -> Run:
    """As far as it goes; nothing, for a run that waits or is over."""
    work(run.pk)
    run.refresh_from_db()
    return run


def _pending(run: Run, by: UserPrincipal) -> list[Approval]:
    return list(
        Approval.objects.for_user(by).pending().filter(run=run).order_by("number")
    )


def _expect(story: Story, run: Run, status: Run.Status) -> None:
    """A run that another worker still holds, after a seed cut short, is left to it."""
    if run.status not in (status, Run.Status.READY, Run.Status.RUNNING):
        raise StoryWentElsewhere(
            f"The demo's story “{story.title}” should be {status.label.lower()} and is"
            f" {run.get_status_display().lower()} ({run.error_class or 'no error'})."
        )


def _workspace() -> Workspace:
    found = Workspace.objects.filter(slug=SLUG).first()
    if found is None:
        found = Workspace.objects.create(
            slug=SLUG, name="Northwind Travel Desk", approvals_made=FIRST_NUMBER
        )
        create_workspace_keys(found)
    return found


def _member(workspace: Workspace, person: Person, password: str) -> UserPrincipal:
    first, _, last = person.name.partition(" ")
    user, _ = User.objects.get_or_create(
        username=person.login,
        defaults={
            "first_name": first,
            "last_name": last,
            "is_staff": person.superuser,
            "is_superuser": person.superuser,
            "password": password,
        },
    )
    Membership.objects.unscoped(Reason.COMMAND).get_or_create(
        workspace=workspace,
        user=user,
        defaults={"role": person.role, "can_approve": person.can_approve},
    )
    return UserPrincipal(
        user_id=user.pk,
        workspace_id=workspace.pk,
        role=person.role,
        can_approve=person.can_approve,
        name=person.name,
    )


@contextmanager
def _meanwhile(**values: object) -> Iterator[None]:
    """With these settings: the past has no window to take a decision back in, and a run
    of it was as long as it is, whatever those of today may be."""
    before = {name: getattr(settings, name) for name in values}
    for name, value in values.items():
        setattr(settings, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)


@contextmanager
def _scripted_model() -> Iterator[None]:
    """The scripted model in this process, and the settings that lead to it."""
    server = ScriptedServer(("127.0.0.1", 0), Services())
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        with _meanwhile(OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="scripted"):
            yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
