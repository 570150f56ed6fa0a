"""Every way in which a request comes to be decided: what happens, and what then ran.

Each way drives a run through the pages or the API, through workers, and to the ledger
outside. At the end of each, one check: what the ledger got is, byte for byte, what was
shown when it was approved, and what the last decision on record says; nothing else ran;
and the exported audit log alone leads from it to who approved it, digest and policy.
docs/approvals.md, "Ways in", says the same in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.models import Approval, Decision, Run, StickyRule, ToolCall
from agents.policies import stored
from agents.runs import looks, reaper
from checkpoints import audit_export, gate
from checkpoints.access import Role, UserPrincipal
from checkpoints.audit_chain import link_pending
from checkpoints.clock import ClockTimestamp
from checkpoints.models import (
    AuditEvent,
    Branch,
    Checkpoint,
    Group,
    Membership,
    Workspace,
)
from checkpoints.pure.codec import canonical
from tests.conftest import as_owner
from tests.pages.forms import fields
from tests.workers.conftest import ended, pending, wait_until
from tests.workers.test_api import Program
from tests.workers.test_programs_decide import token_of
from tests.workers.tracing import trace

pytestmark = pytest.mark.django_db(transaction=True)

Arguments = dict[str, Any]
Form = dict[str, Any]

ASKED: Arguments = {"item": "TP 209", "price": "1200"}
CHEAPER: Arguments = {**ASKED, "price": "900"}
MOVED: Arguments = {**ASKED, "price": "1500"}
SECOND = timedelta(seconds=1)


@dataclass
class World:
    """A desk that asks, the people at its pages, and what they were shown."""

    server: Any
    begin: Callable[..., Run]
    work: Callable[[], None]
    workers: Any
    settings: Any
    join: Callable[..., UserPrincipal]
    alice: UserPrincipal  # starts the runs
    bob: Person = field(init=False)
    admin: UserPrincipal = field(init=False)
    shown: dict[str, bytes] = field(default_factory=dict)  # by digest: arguments

    def __post_init__(self) -> None:
        self.admin = self.join("ada", Role.ADMIN)
        self.bob = self.person("bob")
        self.server.always("Done.")  # once there is nothing else to say
        self._reader = Program(token_of(self.admin, "read"))

    def person(self, who: str | UserPrincipal) -> Person:
        """Somebody who may approve, signed in."""
        if isinstance(who, str):
            who = self.join(who, can_approve=True)
        client = Client(enforce_csrf_checks=True)
        with as_owner():
            client.force_login(User.objects.get(pk=who.user_id))
        return Person(self, who, client)

    def asks(self, tool: str = "book", arguments: Arguments = ASKED) -> Approval:
        """A run that wants this, and waits. Each is told something else, as the model
        answers the same words as it did before."""
        self.server.will_call("c1", tool, **arguments)
        run = self.begin(f"Book it, {Run.objects.count()}.")
        self.work()
        (asked,) = pending(run)
        return asked

    def policy(self, **rule: Any) -> None:
        with as_owner():
            known = stored.history(self.admin, None)
            rules = [{"id": "r1", "name": "rule 1", "tools": "book", **rule}]
            version = known[0].version if known else 0
            stored.save(self.admin, None, rules, "", after_version=version)

    def group(self, name: str, *people: Person) -> str:
        with as_owner():
            made = Group.objects.create(workspace_id=self.admin.workspace_id, name=name)
            ids = [each.who.user_id for each in people]
            made.members.set(Membership.objects.filter(user__in=ids))
        return str(made.pk)

    def makes(self, person: Person, role: Role) -> None:
        """An operator of the server gives somebody this role, without the right to
        approve."""
        with as_owner():
            its = Membership.objects.get(user_id=person.who.user_id)
        self._changes(f"membership/{its.pk}", {"role": role})

    def leaves_only(self, group: str, *people: Person) -> None:
        """An operator of the server takes everybody else out of a group."""
        with as_owner():
            name = Group.objects.get(pk=group).name
            ids = [each.who.user_id for each in people]
            left = [row.pk for row in Membership.objects.filter(user__in=ids)]
        self._changes(f"group/{group}", {"name": name, "members": left})

    def _changes(self, row: str, form: Form) -> None:
        with as_owner():
            root = Client()
            root.force_login(User.objects.create_superuser("root", password="root"))
        page = f"/admin/checkpoints/{row}/change/"
        assert root.post(page, form).status_code == 302

    def reads(self, asked: Approval) -> Approval:
        """The request as it is now; its arguments are noted, as the API shows them."""
        read = self._reader.get(f"approvals/{asked.pk}").json()
        self.shown[read["digest"]] = canonical(read["arguments"])
        return Approval.objects.select_related("run", "call").get(pk=asked.pk)

    def is_final(self, asked: Approval) -> None:
        """The window in which it can be taken back is over."""
        past = ClockTimestamp() - SECOND
        Approval.objects.filter(pk=asked.pk).update(final_at=past)
        Run.objects.filter(pk=asked.run_id).update(wake_at=past)

    def executed(self) -> list[bytes]:
        return [canonical(effect["body"]) for effect in self.server.ledger()]

    def judge(self, expected: list[Arguments]) -> None:
        """What the ledger got, as often as it got it, is what people approved."""
        assert sorted(self.executed()) == sorted(map(canonical, expected))
        log = self.exported()
        for effect in self.server.ledger():
            assert effect["applied"], "it was sent twice"
            self.leads_to_who_let_it(log, effect["key"])
            body = canonical(effect["body"])
            asked = _let_go_by(effect["key"])
            last = Decision.objects.filter(approval=asked).latest("revision", "at")
            assert asked.status == Approval.Status.APPROVED
            assert last.verdict in (Decision.Verdict.APPROVE, Decision.Verdict.EDIT)
            assert self.shown[bytes(asked.digest).hex()] == body
            opener = gate.admit(self.alice, purpose="test", threads=[asked.thread])
            effective = opener.open(asked.call, "effective")
            if effective is None:
                effective = opener.open(asked.call, "arguments")
            assert canonical(effective) == body
            if last.verdict == Decision.Verdict.EDIT and last.revision + 1 == (
                asked.revision
            ):
                content = opener.open(last, "content")
                assert canonical(content["arguments"]) == body

    def exported(self) -> list[str]:
        """The lines of the audit log, as an auditor takes them elsewhere."""
        with as_owner():
            while link_pending():
                pass
            here = Workspace.objects.get(pk=self.admin.workspace_id)
            text = "".join(audit_export.begin(here.pk, "jsonl", by=self.admin))
        return text.splitlines()

    def leads_to_who_let_it(self, log: list[str], key: str) -> None:
        """What the lines alone say of an effect is what the tables have."""
        found = trace(log, key)
        last, asked = found.tries[-1], _let_go_by(key)
        assert found.came == "succeeded"
        assert last.digest == bytes(asked.digest).hex()
        policy = asked.policy and (str(asked.policy_id), asked.policy.version)
        assert last.policy == policy
        said = Decision.objects.filter(approval=asked, verdict__in=["approve", "edit"])
        assert last.approvers <= {str(each.by_id) for each in said}
        alone = last.by in ("break_glass", "sticky")
        assert len(last.approvers) == (1 if alone else asked.approvers)


def _let_go_by(call: str) -> Approval:
    """The request that let this call happen: its own, or the one that is remembered."""
    own = (
        Approval.objects.filter(call_id=UUID(call))
        .select_related("call", "thread", "policy")
        .first()
    )
    if own is not None:
        return own
    hit = AuditEvent.objects.get(action="sticky", detail__call=call)
    remembered = Approval.objects.select_related("call", "thread", "policy")
    return remembered.get(pk=hit.detail["approval"])


@dataclass
class Person:
    """Somebody at the pages, whose browser sends what forms say."""

    world: World
    who: UserPrincipal
    client: Client

    def opens(self, asked: Approval, page: str = "", form: str = "apr-actions") -> Form:
        """The form of a request's page, as it was drawn."""
        drawn = self.client.get(f"/inbox/{asked.pk}/{page}")
        assert drawn.status_code == 200
        self.world.reads(asked)
        return dict(fields(drawn.content.decode(), form))

    def posts(
        self, path: str, form: Form | None = None, **typed: Any
    ) -> tuple[int, str]:
        if form is None:
            token = self.client.cookies["csrftoken"].value
            form = {"csrfmiddlewaretoken": token}
        answer = self.client.post(
            path, {**form, **typed}, headers={"HX-Request": "true"}
        )
        return answer.status_code, answer.content.decode()

    def sends(
        self, asked: Approval, form: Form, decision: str = "approve", **typed: Any
    ) -> tuple[int, str]:
        """The status and the page that came back."""
        path = f"/inbox/{asked.pk}/decide"
        answer = self.posts(path, form, **{"decision": decision, **typed})
        self.world.reads(asked)
        return answer

    def approves(self, asked: Approval) -> None:
        status, page = self.sends(asked, self.opens(asked))
        assert status == 200, page

    def edits(self, asked: Approval, price: str) -> None:
        form = self.opens(asked, "edit", "apr-form")
        status, page = self.sends(asked, form, "edit", **{"arg/price": price})
        assert status == 200, page


