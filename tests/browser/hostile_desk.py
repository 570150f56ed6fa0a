"""A life in which a model, tools, guards, previews and people say nothing but hostile text.

It puts the corpus (`hostile.py`) in every place where one of them can write, by the front
door: runs are worked on, requests decided, branches forked.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from agents.approvals import break_glass, care, decide, guards
from agents.debug import remarks
from agents.delivery import channels
from agents.models import Approval, Run, StickyRule
from agents.policies import sticky, stored
from agents.runs import looks, reaper, runner, start
from agents.runs.edits import ForkEdits
from agents.tools import (
    Agent,
    Changed,
    Found,
    IdempotencyKey,
    Invalid,
    Preview,
    Rule,
    Seen,
    ToolError,
    Unchanged,
    tool,
)
from agents.tools import ask as question
from checkpoints import audit, blobs, clock, entries, tokens
from checkpoints.access import Reason, UserPrincipal
from checkpoints.log.threads import fork as fork_of
from checkpoints.models import Branch, Checkpoint, Group, Membership
from checkpoints.pure import ops
from checkpoints.pure.names import Name
from tests.browser.hostile import ALL, packed, short
from tests.pages.conftest import append, result


def _letter(to: str, text: str) -> Preview:
    return Preview.email(
        to=to, cc=[ALL], subject=f"{text}\r\nBcc: eve@x.example", body=ALL
    )


@tool(
    effect="external",
    title="Mail {to}",
    approve=Rule("mail", when={"path": "/to", "op": "exists"}),
    preview=_letter,
    reversible="for an hour",
)
def mail(to: str, text: str) -> str:
    """Mail somebody."""
    return ALL


def _patch(name: str, fields: dict[str, Any]) -> Preview:
    return Preview.diff(
        ALL, before=f"same\n{ALL}\nold", after=f"same\n{ALL} new\n{ALL}"
    )


@tool(effect="external", title="Change {name}", approve=Rule("patch"), preview=_patch)
def patch(name: str, fields: dict[str, Any]) -> dict[str, str]:
    """Change a file."""
    return {ALL: ALL}


def _rows(what: str) -> Preview:
    return Preview.rows(3, ALL, columns=["id", ALL], sample=[[1, ALL], [2, {ALL: ALL}]])


@tool(
    effect="external",
    idempotent=True,
    title="Purge {what}",
    approve=Rule("purge", when={"path": "/what", "op": "exists"}),
)
def purge(what: str, *, key: IdempotencyKey) -> str:
    """Purge rows."""
    return ALL


@tool(effect="external", title="Drop {what}", approve=Rule("drop"), preview=_rows)
def drop(what: str) -> str:
    """Drop rows."""
    return ALL


def _now(what: str, price: Decimal, *, seen: Seen) -> Found:
    if price > 1500:
        return Invalid(ALL)
    if price == 1500:
        return Unchanged({ALL: ALL, "price": "1500"})
    new = {ALL: f"{ALL} now", "price": "1500"}
    return Changed(
        {ALL: ALL, "price": str(price)}, new, ALL, arguments={"price": "1500"}
    )


@tool(effect="external", title="Rent {what}", approve=Rule("rent"), guard=_now)
def rent(what: str, price: Decimal) -> str:
    """Rent something."""
    return ALL


@tool(effect="read", title="Look at {what}")
def look(what: str) -> dict[str, Any]:
    """Look something up on a page that somebody else wrote."""
    return {ALL: ALL, "nested": {"list": [ALL, None, {ALL: 1}]}, "html": f"\n{ALL}" * 4}


@tool(effect="read", title="Fail at {what}")
def fail(what: str) -> str:
    """Stop the run, and say so in foreign words."""
    raise ToolError(ALL, stop=True)


@question(title="{text}")
def ask_them(text: str, options: list[str] | None = None) -> None:
    """Ask somebody."""


DESK = Agent(
    "hostile-desk",
    model="scripted",
    system=ALL,
    tools=[mail, patch, purge, drop, rent, look, fail, ask_them],
)


@dataclass
class Life:
    """What came of it: rows to look at, by name."""

    thread: Any
    branch: Branch
    fork: Branch
    look: Checkpoint  # a tool's step
    failed: Run
    sticky: StickyRule
    blob: UUID
    filed: Checkpoint  # its state has files
    entry: UUID  # in the workspace's memory
    pending: dict[str, Approval] = field(default_factory=dict)  # by tool
    decided: dict[str, Approval] = field(default_factory=dict)

    @property
    def requests(self) -> list[Approval]:
        return [*self.pending.values(), *self.decided.values()]


def work() -> None:
    """Every run that is ready, in this process."""
    while ready := reaper.ready():
        for run_id in ready:
            runner.work(run_id)


def _asked(run: Run) -> dict[str, Approval]:
    found = Approval.objects.pending().filter(run=run).select_related("call", "run")
    return {approval.call.tool: approval for approval in found}


def _remember(by: UserPrincipal) -> UUID:
    """Entries of everybody's and of one person's, each written twice; the first of all."""
    of = (packed(60), "of", packed(90, first="tags"))
    written = [
        entries.put(by, scope, Name(of, key), value, expected=expected)
        for scope in (entries.Scope.WORKSPACE, entries.Scope.USER)
        for key in (packed(60), "seat")
        for expected, value in enumerate([ALL, {ALL: [ALL, {ALL: ALL}]}])
    ]
    return written[0].entry_id


CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("c1", "mail", {"to": ALL, "text": ALL, "reason": ALL}),
    ("c2", "patch", {"name": ALL, "fields": {ALL: ALL, "in": {ALL: [ALL]}}}),
    ("c3", "purge", {"what": ALL, "reason": ALL}),
    ("c4", "drop", {"what": ALL}),
    ("c5", "rent", {"what": ALL, "price": "1200"}),
    ("c6", "ask_them", {"text": ALL, "options": [ALL, "no"]}),
]


def live_through(
    llm: Any, ada: UserPrincipal, alice: UserPrincipal, bob: UserPrincipal
) -> Life:
    """The whole life of a desk and its requests. Ada is an admin, all three approve."""
    for each in (ada, alice, bob):  # a name from a directory of somebody else's
        called = packed(140, first="ansi")
        User.objects.filter(pk=each.user_id).update(first_name=called, last_name="")
    ada, alice, bob = (replace(each, name=called) for each in (ada, alice, bob))
    finance = Group.objects.create(workspace_id=ada.workspace_id, name=packed(60))
    finance.members.set(Membership.objects.unscoped(Reason.TEST).all())
    two = {"approvers": 2, "exclude": [], "groups": [str(finance.pk)], "grace": 0}
    rules = [
        {"id": "r1", "name": packed(60), "tools": "mail", "terms": two},
        {"id": "r2", "name": packed(60, first="tags"), "tools": "patch", "terms": two},
    ]
    rules = [{**rule, "outcome": "require", "message": packed(200)} for rule in rules]
    stored.save(ada, None, rules, packed(200), after_version=0)

    # The first run waits; some of what it asked is half decided.
    llm.will_call_all(("c0", "look", {"what": ALL}), text=ALL)
    llm.will_call_all(*CALLS, text=ALL)
    waiting = start.start_run(agent=DESK.name, message=ALL, title=packed(190), by=alice)
    work()
    first = _asked(waiting)
    letter = first["mail"]
    edited = {"to": f"{ALL} edited", "text": f"{ALL}\nby hand"}
    decide.edit(letter, seen=letter.as_shown(), by=bob, arguments=edited)
    decide.approve(first["patch"], seen=first["patch"].as_shown(), by=bob)
    care.note(first["patch"], bob, text=ALL)
    care.claim(first["drop"], bob)
    care.assign(first["purge"], ada, to=bob.user_id)
    guards.ask_check(first["drop"], ada)
    looks.check(first["drop"].pk)

    # The second has everything decided, and says what came of it.
    llm.will_call_all(*CALLS, text=ALL)
    llm.always(ALL, turn=1)
    over = start.start_run(
        agent=DESK.name, message=f"{ALL} 2", title=ALL[:180], by=alice
    )
    work()
    second = _asked(over)
    decide.edit(
        second["drop"],
        seen=second["drop"].as_shown(),
        by=bob,
        arguments={"what": f"{ALL}!"},
    )
    decide.reject(second["rent"], seen=second["rent"].as_shown(), by=bob, reason=ALL)
    decide.respond(
        second["ask_them"], seen=second["ask_them"].as_shown(), by=bob, response=ALL
    )
    said = second["mail"].as_shown()
    break_glass.approve(second["mail"], seen=said, by=ada, reason=ALL)
    decide.reject(second["patch"], seen=second["patch"].as_shown(), by=bob, reason=ALL)
    kept = second["purge"]
    decide.approve(kept, seen=kept.as_shown(), by=bob)
    kept.refresh_from_db()
    until = clock.now() + timedelta(days=1)
    rule = sticky.remember(kept, kept.as_shown(), bob, "agent", expires_at=until)
    Approval.objects.filter(run=over).update(final_at=None)
    Run.objects.filter(pk=over.pk).update(wake_at=None)
    work()

    # One fails; a fork of the first goes another way.
    llm.will_call_all(("c9", "fail", {"what": ALL}), text=ALL)
    failed = start.start_run(
        agent=DESK.name, message=f"{ALL} 3", title=packed(90), by=alice
    )
    work()
    branch = Branch.objects.unscoped(Reason.TEST).get(pk=waiting.branch_id)
    steps = Checkpoint.objects.unscoped(Reason.TEST).filter(branch=branch)
    looked = steps.get(kind="tool")
    edits = ForkEdits(system=f"{ALL} fork", message=f"{ALL} fork")
    fork = start.fork_run(looked, edits=edits, name=packed(90), by=alice)
    work()

    # What people write beside the work.
    about = [remarks.About(branch.thread, None, looked), remarks.About(branch.thread)]
    for place in about:
        remarks.note(place, bob, text=ALL)
        remarks.judge(place, bob, good=False, reason=packed(400))
        for text in short(40)[:8]:
            remarks.label(place, bob, text=text)
    for kind, begins, address in (
        ("webhook", "bidi", "https://ops.example/"),
        ("email", "host", "a@acme.example"),
    ):
        draft = channels.Draft(kind, packed(60, first=begins), address, ["asked"])
        channels.make(draft, by=ada)
    tokens.make(ada.workspace_id, name=packed(60), scopes=["read"], by=ada)
    audit.record(ada, "message", note=ALL)
    kept_files = fork_of(looked, name=packed(60), by_id=ada.user_id)
    files = {"notes/plan.md": f"{ALL}\n{ALL}", f"{packed(60)}.md": ALL}
    wrote = [ops.put("/files", path, text) for path, text in files.items()]
    filed = append(kept_files, result("write_file", ALL, *wrote)).head
    assert filed is not None  # the step just taken
    return Life(
        thread=branch.thread,
        branch=branch,
        fork=fork,
        look=looked,
        failed=failed,
        sticky=rule,
        filed=filed,
        entry=_remember(ada),
        blob=blobs.put(branch.thread, ALL.encode(), media_type="text/plain").pk,
        pending=_asked(waiting),
        decided=second,
    )
