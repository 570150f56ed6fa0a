"""A workspace in which every state of a request, and what surrounds one, can be seen."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from agents.approvals import care, decide, expire, guards
from agents.delivery import channels
from agents.models import Approval, Delivery, Run, ToolCall
from agents.policies import sticky, stored
from agents.pure.terms import Step, Terms
from agents.runs import looks, stop
from checkpoints import clock, tokens
from checkpoints.access import UserPrincipal
from checkpoints.models import RetentionPolicy
from tests.agents.waiting import COSTS, GOOD, make_waiting

HOUR = 3600  # seconds
RULE: dict[str, Any] = {
    "id": "dear",
    "name": "Dear bookings",
    "tools": "book*",
    "risks": ["high"],
    "when": {
        "all": [
            {"path": "/price", "op": "gt", "value": 1000},
            {"sum": "/price", "over_hours": 24, "op": "gt", "value": "5000.50"},
        ]
    },
    "outcome": "require",
    "message": "Two of us look at what is dear.",
    "risk": None,
    "terms": {"approvers": 2, "exclude": ["starter"], "deadline": 21600},
}
HOSTILE = "passport\u202efdp.exe <b>x</b> https://em\u0456rates.example/" + "n " * 400
NOTICE = "\n".join(f"{n}. What changes for visitors on day {n}" for n in range(1, 60))

Ask = Callable[..., Approval]


def requests(
    make_thread: Any, ada: UserPrincipal, alice: UserPrincipal, bob: UserPrincipal
) -> dict[str, Approval]:
    """One request in each state, by its name. Alice's agent asks; ada is an admin."""
    asker = ask_of(make_thread, alice)
    return {
        **_waiting(asker, ada, alice, bob),
        **_over(asker, ada, alice, bob),
        **_checked(asker, ada),
    }


def ask_of(make_thread: Any, alice: UserPrincipal) -> Ask:
    def ask(
        name: str, call: Any = None, risk: str = "medium", **terms: Any
    ) -> Approval:
        call = call or ("book", {**GOOD, "flight": f"TP {name}"})
        branch = make_thread(owner=alice, title=f"Trip {name}")
        kept = None if call[0] == "ask_traveller" else Terms(**terms)
        return make_waiting(branch, alice, call, terms=kept, risk=risk)[0]

    return ask


def _waiting(
    ask: Ask, ada: UserPrincipal, alice: UserPrincipal, bob: UserPrincipal
) -> dict[str, Approval]:
    two = {"approvers": 2, "deadline": 6 * HOUR}
    options = {"question": "Aisle or window?", "options": ["Aisle", "Window"]}
    made = {
        "plain": ask("plain"),
        "careful": ask("careful", risk="critical", reauthenticate=True, typed=True),
        "quorum": ask("quorum", risk="high", **two),
        "edited": ask("edited", risk="high", **two),
        "not for me": ask("not for me", approvers=1, exclude=("starter",)),
        "letter": ask("letter", ("send", {"to": "Helen", "fields": {}})),
        "long": ask("long", ("send", {"to": HOSTILE, "fields": _nested()})),
        "question": ask("question", ("ask_traveller", options)),
        "open question": ask("open", ("ask_traveller", {"question": "Which seat?"})),
        "claimed": ask("claimed"),
        "assigned": ask("assigned"),
        "snoozed": ask("snoozed"),
        "escalated": ask("escalated", escalation=(Step(60, priority=2),)),
        "named": ask("named", escalation=(Step(60, person=bob.user_id),)),
        "notice": ask("notice", ("announce", {"text": NOTICE})),
        "noted": ask("noted"),
        "late": ask("late", deadline=HOUR, then="hold"),
        "tool gone": ask("tool gone"),
    }
    decide.approve(made["quorum"], seen=made["quorum"].as_shown(), by=bob)
    dearer = {**GOOD, "flight": "TP edited", "price": "1300.00"}
    edited = made["edited"]
    decide.edit(edited, seen=edited.as_shown(), by=bob, arguments=dearer)
    care.claim(made["claimed"], bob)
    care.assign(made["assigned"], ada, to=alice.user_id)
    care.snooze(made["snoozed"], ada, until=clock.now() + timedelta(hours=4))
    care.escalate(made["escalated"], ada)
    care.escalate(made["named"], ada)
    care.note(made["noted"], bob, text="Ask Helen first. \u202eenecs")
    _was_due(made["late"])
    ToolCall.objects.filter(pk=made["tool gone"].call_id).update(tool="book_by_fax")
    return made