@pytest.fixture
def world(server, begin, work, workers, settings, join, alice) -> World:
    return World(server, begin, work, workers, settings, join, alice)


def was_lost(answer: tuple[int, str], *words: str) -> None:
    status, page = answer
    assert status == 409, page
    for word in words:
        assert word in page


# The ways: each gives what has run by it, and nothing else


def by_page(world: World) -> list[Arguments]:
    asked = world.asks()
    form = world.bob.opens(asked)
    world.work()
    assert world.executed() == []
    assert world.bob.sends(asked, form)[0] == 200
    world.work()
    return [ASKED]


def by_page_rejected(world: World) -> list[Arguments]:
    asked = world.asks()
    form = world.bob.opens(asked, "reject", "apr-reject")
    assert world.bob.sends(asked, form, "reject", reason="Too dear.")[0] == 200
    world.work()
    assert "Too dear." in str(world.server.requests[-1])
    return []


def by_page_rejected_and_stopped(world: World) -> list[Arguments]:
    asked = world.asks()
    form = world.bob.opens(asked, "reject", "apr-reject")
    said = len(world.server.requests)
    answer = world.bob.sends(asked, form, "reject", reason="Too dear.", stop="1")
    assert answer[0] == 200
    world.work()
    assert ended(asked.run)
    assert len(world.server.requests) == said  # the agent does not go on
    return []


