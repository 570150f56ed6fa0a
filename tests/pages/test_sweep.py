"""Every route, asked by everyone: nobody learns of what is not theirs, and GET writes nothing.

A route that is not in the table fails the first test: whoever adds a page says here who
may see it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection, transaction
from django.test import Client
from django.urls import NoReverseMatch, URLPattern, URLResolver, get_resolver, reverse

from agents.models import Agent, Approval, Run, StickyRule
from agents.pages.inbox.opening import open_asked
from agents.pure.bundles import file
from checkpoints import blobs, clock, entries, entry_locks
from checkpoints.access import (
    Board,
    Reason,
    Role,
    RunPrincipal,
    UserPrincipal,
    unscoped,
)
from checkpoints.log.threads import fork
from checkpoints.models import AuditEvent, Checkpoint, Membership
from checkpoints.pure import ops
from checkpoints.pure.names import Name
from tests.agents.waiting import make_waiting
from tests.pages.conftest import append, result

# Who asks


@dataclass(frozen=True)
class Person:
    role: Role
    can_approve: bool

    @property
    def reads(self) -> bool:
        return self.role is not Role.AUDITOR

    @property
    def operates(self) -> bool:
        return self.role in (Role.OPERATOR, Role.ADMIN)

    @property
    def decides(self) -> bool:
        return self.reads and self.can_approve


PEOPLE = {
    f"{role}{' who may approve' if can_approve else ''}": Person(role, can_approve)
    for role in Role
    for can_approve in (False, True)
}

# What there is


@dataclass(frozen=True)
class Things:
    """Ids of one of each; `nothing()` has ids of nothing."""

    thread: UUID
    branch: UUID
    checkpoint: UUID
    run: UUID
    failed: UUID
    approval: UUID
    blob: UUID
    file: UUID  # a checkpoint that has notes/plan.md
    sticky: UUID
    agent: UUID  # its name: known to this workspace, and registered by no code
    entry: UUID  # in the workspace's memory
    on_board: UUID  # an entry of the branch's board
    lock: UUID  # of a name there
    other_branch: UUID  # a fork of the first
    other_checkpoint: UUID
    digest: str = "00" * 32
    shown: str = "00" * 32  # the hash of what the approval's page shows

    def values(self) -> list[str]:
        return [str(value) for value in self.__dict__.values()]


def nothing() -> Things:
    one = uuid4
    return Things(
        thread=one(),
        branch=one(),
        checkpoint=one(),
        run=one(),
        failed=one(),
        approval=one(),
        blob=one(),
        file=one(),
        sticky=one(),
        agent=one(),
        entry=one(),
        on_board=one(),
        lock=one(),
        other_branch=one(),
        other_checkpoint=one(),
    )


# What can be asked for

Args = Callable[[Things], dict[str, Any]]
May = Callable[[Person], bool]


def no_ids(things: Things) -> dict[str, Any]:
    return {}


def of_thread(things: Things) -> dict[str, Any]:
    return {"pk": things.thread}


def of_step(things: Things) -> dict[str, Any]:
    return {"pk": things.thread, "checkpoint": things.checkpoint}


def of_two_branches(things: Things) -> dict[str, Any]:
    return {"a": things.branch, "b": things.other_branch}


def of_two_steps(things: Things) -> dict[str, Any]:
    return {"a": things.checkpoint, "b": things.other_checkpoint}


def of_blob(things: Things) -> dict[str, Any]:
    return {"pk": things.thread, "blob": things.blob}


def of_file(things: Things) -> dict[str, Any]:
    return {"pk": things.thread, "checkpoint": things.file}


def of_agent(things: Things) -> dict[str, Any]:
    return {"name": str(things.agent)}


def of_board_entry(things: Things) -> dict[str, Any]:
    return {"pk": things.thread, "entry": things.on_board}


def of_entry(things: Things) -> dict[str, Any]:
    return {"pk": things.entry}


def of_sticky(things: Things) -> dict[str, Any]:
    return {"pk": things.sticky}


def of_approval(things: Things) -> dict[str, Any]:
    return {"pk": things.approval}


def of_argument(things: Things) -> dict[str, Any]:
    return {"pk": things.approval, "number": 0}


def of_sheet(things: Things) -> dict[str, Any]:
    return {"pk": things.approval, "name": "note"}


def anyone(person: Person) -> bool:
    return True


def reader(person: Person) -> bool:
    return person.reads


def operator(person: Person) -> bool:
    return person.operates


def admin(person: Person) -> bool:
    return person.role is Role.ADMIN


def approver(person: Person) -> bool:
    return person.decides


def auditing(person: Person) -> bool:
    return person.role in (Role.AUDITOR, Role.ADMIN)


def bundle() -> bytes:
    """The smallest: a thread of one step, which nobody took yet."""
    nothing = dict.fromkeys(
        ("temperature", "top_p", "seed", "tokens_in", "tokens_out", "tokens_cached")
    )
    step = {
        **nothing,
        **dict.fromkeys(("cost", "latency_ms", "context")),
        **dict.fromkeys(("name", "by", "agent", "fingerprint", "error_class"), ""),
        **dict.fromkeys(("model_requested", "model_returned"), ""),
        "step": 0,
        "kind": "input",
        "status": "ok",
        "label": "Hello",
        "at": "2026-07-14T09:30:00+00:00",
        "schema_version": 1,
        "ops": [["reset", {"messages": []}]],
        "calls": [],
    }
    branch = {"name": "main", "parent": None, "fork_step": -1, "steps": [step]}
    content = {"title": f"Bundle {uuid4()}", "branches": [branch]}
    return file.write(file.BUNDLE, {}, content, lines=False).encode()


def chat() -> bytes:
    """A conversation that is no thread yet."""
    said = [{"role": "user", "content": f"Hello {uuid4()}"}]
    return json.dumps({"messages": said}).encode()


def key() -> dict[str, str]:
    return {"request_key": str(uuid4())}


@dataclass(frozen=True)
class Route:
    """Where it leads, what a form sends to it, and which members may."""

    args: Args = no_ids
    get: bool = True
    send: Args | None = None
    may_get: May = anyone
    may_post: May = anyone
    public: bool = False  # without signing in
    shared: bool = False  # the workspace's, whoever owns the threads in it
    done: tuple[int, ...] = (200, 302, 303)  # what who may is answered


ROUTES = {
    "healthz": Route(public=True),
    "readyz": Route(public=True),
    "metrics": Route(public=True),  # tests/project/test_metrics.py: with a token
    "login": Route(send=no_ids, public=True),
    "logout": Route(get=False, send=no_ids, public=True),
    "admin_login": Route(may_get=lambda person: False, public=True),  # of staff
    "admin_logout": Route(get=False, send=no_ids, public=True),
    "agents:home": Route(),
    "agents:inbox": Route(),
    "agents:inbox_list": Route(),
    "agents:inbox_metrics": Route(),
    # tests/pages/test_picked.py: who may not decide gets a result that says so.
    "agents:batch": Route(),
    "agents:waiting": Route(),
    "agents:live": Route(),
    "agents:approval": Route(of_approval),
    "agents:approval_part": Route(of_approval),
    "agents:argument": Route(of_argument, may_get=reader),
    "agents:edit": Route(of_approval),
    "agents:edit_part": Route(of_approval),
    "agents:reject": Route(of_approval),
    "agents:reject_part": Route(of_approval),
    "agents:decide": Route(
        of_approval,
        get=False,
        send=lambda things: {
            "decision": "approve",
            "revision": "1",
            "digest": things.digest,
            "shown": things.shown,
            **key(),
        },
        may_post=approver,
    ),
    "agents:care": Route(
        of_approval,
        get=False,
        send=lambda things: {"do": "note", "note": "Look at the date."},
        may_post=reader,
    ),
    "agents:undo": Route(
        of_approval,
        get=False,
        send=lambda things: {},
        may_post=approver,
        done=(303, 409),  # there is nothing of theirs to take back
    ),
    "agents:sheet": Route(of_sheet),
    "agents:sheet_part": Route(of_sheet),
    "agents:remember": Route(of_approval),
    "agents:remember_part": Route(of_approval),
    "agents:remember_save": Route(
        of_approval,
        get=False,
        send=lambda things: {
            "revision": "1",
            "digest": things.digest,
            "shown": things.shown,
            "scope": "once",
            "ends": "24",
            "keep": "0",
        },
        may_post=approver,
    ),
    "agents:remember_try": Route(
        of_approval,
        get=False,
        send=lambda things: {"scope": "once", "keep": "0"},
        may_post=approver,
    ),
    "agents:check": Route(of_approval, get=False, send=no_ids, may_post=reader),
    "agents:edit_as": Route(
        of_approval,
        get=False,
        send=lambda things: {
            "revision": "1",
            "digest": things.digest,
            "show": "json",
            "json": "{}",
        },
        may_post=approver,
    ),
    "agents:threads": Route(),
    "agents:threads_table": Route(),
    "agents:thread": Route(of_thread),
    "agents:thread_parts": Route(of_thread),
    "agents:thread_scrub": Route(of_thread),
    "agents:thread_live": Route(of_thread),
    "agents:step": Route(of_step),
    "agents:step_parts": Route(of_step),
    "agents:step_live": Route(of_step),
    "agents:path_history": Route(of_thread),
    "agents:export_bundle": Route(
        of_thread,
        send=lambda things: {"what": "thread"},
        may_get=reader,
        may_post=reader,
    ),
    "agents:import_bundle": Route(
        send=lambda things: {
            "file": SimpleUploadedFile("bundle.json", bundle()),
            "visibility": "workspace",
            **key(),
        },
        may_get=operator,
        may_post=operator,
    ),
    "agents:trajectories": Route(may_get=reader),
    "agents:trajectories_export": Route(get=False, send=no_ids, may_post=reader),
    "agents:trajectories_import": Route(
        get=False,
        send=lambda things: {
            "file": SimpleUploadedFile("log.jsonl", chat()),
            "visibility": "workspace",
            **key(),
        },
        may_post=operator,
    ),
    "agents:thread_branches": Route(of_thread),
    "agents:thread_search": Route(of_thread),
    "agents:blob": Route(of_blob, may_get=reader),
    "agents:blob_download": Route(of_blob, may_get=reader),
    "agents:blob_image": Route(of_blob, may_get=reader),
    "agents:file": Route(of_file, may_get=reader),
    "agents:thread_message": Route(
        of_thread,
        get=False,
        send=lambda things: {"branch": things.branch, "message": "Go on.", **key()},
        may_post=operator,
    ),
    "agents:remarks": Route(
        of_thread,
        send=lambda things: {
            "do": "note",
            "about": "step",
            "step": things.checkpoint,
            "text": "Look at the date.",
            **key(),
        },
        may_post=operator,
    ),
    "agents:fork": Route(
        of_step,
        send=lambda things: {"name": "another", "message": "Go on.", **key()},
        may_get=operator,
        may_post=operator,
    ),
    "agents:ask_again": Route(
        of_step,
        send=lambda things: {"times": "2", "seeds": "same", **key()},
        may_get=reader,
        may_post=operator,
        done=(200, 422),  # a tool's step: no model was asked
    ),
    "agents:ask_again_answers": Route(of_step, may_get=reader),
    "agents:fork_diff": Route(
        get=False, send=lambda things: {"was_system": "a", "system": "b"}
    ),
    "agents:compare": Route(),
    "agents:compare_branches": Route(of_two_branches),
    "agents:compare_rows": Route(of_two_branches),
    "agents:diff": Route(of_two_steps),
    "agents:new_run": Route(
        send=lambda things: {
            "agent": "waiting-desk",
            "message": "Book it.",
            "visibility": "workspace",
            **key(),
        },
        may_get=operator,
        may_post=operator,
    ),
    "agents:runs": Route(),
    "agents:runs_table": Route(),
    "agents:run_answering": Route(lambda things: {"pk": things.run}),
    "agents:retry": Route(
        lambda things: {"pk": things.failed},
        get=False,
        send=no_ids,
        may_post=operator,
    ),
    "agents:cancel": Route(
        lambda things: {"pk": things.run}, get=False, send=no_ids, may_post=operator
    ),
    "agents:pause": Route(
        lambda things: {"pk": things.run}, get=False, send=no_ids, may_post=operator
    ),
    "agents:resume": Route(
        lambda things: {"pk": things.run}, get=False, send=no_ids, may_post=operator
    ),
    "agents:prioritise": Route(
        lambda things: {"pk": things.run},
        get=False,
        send=lambda things: {"priority": "low"},
        may_post=operator,
    ),
    "agents:halt": Route(get=False, send=no_ids, may_post=admin),
    "agents:lift": Route(get=False, send=no_ids, may_post=admin),
    "agents:agents": Route(),
    "agents:agent": Route(of_agent, shared=True),
    "agents:agent_switch": Route(
        of_agent,
        get=False,
        send=lambda things: {"to": "off"},
        may_post=admin,
        shared=True,
    ),
    "agents:agent_tools": Route(of_agent, shared=True),
    "agents:agent_policies": Route(
        of_agent, send=lambda things: {"tool": "book"}, may_post=reader, shared=True
    ),
    "agents:agent_versions": Route(of_agent, shared=True),
    "agents:board": Route(
        of_thread,
        send=lambda things: {"lock": str(things.lock), "fence": "1"},
        may_post=operator,
    ),
    "agents:board_entry": Route(
        of_board_entry,
        send=lambda things: {"version": "1", "expected": "1"},
        may_post=operator,
    ),
    "agents:board_live": Route(of_thread, may_get=reader),
    "agents:memory": Route(
        send=lambda things: {"scope": "user", "path": f"a/{uuid4()}", "value": "b"},
        may_post=operator,
    ),
    "agents:memory_entry": Route(
        of_entry,
        send=lambda things: {"do": "save", "expected": "1", "value": "window"},
        may_post=operator,
        shared=True,
    ),
    "agents:policies": Route(
        send=lambda things: {"do": "new", "draft": "[]", "after": "0"}, may_post=admin
    ),
    "agents:policy_versions": Route(),
    "agents:policies_of": Route(
        of_agent,
        send=lambda things: {"do": "new", "draft": "[]", "after": "0"},
        may_post=admin,
        shared=True,
    ),
    "agents:policy_versions_of": Route(of_agent, shared=True),
    "agents:sticky_revoke": Route(of_sticky, get=False, send=no_ids, may_post=approver),
    "agents:audit": Route(may_get=auditing),
    "agents:audit_jsonl": Route(may_get=auditing),
    "agents:audit_csv": Route(may_get=auditing),
    "agents:audit_verifier": Route(may_get=auditing),
    "agents:audit_verify": Route(get=False, send=no_ids, may_post=auditing),
    "agents:retention": Route(
        send=lambda things: {"do": "run"}, may_get=admin, may_post=admin
    ),
    "agents:channels": Route(
        send=lambda things: {
            "do": "make",
            "kind": "email",
            "name": "desk",
            "address": "desk@acme.example",
            "events": "asked",
        },
        may_get=admin,
        may_post=admin,
    ),
    "agents:tokens": Route(
        send=lambda things: {"name": "a program", "scopes": "read"},
        may_get=admin,
        may_post=admin,
    ),
    "agents:thread_retention": Route(
        of_thread, send=lambda things: {"do": "pin"}, may_post=operator
    ),
    "agents:preferences": Route(
        get=False, send=lambda things: {"theme": "dark"}, public=True
    ),
    "agents:shortcuts": Route(),
    "agents:commands": Route(),
    "agents:commands_dialog": Route(),
    "agents:commands_list": Route(),
}
WITH_IDS = {name: route for name, route in ROUTES.items() if route.args is not no_ids}
OF_THREADS = {name for name, route in WITH_IDS.items() if not route.shared}
PAGES = {name: route for name, route in ROUTES.items() if route.get}
FORMS = {name: route for name, route in ROUTES.items() if route.send}

# They show nothing that was opened, and may be kept by browsers.
NOT_OPENED = {"healthz", "readyz", "metrics"}

# Pages of others, and the API, which have their own tests: test_admin.py, test_api.py.
OTHERS = ("admin:", "django_rq:", "api:", "api_")


def registered() -> Iterator[tuple[str, URLPattern]]:
    def walk(patterns: list[Any], space: str) -> Iterator[tuple[str, URLPattern]]:
        for pattern in patterns:
            if isinstance(pattern, URLResolver):
                inner = f"{space}{pattern.namespace}:" if pattern.namespace else space
                yield from walk(pattern.url_patterns, inner)
            else:
                yield f"{space}{pattern.name}", pattern

    return walk(get_resolver().url_patterns, "")


def test_every_route_is_in_the_table():
    found = {name for name, _ in registered() if not name.startswith(OTHERS)}
    assert found == set(ROUTES)


# The guard


class Wrote(AssertionError):
    """A request that only looks tried to change or lock something."""


WRITES = re.compile(
    r"\b(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|ALTER|CREATE|DROP|COPY|LOCK|CALL|SHARE"
    r"|SETVAL|NOTIFY)\b",
    re.IGNORECASE,
)
ALLOWED = re.compile(
    r'INSERT INTO "checkpoints_auditevent"|(INSERT INTO|UPDATE|DELETE FROM) "django_session"'
)


@contextmanager
def only_looking() -> Iterator[None]:
    """Refuses every statement that writes, but audit rows and the session's own."""

    def refuse(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if WRITES.search(sql) and not ALLOWED.match(sql):
            raise Wrote(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuse):
        yield


def test_the_guard_refuses_what_it_should(db):
    with unscoped(Reason.TEST), only_looking():
        assert not Approval.objects.exists()
        for write in (
            lambda: Approval.objects.update(rule="x"),
            lambda: list(Approval.objects.select_for_update()),
            lambda: User.objects.create_user("eve"),
        ):
            with pytest.raises(Wrote):
                write()


def openings() -> int:
    with unscoped(Reason.TEST):
        return AuditEvent.objects.filter(action="open").count()


# The world


@pytest.fixture
def make_things(make_trip, make_thread):
    """One of each for this owner: make_things(alice, visibility="private")."""

    def make(owner: UserPrincipal, **more: Any) -> Things:
        trip = make_trip(owner, **more)
        [approval] = make_waiting(make_thread(owner=owner, **more), owner)
        with unscoped(Reason.TEST):
            failed = Run.objects.create(
                workspace=trip.run.workspace,
                thread=trip.thread,
                branch=trip.cheap,
                agent_version=approval.run.agent_version,
                grant=trip.run.grant,
                started_by_id=owner.user_id,
                status=Run.Status.FAILED,
                error_class="model_unreachable",
            )
        return Things(
            thread=trip.thread.pk,
            branch=trip.branch.pk,
            checkpoint=trip.at(2),
            run=trip.run.pk,
            failed=failed.pk,
            approval=approval.pk,
            blob=blobs.put(
                trip.thread, b"\x89PNG\r\n\x1a\n", media_type="image/png"
            ).pk,
            file=_with_a_file(trip),
            sticky=_remembered(approval).pk,
            agent=_agent(trip.run.workspace),
            entry=_entry(owner),
            **on_board(trip.run, trip.branch.pk),
            other_branch=trip.cheap.pk,
            other_checkpoint=trip.at(4, "cheap"),
            digest=bytes(approval.digest).hex(),
            shown=open_asked(owner, approval).shown,
        )

    return make


def _with_a_file(trip: Any) -> UUID:
    """A branch of its own, whose step wrote a file."""
    with unscoped(Reason.TEST):
        source = Checkpoint.objects.get(pk=trip.at(2))
        branch = fork(source, name="files", by_id=trip.run.started_by_id)
        wrote = result("write_file", "ok", ops.put("/files", "notes/plan.md", "# Plan"))
        head = append(branch, wrote).head_id
    assert head is not None  # the step just taken
    return head


def _remembered(approval: Approval) -> StickyRule:
    run = approval.run
    assert run.started_by is not None  # make_waiting() says who
    with unscoped(Reason.TEST):
        return StickyRule.objects.create(
            workspace_id=run.workspace_id,
            agent=run.agent_version.agent,
            thread_id=run.thread_id,
            run=run,
            approval=approval,
            tool="book",
            scope=StickyRule.Scope.THREAD,
            made_by=run.started_by,
            expires_at=clock.now() + timedelta(days=1),
        )


def _entry(owner: UserPrincipal) -> UUID:
    kept = Name(("travellers", str(uuid4())), "seat")
    return entries.put(owner, entries.Scope.WORKSPACE, kept, "aisle").entry_id


def on_board(run: Run, branch: UUID, key: str = "plan") -> dict[str, UUID]:
    """An entry of this branch's board, and a lock beside it."""
    board = Board(branch)
    by = RunPrincipal(run.pk, run.workspace_id, run.thread_id, run.grant_id, board)
    entry = entries.put(by, board, Name((key,), key), key).entry_id
    lock = entry_locks.take(by, Name((key,), "lock"), lasts=timedelta(hours=1))
    return {"on_board": entry, "lock": lock.pk}


def _agent(workspace: Any) -> UUID:
    name = uuid4()
    with unscoped(Reason.TEST):
        Agent.objects.create(workspace=workspace, name=str(name))
    return name


@pytest.fixture
def things(make_things, alice) -> Things:
    return make_things(alice)


@pytest.fixture
def sign_in(join, browser):
    def sign_in(person: Person) -> Client:
        return browser(join("pat", person.role, can_approve=person.can_approve))

    return sign_in


def url(name: str, things: Things) -> str:
    return reverse(name, kwargs=ROUTES[name].args(things))


def ask(client: Client, name: str, things: Things, *, post: bool, **headers: Any):
    send = ROUTES[name].send
    data = send(things) if post and send else {}
    method = client.post if post else client.get
    return method(url(name, things), data, headers=headers)


def body(response: Any, things: Things) -> str:
    """What an answer says, without what differs by itself: the ids asked for, tokens."""
    text = response.content.decode()
    for value in things.values():
        text = text.replace(value, "ID")
    return re.sub(r'(name="csrfmiddlewaretoken" value=)"\w+"', r"\1", text)


def same_as_nothing(client: Client, name: str, things: Things) -> None:
    """What is there for others is answered as what never was, to a page and a fragment."""
    for headers in ({}, {"HX-Request": "true"}):
        for post in (False, True):
            random = nothing()
            theirs = ask(client, name, things, post=post, **headers)
            never = ask(client, name, random, post=post, **headers)
            at = f"{name} {'POST' if post else 'GET'} {headers}"
            assert theirs.status_code == never.status_code, at
            assert body(theirs, things) == body(never, random), at
            expected = {404} if post else {404, 405}
            if post and not ROUTES[name].send:
                expected = {405}
            if not post and ROUTES[name].get:
                expected = {404}
            assert theirs.status_code in expected, at


# Looking


@pytest.mark.unmeasured
@pytest.mark.parametrize("who", PEOPLE)
def test_a_member_sees_what_the_role_allows_and_looking_changes_nothing(
    who, sign_in, things
):
    person = PEOPLE[who]
    client = sign_in(person)
    before = openings()
    for name, route in PAGES.items():
        for headers in ({}, {"HX-Request": "true"}):
            with only_looking():
                response = ask(client, name, things, post=False, **headers)
            at = f"{name} {headers}"
            if not route.may_get(person):
                assert response.status_code == 403, at
            else:
                assert response.status_code in (200, 204, 302), at
                assert "default-src 'none'" in response["Content-Security-Policy"], at
                if response.status_code == 200 and name not in NOT_OPENED:
                    assert response["Cache-Control"] == "no-store", at
    if not person.reads:
        assert openings() == before, "an auditor's pages opened state"
    else:
        assert openings() > before


@pytest.mark.unmeasured
def test_every_tab_and_comparison_only_looks(sign_in, things):
    client = sign_in(PEOPLE["operator"])
    for tab in ("state", "messages", "context", "effects", "raw", "files", "x"):
        look_at_tab(client, things, tab)


def look_at_tab(client: Client, things: Things, tab: str) -> None:
    for base in (str(things.checkpoint), str(uuid4()), "nonsense"):
        query = {"tab": tab, "base": base, "split": "1", "step": "2", "q": "'\"<x>"}
        with only_looking():
            for name in ("agents:thread", "agents:step", "agents:thread_parts"):
                response = client.get(url(name, things), query)
                assert response.status_code in (200, 404), (name, base)


@pytest.mark.unmeasured
def test_odd_queries_are_no_trouble(sign_in, things):
    client = sign_in(PEOPLE["operator"])
    keys = [
        "show",
        "status",
        "agent",
        "since",
        "q",
        "before",
        "after",
        "page",
        "open",
        "at",
        "part",
        "a_to",
        "split",
        "ask",
    ]
    odds = ("", "-1", "9" * 40, "\0", "é😀", "2020-13-45T99:99", "[]", f"x,{uuid4()}")
    names = ("inbox", "threads", "runs", "new_run", "compare_branches", "compare_rows")
    for name in (f"agents:{each}" for each in (*names, "compare", "diff")):
        for odd in odds:
            with only_looking():
                response = client.get(url(name, things), dict.fromkeys(keys, odd))
            assert response.status_code == 200, (name, odd)


@pytest.mark.parametrize(
    "change",
    [
        {"role": Role.AUDITOR},
        {"workspace": None},  # the membership goes
        {"user__is_active": False},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_right_that_was_taken_is_gone_with_the_next_click(
    change, things, join, browser
):
    pat = join("pat", can_approve=True)
    client = browser(pat)
    with unscoped(Reason.TEST):
        assert client.get(url("agents:thread", things)).status_code == 200
        hers = Membership.objects.filter(user_id=pat.user_id)
        if "role" in change:
            hers.update(**change)
        elif "workspace" in change:
            hers.delete()
        else:
            User.objects.filter(pk=pat.user_id).update(is_active=False)
    before = openings()
    for name, route in ROUTES.items():
        for post in (False, True):
            if not route.public and (route.send if post else route.get):
                response = ask(client, name, things, post=post)
                if post:
                    expected: tuple[int, ...] = (
                        (302, 403) if name != "agents:fork_diff" else (200, 302, 403)
                    )
                    if name == "agents:audit_verify" and "role" in change:
                        expected = (303,)  # an auditor now, who may do this alone
                    assert response.status_code in expected, name
    assert openings() == before
    with unscoped(Reason.TEST):
        assert Approval.objects.get(pk=things.approval).is_pending
        assert Run.objects.get(pk=things.run).status == Run.Status.WAITING


# What is not theirs


@pytest.mark.unmeasured
def test_another_workspaces_admin_learns_nothing(things, other, browser):
    client = browser(other)
    before = openings()
    with only_looking():
        for name in WITH_IDS:
            same_as_nothing(client, name, things)
    assert openings() == before


@pytest.mark.unmeasured
def test_a_private_thread_is_not_there_for_others(make_things, alice, join, browser):
    private = make_things(alice, visibility="private")
    client = browser(join("ada", Role.ADMIN, can_approve=True))
    before = openings()
    with only_looking():
        for name in OF_THREADS:
            same_as_nothing(client, name, private)
    assert openings() == before


@pytest.mark.unmeasured
def test_a_stranger_is_sent_to_the_door_whatever_was_asked_for(things):
    client = Client()
    for name in WITH_IDS:
        for post in (False, True):
            random = nothing()
            with only_looking():
                theirs = ask(client, name, things, post=post)
                never = ask(client, name, random, post=post)
                part = ask(client, name, things, post=post, **{"HX-Request": "true"})
            assert theirs.status_code in (302, 405), name
            assert theirs.status_code == never.status_code, name
            assert body(theirs, things) == body(never, random), name
            assert part.status_code in (401, 405), name


@pytest.mark.unmeasured
def test_pages_without_ids_want_a_member_too(db, things):
    client = Client()
    homeless = Client()
    homeless.force_login(User.objects.create_user("homeless"))
    for name, route in ROUTES.items():
        for post in (False, True):
            if not route.public and (route.send if post else route.get):
                assert ask(client, name, things, post=post).status_code == 302, name
                answer = ask(homeless, name, things, post=post)
                assert answer.status_code == 403, name


def test_a_step_or_branch_of_another_thread_is_not_found_through_ones_own(
    things, make_things, other, alice, browser, workspace
):
    private = make_things(alice, visibility="private")
    client = browser(other)
    rival = other.workspace_id
    mine = make_things(other, workspace=type(workspace).objects.get(pk=rival))
    random = nothing()
    for foreign in (things, private):
        for name in (
            "agents:step",
            "agents:step_parts",
            "agents:step_live",
            "agents:fork",
            "agents:ask_again",
            "agents:ask_again_answers",
        ):
            theirs, never = (
                reverse(name, kwargs={"pk": mine.thread, "checkpoint": at})
                for at in (foreign.checkpoint, random.checkpoint)
            )
            with only_looking():
                a, b = client.get(theirs), client.get(never)
            assert a.status_code == b.status_code == 404, name
            assert body(a, foreign) == body(b, random)
        for query in ({"branch": "branch"}, {"base": "checkpoint"}):
            a, b = (
                client.get(
                    url("agents:thread", mine),
                    {key: getattr(of, field) for key, field in query.items()},
                )
                for of in (foreign, random)
            )
            assert a.status_code == b.status_code
            assert body(a, foreign) == body(b, random)


# Acting


@contextmanager
def undone() -> Iterator[None]:
    """Takes back what the block did, without a transaction that the gate would see."""
    point = transaction.savepoint()
    try:
        yield
    finally:
        transaction.savepoint_rollback(point)


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", FORMS)
def test_a_form_works_for_those_who_may_and_only_for_them(name, things, join, browser):
    route = FORMS[name]
    for who, person in PEOPLE.items():
        member = join(f"pat-{uuid4()}", person.role, can_approve=person.can_approve)
        for headers in ({}, {"HX-Request": "true"}):
            client = browser(member)
            with undone():
                response = ask(client, name, things, post=True, **headers)
                said = b"a file" if response.streaming else response.content[:3000]
                at = f"{who} {headers} {said!r}"
                if route.may_post(person):
                    assert response.status_code in route.done, at
                else:
                    assert response.status_code == 403, at
                    with unscoped(Reason.TEST):
                        approval = Approval.objects.get(pk=things.approval)
                        run = Run.objects.get(pk=things.run)
                    assert (approval.status, run.status) == ("pending", "waiting")


@pytest.mark.parametrize("name", FORMS)
def test_a_form_that_makes_no_sense_is_refused_with_reason(name, things, join, browser):
    client = browser(join("ada", Role.ADMIN, can_approve=True))
    target = url(name, things)
    good = FORMS[name].send(things)  # type: ignore[misc]  # FORMS have one
    bad: list[dict[str, Any]] = [{}, *({**good, field: "\0"} for field in good)]
    bad += [{**good, field: "x" * 300_000} for field in good]
    bad += [{**good, field: ""} for field in good]
    bad += [{**good, "decision": odd} for odd in ("edit", "reject", "respond", "x")]
    bad += [{**good, "agent": "nobody"}, {**good, "seed": "1e999"}]
    for data in bad:
        for headers in ({}, {"HX-Request": "true"}):
            with undone():
                response = client.post(target, data, headers=headers)
            assert response.status_code < 500, {k: str(v)[:20] for k, v in data.items()}


@pytest.mark.parametrize(
    "name", ["agents:fork", "agents:thread_message", "agents:new_run"]
)
def test_a_request_key_that_was_used_elsewhere_is_no_trouble(
    name, things, make_things, alice, join, browser
):
    another = make_things(alice)
    send = FORMS[name].send
    assert send
    data = send(things)
    ada = browser(join("ada", Role.ADMIN))
    for client in (browser(alice), browser(alice), ada):
        for target in (things, another):
            values = {**data, **({"branch": target.branch} if "branch" in data else {})}
            response = client.post(url(name, target), values)
            assert response.status_code < 500


@pytest.mark.parametrize("name", FORMS)
def test_a_form_needs_its_token(name, things, join):
    member = join("ada", Role.ADMIN, can_approve=True)
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.get(pk=member.user_id))
    with only_looking():
        response = ask(client, name, things, post=True)
    assert response.status_code == 403


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "method", ["HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE"]
)
def test_other_verbs_change_nothing(method, things, join, browser):
    client = browser(join("ada", Role.ADMIN, can_approve=True))
    for name in ROUTES:
        with only_looking():
            response = client.generic(method, url(name, things))
        assert response.status_code < 500, name
        if method in ("PUT", "PATCH", "DELETE", "TRACE"):
            # Who is signed in is sent on from the door before anything else.
            assert response.status_code in (405, 302 if name == "login" else 405), name


# The pages of others


def test_the_admins_and_the_queues_pages_are_not_for_members(things, sign_in):
    clients = [Client(), sign_in(PEOPLE["admin who may approve"])]
    asked = 0
    for name, pattern in registered():
        if not name.startswith(OTHERS):
            continue
        samples = {"int": 0, "uuid": uuid4(), "str": "x", "path": "x", "slug": "x"}
        args = {
            word: samples.get(
                type(converter).__name__.removesuffix("Converter").lower(), "x"
            )
            for word, converter in pattern.pattern.converters.items()
        }
        try:
            target = reverse(name, kwargs=args)
        except NoReverseMatch:  # a regular expression with arguments of its own
            continue
        for client in clients:
            for method in (client.get, client.post):
                # Signing out takes back what the session granted to runs.
                leaves = name == "admin:logout" and method == client.post
                with nullcontext() if leaves else only_looking():
                    response = method(target)
                at = f"{name} {response.status_code}"
                if name == "api:openapi-json":
                    assert response.status_code == 200, at  # it describes, no more
                elif name in ("admin:login", "admin:logout", "admin:jsi18n"):
                    assert response.status_code < 500, at
                else:
                    assert response.status_code in (302, 401, 403, 404, 405), at
                    if response.status_code == 302:
                        assert response["Location"].startswith(
                            ("/admin/login", "/login")
                        ), at
        asked += 1
    assert asked > 100