def _over(
    ask: Ask, ada: UserPrincipal, alice: UserPrincipal, bob: UserPrincipal
) -> dict[str, Approval]:
    made = {
        "undoable": ask("undoable", grace=60),
        "approved": ask("approved"),
        "approved with edits": ask("approved with edits"),
        "rejected": ask("rejected"),
        "answered": ask("answered", ("ask_traveller", {"question": "Aisle?"})),
        "expired": ask("expired", deadline=HOUR),
        "cancelled": ask("cancelled"),
        "failed": ask("failed"),
    }
    dearer = {**GOOD, "price": "1300.00"}
    for name in ("undoable", "approved", "failed"):
        decide.approve(made[name], seen=made[name].as_shown(), by=ada)
    one = made["approved with edits"]
    decide.edit(one, seen=one.as_shown(), by=alice, arguments=dearer)
    one = made["rejected"]
    decide.reject(one, seen=one.as_shown(), by=bob, reason="Too dear. <b>")
    one = made["answered"]
    decide.respond(one, seen=one.as_shown(), by=ada, response="Window.")
    _was_due(made["expired"])
    assert expire.expire(made["expired"].pk)
    stop.cancel(made["cancelled"].run, by=ada)
    _ends(made["failed"], Run.Status.FAILED, error_class="model_unreachable")
    ToolCall.objects.filter(pk=made["failed"].call_id).update(status="failed")
    return made


def _checked(ask: Ask, ada: UserPrincipal) -> dict[str, Approval]:
    """What guards found: the same, another price, nothing any more, no answer."""
    made = {}
    for name, now in (
        ("same", "1200.00"),
        ("changed", "1500.00"),
        ("gone", "gone"),
        ("unknown", "unknown"),
    ):
        what = {"what": f"booth {name}", "price": "1200.00"}
        made[name] = ask(name, ("rent", what))
        COSTS[what["what"]] = now
        assert guards.ask_check(made[name], ada)
        looks.check(made[name].pk)
        made[name].refresh_from_db()
        assert made[name].guard_asked_at is None  # it was looked at
    found = [one.guard for one in made.values()]
    assert len(set(found)) == len(found), found
    return made


def surroundings(ada: UserPrincipal, asked: dict[str, Approval]) -> None:
    """Policies, what is remembered, channels, messages, tokens, retention."""
    until = clock.now() + timedelta(days=1)
    for name, scope in (("approved", "agent"), ("failed", "run")):
        seen = asked[name].as_shown()
        sticky.remember(asked[name], seen, ada, scope, expires_at=until)
    named = {"after": 1800, "group": None, "priority": 3, "person": ada.user_id}
    rule = {**RULE, "terms": {**RULE["terms"], "escalation": [named]}}
    stored.save(ada, None, [rule], "The first", after_version=0)
    more = {**RULE, "id": "cheap", "name": "Cheap ones", "outcome": "auto_approve"}
    stored.save(ada, None, [rule, {**more, "terms": {}}], "", after_version=1)
    draft = channels.Draft("webhook", "ops", "https://ops.example/", ["asked"])
    hook, _ = channels.make(draft, by=ada)
    mail = channels.Draft("email", "desk", "desk@acme.example", ["asked", "expired"])
    channels.switch(channels.make(mail, by=ada)[0], on=False, by=ada)
    Delivery.objects.create(
        workspace_id=ada.workspace_id,
        channel=hook,
        approval=asked["plain"],
        event="asked",
        revision=1,
        status=Delivery.Status.UNDELIVERED,
        error_class="http_503",
    )
    tokens.make(ada.workspace_id, name="reader", scopes=["read"], by=ada)
    RetentionPolicy.objects.create(workspace_id=ada.workspace_id, keep_days=14)


def _nested() -> dict[str, Any]:
    return {
        "text": HOSTILE,
        "deep": {"list": [1, "2", None, {"a": True}], "": ""},
        "many": {f"key {n}": n for n in range(60)},
    }


def _was_due(approval: Approval) -> None:
    past = clock.now() - timedelta(hours=2)
    Approval.objects.filter(pk=approval.pk).update(due_at=past)


def _ends(approval: Approval, status: Run.Status, **more: Any) -> None:
    Run.objects.filter(pk=approval.run_id).update(status=status, **more)