def by_batch(world: World) -> list[Arguments]:
    """Three are shown together; the last is edited before they are sent."""
    wanted = [{**ASKED, "item": f"TP {n}"} for n in range(3)]
    asked = [world.reads(world.asks(arguments=each)) for each in wanted]
    drawn = world.bob.client.get(
        "/inbox/batch", {"do": "approve", "id": [str(each.pk) for each in asked]}
    )
    form = fields(drawn.content.decode(), "batch-form")
    assert len(form["seen"]) == 3
    world.person(world.alice).edits(asked[2], "900")
    status, page = world.bob.posts("/inbox/batch", form)
    assert (status, "Alice" in page) == (200, True)
    world.work()
    return [*wanted[:2], {**wanted[2], "price": "900"}]


def by_api(world: World) -> list[Arguments]:
    """Approved as it was read; and another, with other arguments."""
    phone = Program(token_of(world.join("carol", Role.ADMIN, can_approve=True)))
    plain, dear = world.asks(), world.asks()
    for asked, more in (
        (plain, {"verdict": "approve"}),
        (dear, {"verdict": "edit", "arguments": CHEAPER}),
    ):
        world.reads(asked)
        read = phone.get(f"approvals/{asked.pk}").json()
        said = {"revision": read["revision"], "digest": read["digest"], **more}
        path = f"approvals/{asked.pk}/decision"
        stale = phone.post(path, {**said, "revision": read["revision"] + 1})
        assert (stale.status_code, stale.json()["code"]) == (409, "stale")
        assert phone.post(path, said).status_code == 200
        world.reads(asked)
    world.work()
    return [ASKED, CHEAPER]


def by_sticky_rule(world: World) -> list[Arguments]:
    """The same call again goes ahead; another is asked about."""
    asked = world.asks()
    world.server.will_call("c2", "book", **ASKED)
    world.server.will_call("c3", "book", **MOVED)
    form = world.bob.opens(asked, "remember", "sheet-form")
    path = f"/inbox/{asked.pk}/remember/save"
    status, page = world.bob.posts(path, form, scope="run", do="save")
    assert status == 200, page
    world.work()
    (other,) = pending(asked.run)
    assert other.call_id != asked.call_id
    return [ASKED, ASKED]


def by_revoked_sticky_rule(world: World) -> list[Arguments]:
    """Somebody else revokes it before the call that it would have let go is made."""
    asked = world.asks()
    world.server.will_call("c2", "book", **ASKED)
    form = world.bob.opens(asked, "remember", "sheet-form")
    path = f"/inbox/{asked.pk}/remember/save"
    assert world.bob.posts(path, form, scope="run", do="save")[0] == 200
    rule = StickyRule.objects.get()
    carol = world.person("carol")
    assert carol.client.get("/policies/").status_code == 200
    assert carol.posts(f"/policies/sticky/{rule.pk}/revoke")[0] == 200
    world.work()
    (other,) = pending(asked.run)
    assert other.call_id != asked.call_id
    return [ASKED]


def by_breaking_the_glass(world: World) -> list[Arguments]:
    """An admin goes past one of two who had approved it; a form of before is refused."""
    world.policy(outcome="require", terms={"approvers": 2, "grace": 0})
    asked = world.asks()
    world.bob.approves(asked)
    carol = world.person("carol")
    late = carol.opens(asked)
    dora = world.person(world.join("dora", Role.ADMIN, can_approve=True))
    form = dora.opens(asked, "sheet/break_glass", "sheet-form")
    assert dora.sends(asked, form, "break_glass", reason="It leaves now.")[0] == 200
    was_lost(carol.sends(asked, late), "Dora")
    world.work()
    assert Decision.objects.get(approval=asked, by=dora.who.user_id).break_glass
    return [ASKED]


def by_glass_broken_in_vain(world: World) -> list[Arguments]:
    """Who broke it is no admin any more when the call is about to be made."""
    world.policy(outcome="require", terms={"approvers": 2, "grace": 0})
    asked = world.asks()
    dora = world.person(world.join("dora", Role.ADMIN, can_approve=True))
    form = dora.opens(asked, "sheet/break_glass", "sheet-form")
    assert dora.sends(asked, form, "break_glass", reason="It leaves now.")[0] == 200
    world.makes(dora, Role.OPERATOR)
    world.work()
    assert world.reads(asked).revision == 2
    world.bob.approves(asked)
    world.person("carol").approves(asked)
    world.work()
    return [ASKED]


def by_escalation(world: World) -> list[Arguments]:
    """The next group may decide it once it is asked, with the form of before, too."""
    carol = world.person("carol")
    finance = world.group("Finance", carol)
    sales = world.group("Sales", world.bob)
    step = {"after": 3600, "group": sales}
    world.policy(
        outcome="require",
        terms={"groups": [finance], "escalation": [step], "grace": 0},
    )
    asked = world.asks()
    assert world.bob.client.get(f"/inbox/{asked.pk}/").status_code == 200
    mine = {"csrfmiddlewaretoken": world.bob.client.cookies["csrftoken"].value}
    form = {**carol.opens(asked), **mine}
    assert world.bob.sends(asked, form)[0] == 403
    path = f"/inbox/{asked.pk}/care"
    token = {"csrfmiddlewaretoken": carol.client.cookies["csrftoken"].value}
    assert carol.posts(path, {**token, "do": "escalate"})[0] == 200
    assert world.bob.sends(asked, form)[0] == 200
    world.work()
    return [ASKED]


def by_reassignment(world: World) -> list[Arguments]:
    """It is left with one, then with another: others who may decide it still can."""
    asked = world.asks()
    form = world.bob.opens(asked)
    carol, dora = world.person("carol"), world.person("dora")
    for person in (carol, dora):
        sheet = world.bob.opens(asked, "sheet/assign", "sheet-form")
        to = {"do": "assign", "to": str(person.who.user_id)}
        assert world.bob.posts(f"/inbox/{asked.pk}/care", sheet, **to)[0] == 200
    theirs = dora.opens(asked)
    assert world.bob.sends(asked, form)[0] == 200
    was_lost(dora.sends(asked, theirs), "Bob")
    world.work()
    return [ASKED]


def by_answer(world: World) -> list[Arguments]:
    """Who answered may not any more when the agent is to read it: it is asked again, and a
    program that has the revision of before is refused."""
    asked = world.asks("question", {"question": "Window or aisle?"})
    omar = world.person(world.join("omar"))
    form = omar.opens(asked, form="apr-form")
    assert omar.sends(asked, form, "respond", response="By the window.")[0] == 200
    world.makes(omar, Role.VIEWER)
    world.work()
    again = world.reads(asked)
    assert (again.status, again.revision) == (Approval.Status.PENDING, 2)
    assert "By the window." not in str(world.server.requests[-1])
    phone = Program(token_of(world.join("carol", Role.ADMIN, can_approve=True)))
    path = f"approvals/{asked.pk}/decision"
    said = {"verdict": "respond", "response": "On the aisle."}
    old = {"revision": 1, "digest": form["digest"][0]}
    stale = phone.post(path, {**said, **old})
    assert (stale.status_code, stale.json()["code"]) == (409, "stale")
    now = {"revision": again.revision, "digest": bytes(again.digest).hex()}
    assert phone.post(path, {**said, **now}).status_code == 200
    world.work()
    assert "On the aisle." in str(world.server.requests[-1])
    return []


def by_expiry(world: World) -> list[Arguments]:
    """After the deadline nobody decides, before a sweep or after it."""
    world.policy(outcome="require", terms={"deadline": 60, "grace": 0})
    late, missed = world.asks(), world.asks()
    form = world.bob.opens(late)
    Approval.objects.update(due_at=ClockTimestamp() - SECOND)
    was_lost(world.bob.sends(late, form))
    assert reaper.sweep().expired == 1  # the other
    assert world.reads(missed).status == Approval.Status.EXPIRED
    world.work()
    assert "Nobody decided this in time" in str(world.server.requests[-1])
    return []


def by_undo(world: World) -> list[Arguments]:
    """Approved, taken back, and approved with edits; the first form is stale."""
    world.settings.APPROVAL_GRACE_SECONDS = 60
    asked = world.asks()
    form = world.bob.opens(asked)
    assert world.bob.sends(asked, form)[0] == 200
    assert world.bob.posts(f"/inbox/{asked.pk}/undo")[0] == 200
    world.work()
    was_lost(world.bob.sends(asked, form))
    world.bob.edits(asked, "900")
    world.work()
    assert world.executed() == []  # it can be taken back still
    world.is_final(asked)
    world.work()
    return [CHEAPER]


def by_undo_of_an_edit(world: World) -> list[Arguments]:
    """What a guard had put in the place of the proposed price is asked about again."""
    world.settings.APPROVAL_GRACE_SECONDS = 60
    world.server.charge({"TP 209": {"any": {"price": "1500"}}})
    asked = world.asks("reserve")
    world.bob.edits(asked, "1300")
    assert world.bob.posts(f"/inbox/{asked.pk}/undo")[0] == 200
    world.bob.approves(asked)
    world.is_final(asked)
    world.work()
    return [MOVED]


def by_back_button(world: World) -> list[Arguments]:
    """The page from before the decision, in a browser that went back to it."""
    asked = world.asks()
    form = world.bob.opens(asked)
    sheet = world.bob.opens(asked, "reject", "apr-reject")
    edit = world.bob.opens(asked, "edit", "apr-form")
    assert world.bob.sends(asked, form)[0] == 200
    was_lost(world.bob.sends(asked, sheet, "reject", reason="No."), "Bob")
    world.work()
    was_lost(world.bob.sends(asked, edit, "edit", **{"arg/price": "900"}), "Bob")
    world.work()
    return [ASKED]


def by_replayed_form(world: World) -> list[Arguments]:
    """The same bytes again, by who sent them and by somebody else: one decision."""
    asked = world.asks()
    form = world.bob.opens(asked)
    for _ in range(2):
        assert world.bob.sends(asked, form)[0] == 200
    world.work()
    assert world.bob.sends(asked, form)[0] == 200
    carol = world.person("carol")
    mine = carol.opens(world.asks())["csrfmiddlewaretoken"]
    was_lost(carol.sends(asked, {**form, "csrfmiddlewaretoken": mine}), "Bob")
    assert Decision.objects.filter(approval=asked).count() == 1
    world.work()
    return [ASKED]


def by_stale_tab(world: World) -> list[Arguments]:
    """The price moved while a tab was open, and a worker has found that out."""
    asked = world.asks("reserve")
    form = world.bob.opens(asked)
    world.server.charge({"TP 209": {"any": {"price": "1500"}}})
    assert world.bob.posts(f"/inbox/{asked.pk}/check")[0] == 200
    looks.check(asked.pk)
    was_lost(world.bob.sends(asked, form), "revision 1, now 2")
    world.work()
    assert world.executed() == []
    world.bob.approves(asked)
    world.work()
    return [MOVED]


def by_old_look(world: World) -> list[Arguments]:
    """Its guard looked long ago: it looks first, and finds that nothing changed."""
    asked = world.asks("reserve")
    form = world.bob.opens(asked)
    Approval.objects.update(guard_checked_at=ClockTimestamp() - timedelta(hours=1))
    status, page = world.bob.sends(asked, form)
    assert (status, "looked at again" in page) == (422, True)
    world.work()
    assert world.executed() == []
    looks.check(asked.pk)
    assert world.bob.sends(asked, form)[0] == 200
    world.work()
    return [ASKED]


def by_edit_of_another(world: World) -> list[Arguments]:
    asked = world.asks()
    form = world.bob.opens(asked)
    world.person(world.alice).edits(asked, "900")
    was_lost(world.bob.sends(asked, form), "Alice")
    world.work()
    return [CHEAPER]


def by_edit_of_another_of_two(world: World) -> list[Arguments]:
    """Where two have to approve, an edit is asked of everybody anew."""
    terms = {"approvers": 2, "exclude": ["editor"], "grace": 0}
    world.policy(outcome="require", terms=terms)
    asked = world.asks()
    carol = world.person("carol")
    form = carol.opens(asked)
    world.bob.approves(asked)
    world.person(world.alice).edits(asked, "900")
    was_lost(carol.sends(asked, form), "revision 1, now 2")
    carol.approves(asked)
    world.work()
    assert world.executed() == []
    world.bob.approves(asked)
    world.work()
    return [CHEAPER]


def by_changed_policy(world: World) -> list[Arguments]:
    """A request keeps the terms that it was asked on; the next call meets the new ones."""
    asked = world.asks()
    form = world.bob.opens(asked)
    world.policy(outcome="auto_reject", message="Bookings are closed.")
    assert world.bob.sends(asked, form)[0] == 200
    world.work()
    world.server.will_call("c1", "book", **CHEAPER)
    later = world.begin("Book another.")
    world.work()
    assert ended(later)
    assert not pending(later)
    return [ASKED]


def by_removed_role(world: World) -> list[Arguments]:
    """Who approved may not any more when the call is about to be made: it is asked again."""
    asked = world.asks()
    form = world.bob.opens(asked)
    assert world.bob.sends(asked, form)[0] == 200
    world.makes(world.bob, Role.OPERATOR)
    world.work()
    assert world.executed() == []
    again = world.reads(asked)
    assert (again.status, again.revision) == (Approval.Status.PENDING, 2)
    seen = {"revision": again.revision, "digest": bytes(again.digest).hex()}
    assert world.bob.sends(asked, {**form, **seen})[0] == 403
    world.person(world.alice).approves(asked)
    world.work()
    return [ASKED]


def by_quorum_of_a_group(world: World) -> list[Arguments]:
    """Two of a group approved it, and one of them is taken out of the group before the
    call is made: it is asked again, and who is left and another approve it."""
    carol, dora = world.person("carol"), world.person("dora")
    finance = world.group("Finance", world.bob, carol, dora)
    terms = {"approvers": 2, "groups": [finance], "grace": 0}
    world.policy(outcome="require", terms=terms)
    asked = world.asks()
    late = carol.opens(asked)
    world.bob.approves(asked)
    carol.approves(asked)
    world.leaves_only(finance, world.bob, dora)
    world.work()
    assert world.executed() == []
    again = world.reads(asked)
    assert (again.status, again.revision) == (Approval.Status.PENDING, 2)
    seen = {"revision": again.revision, "digest": bytes(again.digest).hex()}
    assert carol.sends(asked, {**late, **seen})[0] == 403
    dora.approves(asked)
    world.work()
    assert world.executed() == []  # what was approved a revision before does not count
    world.bob.approves(asked)
    world.work()
    return [ASKED]


def by_quorum_that_has_more_than_it_needs(world: World) -> list[Arguments]:
    """One of two is taken out of the group while it waits: another's approval counts."""
    carol, dora = world.person("carol"), world.person("dora")
    finance = world.group("Finance", world.bob, carol, dora)
    terms = {"approvers": 2, "groups": [finance], "grace": 0}
    world.policy(outcome="require", terms=terms)
    asked = world.asks()
    world.bob.approves(asked)
    world.leaves_only(finance, carol, dora)
    carol.approves(asked)
    world.work()
    assert world.reads(asked).is_pending
    assert world.executed() == []
    dora.approves(asked)
    world.work()
    return [ASKED]


def by_doubt(world: World) -> list[Arguments]:
    """It was edited, approved and begun, and the line broke: it did not happen, people
    find, and have it run again as it was edited."""
    wanted = {"to": "Ann", "amount": "900"}
    asked = world.asks("wire", wanted)
    form = world.bob.opens(asked, "edit", "apr-form")
    status, page = world.bob.sends(asked, form, "edit", **{"arg/amount": "90"})
    assert status == 200, page
    world.server.ledger_fault("drop")
    world.work()
    assert world.executed() == []
    assert world.reads(asked).kind == Approval.Kind.UNKNOWN
    was_lost(world.bob.sends(asked, form, "edit", **{"arg/amount": "9"}))
    form = world.bob.opens(asked, form="apr-form")
    assert world.bob.sends(asked, form)[0] == 200
    world.work()
    return [{**wanted, "amount": "90"}]


def by_upgraded_agent(world: World) -> list[Arguments]:
    """A worker that has another version of the tool: what was approved was the old one."""
    asked = world.asks()
    world.bob.approves(asked)
    world.workers.start(1, DESK_BOOK="upgraded")
    wait_until(lambda: world.reads(asked).revision == 2)
    assert world.executed() == []
    world.bob.approves(asked)
    wait_until(lambda: ended(asked.run))
    return [ASKED]


def by_forked_thread(world: World) -> list[Arguments]:
    """The fork asks by itself, and the form of its source decides nothing there."""
    asked = world.asks()
    form = world.bob.opens(asked)
    step = Checkpoint.objects.get(branch=asked.branch_id, step=1)  # that made the call
    page = f"/threads/{asked.thread_id}/fork/{step.pk}/"
    fork = fields(world.bob.client.get(page).content.decode(), "fork-form")
    assert world.bob.client.post(page, {**fork, "do": "run"}).status_code == 303
    world.work()
    made = Branch.objects.get(parent=asked.branch_id)
    (there,) = pending(Run.objects.get(branch=made))
    was_lost(world.bob.sends(there, form))
    assert world.bob.sends(asked, form)[0] == 200
    world.work()
    assert world.executed() == [canonical(ASKED)]
    assert world.reads(there).is_pending
    world.bob.edits(there, "900")
    world.work()
    return [ASKED, CHEAPER]


def by_cancelled_run(world: World) -> list[Arguments]:
    asked = world.asks()
    form = world.bob.opens(asked)
    assert world.bob.posts(f"/runs/{asked.run_id}/cancel")[0] == 200
    was_lost(world.bob.sends(asked, form))
    world.work()
    return []


def by_run_cancelled_in_the_window(world: World) -> list[Arguments]:
    """Approved, and cancelled before it was final."""
    world.settings.APPROVAL_GRACE_SECONDS = 60
    asked = world.asks()
    world.bob.approves(asked)
    assert world.bob.posts(f"/runs/{asked.run_id}/cancel")[0] == 200
    world.is_final(asked)
    world.work()
    assert ToolCall.objects.get(pk=asked.call_id).attempts == 0
    return []


WAYS = {
    "page": by_page,
    "page, rejected": by_page_rejected,
    "page, rejected, and the run stopped": by_page_rejected_and_stopped,
    "batch": by_batch,
    "API": by_api,
    "sticky rule": by_sticky_rule,
    "sticky rule, revoked": by_revoked_sticky_rule,
    "breaking the glass": by_breaking_the_glass,
    "breaking the glass, in vain": by_glass_broken_in_vain,
    "escalated": by_escalation,
    "reassigned": by_reassignment,
    "answered, by who may not any more, and by the API": by_answer,
    "expiry": by_expiry,
    "undo": by_undo,
    "undo of an edit over what a guard put": by_undo_of_an_edit,
    "back button": by_back_button,
    "replayed form": by_replayed_form,
    "stale tab": by_stale_tab,
    "looked at too long ago": by_old_look,
    "edited by another": by_edit_of_another,
    "edited by another, where two approve": by_edit_of_another_of_two,
    "policy changed": by_changed_policy,
    "role removed": by_removed_role,
    "out of the group, of which two approved": by_quorum_of_a_group,
    "out of the group, while another is waited for": (
        by_quorum_that_has_more_than_it_needs
    ),
    "in doubt, and run again as it was edited": by_doubt,
    "agent upgraded": by_upgraded_agent,
    "thread forked": by_forked_thread,
    "run cancelled": by_cancelled_run,
    "run cancelled in its window": by_run_cancelled_in_the_window,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_ran_is_what_was_approved(way, world):
    world.judge(way(world))
