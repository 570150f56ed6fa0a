"""The Policies page: rules are drafted, tried on what was, and saved as a version."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest

from agents.models import (
    Agent,
    Approval,
    Policy,
    PolicyUse,
    StickyRule,
    ToolCall,
)
from agents.pure.policies import rules_of
from checkpoints import audit, clock, gate
from checkpoints.access import Reason, Role
from checkpoints.models import AuditEvent, Group
from tests.agents.waiting import DESK, make_waiting
from tests.pages.forms import fields

pytestmark = pytest.mark.django_db

DEAR = {
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
    "message": "",
    "risk": None,
    "terms": {"approvers": 2, "exclude": ["starter"], "deadline": 21600},
}
CHEAP = {
    **DEAR,
    "id": "cheap",
    "name": "Cheap ones",
    "when": {"path": "/price", "op": "lte", "value": 100},
    "outcome": "auto_approve",
    "terms": {},
}


@pytest.fixture
def ada(join):
    return join("ada", Role.ADMIN, can_approve=True)


class Editor:
    """An admin at the page: `press` sends the form as it stands, with what was typed."""

    def __init__(self, client, address: str = "/policies/") -> None:
        self.client, self.address = client, address
        self.shown = ""

    @property
    def page(self) -> str:
        """As it was answered last; the page itself, at first."""
        if not self.shown:
            self.look()
        return self.shown

    def look(self, query: str = "") -> None:
        self.take(self.client.get(self.address + query))

    def press(self, do: str, **typed: str | list[str]) -> int:
        sent = {**fields(self.page, "policies"), **typed, "do": do}
        return self.take(self.client.post(self.address, sent))

    def take(self, answer) -> int:
        self.status = answer.status_code
        if self.status == 303:
            answer = self.client.get(answer["Location"])
        self.shown = answer.content.decode()
        return self.status

    @property
    def words(self) -> str:
        text = re.sub(r"<(option|script|style)\b.*?</\1>|<[^>]+>", " ", self.page)
        return re.sub(r"\s+", " ", unescape(text))

    @property
    def names(self) -> list[str]:
        """Of the rules, in their order."""
        return [
            unescape(name)
            for name in re.findall(
                r'class="t[^"]*"[^>]*(?:do|rule=)[^>]*>([^<]+)</(?:a|button)>',
                self.page,
            )
        ]

    def typed(self, name: str) -> str:
        return fields(self.page, "policies")[name][0]


@pytest.fixture
def editor(browser, ada):
    return Editor(browser(ada))


@pytest.fixture
def saved(workspace):
    """Version 1, with two rules."""
    return Policy.objects.create(workspace=workspace, version=1, rules=[DEAR, CHEAP])


def newest(workspace, agent=None) -> Policy:
    of = Policy.objects.unscoped(Reason.TEST).filter(workspace=workspace, agent=agent)
    return of.order_by("-version")[0]


def versions() -> int:
    return Policy.objects.unscoped(Reason.TEST).count()


def test_a_first_rule_is_made_tried_and_saved(editor, workspace, ada):
    assert "No rule yet" in editor.words
    assert editor.press("new") == 200
    typed = {
        "name": "Dear bookings",
        "tools": "book*",
        "c0-path": "/price",
        "c0-value": "1000",
        "approvers": "2",
        "deadline": "6 h",
    }
    assert editor.press("dry", **typed) == 200
    assert "Dry run, last 30 days" in editor.words
    assert versions() == 0
    assert editor.press("save", note="The first") == 303
    assert "Saved as version 1." in editor.words
    policy = newest(workspace)
    assert (policy.version, policy.note, policy.made_by_id) == (
        1,
        "The first",
        ada.user_id,
    )
    [rule] = rules_of(policy.rules)
    assert rule.when == {"path": "/price", "op": "gt", "value": 1000}
    assert rule.terms.approvers == 2
    assert rule.terms.deadline == 6 * 3600
    # Four eyes, unless somebody says otherwise.
    assert set(rule.terms.exclude) == {"starter", "author", "editor"}
    event = AuditEvent.objects.unscoped(Reason.TEST).get(action="policy_save")
    assert event.object_id == policy.pk


def test_a_form_that_nobody_changed_changes_nothing(editor, saved, workspace):
    for number in (1, 2):
        editor.look(f"?rule={number}")
        editor.press("dry")
        assert "draft, not saved" not in editor.words
    editor.press("save")
    before, after = rules_of(saved.rules), rules_of(newest(workspace).rules)
    assert before == after


def test_rules_are_moved_without_script(editor, saved):
    assert editor.names == ["Dear bookings", "Cheap ones"]
    editor.press("down:0")
    assert editor.names == ["Cheap ones", "Dear bookings"]
    assert "draft, not saved" in editor.words
    editor.press("up:1")
    assert editor.names == ["Dear bookings", "Cheap ones"]
    assert "draft, not saved" not in editor.words
    assert versions() == 1


def test_what_is_typed_stays_while_another_rule_is_looked_at(editor, saved):
    editor.press("open:1", name="Very dear bookings")
    assert editor.names == ["Very dear bookings", "Cheap ones"]
    assert editor.typed("name") == "Cheap ones"
    editor.press("open:0")
    assert editor.typed("name") == "Very dear bookings"


def test_a_rule_is_deleted(editor, saved, workspace):
    editor.press("delete:0")
    assert editor.names == ["Cheap ones"]
    editor.press("dry")
    assert editor.press("save") == 303
    assert [rule["id"] for rule in newest(workspace).rules] == ["cheap"]


def test_nothing_is_saved_that_was_not_tried(editor, saved):
    editor.press("dry", name="Very dear")
    status = editor.press("save", name="Dearest")
    assert status == 200
    assert "Not saved yet" in editor.words
    assert versions() == 1
    assert editor.press("save") == 303
    assert versions() == 2


def test_a_step_of_the_escalation_names_a_person(editor, saved, workspace, alice):
    alices = f"person-{alice.user_id}"
    step = {"e0-after": "30 min", "e0-group": alices, "e0-priority": "2"}
    assert editor.press("dry", **step) == 200
    assert f'value="{alices}" selected' in editor.page
    assert f"after 30 min assign to {alice.name}" in editor.words
    editor.press("save")
    kept = newest(workspace).rules[0]["terms"]["escalation"]
    assert kept == [
        {"after": 1800, "group": None, "priority": 2, "person": alice.user_id}
    ]
    version = editor.client.get("/policies/versions?at=2").content.decode()
    assert f"after 30 min assign to {alice.name}" in version


@pytest.mark.parametrize("who", ["stranger", "auditor", "person-0", "person-99999999"])
def test_a_step_names_members_who_could_decide_something(
    editor, saved, other, auditor, who
):
    ids = {"stranger": other.user_id, "auditor": auditor.user_id}
    named = f"person-{ids[who]}" if who in ids else who
    assert editor.press("dry", **{"e0-after": "30 min", "e0-group": named}) == 422


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"deadline": "soon"}, "A number and a unit: 45 s, 30 min, 6 h or 2 d."),
        ({"deadline": "600 d"}, "Seconds, from 1 to"),
        ({"approvers": "many"}, "A whole number."),
        ({"approvers": "99"}, "A number from 1 to 20."),
        ({"grace": "61"}, "Seconds, from 0 to 60."),
        ({"name": " "}, "Name it, in at most 100 characters."),
        ({"tools": "bo ok"}, "A tool's name; * stands for any letters, ? for one."),
        ({"c0-path": "price"}, "Begins with /, such as /price."),
        ({"c0-path": ""}, "Which argument? Such as /price."),
        ({"c1-hours": ""}, "Over how many hours? Such as 24."),
        ({"c0-value": ""}, "Compared with what?"),
        ({"c0-value": "dear"}, "Gt needs a number"),
        ({"c0-op": "matches", "c0-value": "(("}, "is not a regular expression"),
        ({"e0-after": "", "e0-priority": "3"}, "After how long?"),
        ({"outcome": "escalate"}, "Say to whom: it needs a step."),
        ({"outcome": "dance"}, "One of auto_approve"),
        ({"message": "x" * 501}, "A text of at most 500 characters."),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_what_was_typed_is_kept(
    editor, saved, typed, said
):
    assert editor.press("dry", **typed) == 422
    assert said in editor.words
    assert "What you typed is kept." in editor.words
    assert leads_to_what_is_wrong(editor.page)
    for name, value in typed.items():
        if name not in ("outcome", "name"):
            assert editor.typed(name) == value
    assert editor.press("save", **typed) == 422
    assert versions() == 1


def leads_to_what_is_wrong(page: str) -> bool:
    """Whether the note at the top names at least one field, and leads to each."""
    note = page.partition('id="errors"')[2].partition("</div> </div>")[0]
    ids = re.findall(r'<a href="#([^"]+)">', note.partition("<form")[0])
    return bool(ids) and all(f'id="{each}"' in page for each in ids)


def test_what_is_wrong_with_another_rule_is_said_too(editor, saved):
    editor.press("new")
    editor.press("open:0")
    assert "not a rule yet" in editor.words
    assert editor.press("dry") == 422
    assert "Rule 3 of 3" in editor.words  # it is opened
    assert "Name it" in editor.words


def test_conditions_are_added_and_taken_away(editor, saved, workspace):
    editor.press("add-row", **{"c2-path": "/cabin", "c2-op": "in", "c2-value": "J, F"})
    assert editor.typed("c2-value") == "J, F"
    assert editor.typed("c3-path") == ""
    editor.press("drop-row:0")
    assert editor.typed("c0-what") == "sum"
    editor.press("dry")
    editor.press("save")
    assert newest(workspace).rules[0]["when"] == {
        "all": [
            {"sum": "/price", "over_hours": 24, "op": "gt", "value": "5000.50"},
            {"path": "/cabin", "op": "in", "value": ["J", "F"]},
        ]
    }


def test_conditions_are_written_as_json(editor, saved, workspace):
    editor.press("json")
    assert '"over_hours": 24' in editor.typed("when_json")
    nested = '{"any": [{"not": {"path": "/price", "op": "lt", "value": 5}}]}'
    editor.press("rows", when_json=nested)
    assert "rows cannot show them" in editor.words
    assert '"not"' in editor.typed("when_json")
    assert editor.press("dry", when_json="{oops") == 422
    assert "This is not JSON." in editor.words
    assert leads_to_what_is_wrong(editor.page)
    assert editor.typed("when_json") == "{oops"
    editor.press("dry", when_json=nested)
    assert editor.press("save") == 303
    assert newest(workspace).rules[0]["when"] == {
        "any": [{"not": {"path": "/price", "op": "lt", "value": 5}}]
    }


def test_somebody_saved_meanwhile(editor, saved, workspace, browser, join):
    editor.press("dry", name="Mine")
    bea = Editor(browser(join("bea", Role.ADMIN)))
    bea.press("dry", name="Theirs")
    assert bea.press("save") == 303
    assert editor.press("save") == 409
    assert "Bea" in editor.words
    assert "saved version 2" in editor.words
    assert editor.names[0] == "Mine"
    assert newest(workspace).rules[0]["name"] == "Theirs"
    # Knowing that, one may insist.
    editor.press("dry")
    assert editor.press("save") == 303
    policy = newest(workspace)
    assert (policy.version, policy.rules[0]["name"]) == (3, "Mine")


def test_an_old_version_is_restored_as_a_new_one(editor, saved, workspace):
    editor.press("delete:0")
    editor.press("dry")
    editor.press("save", note="No dear ones")
    page = Editor(editor.client, "/policies/versions?at=2&base=1").words
    assert "No dear ones" in page
    assert "v1 → v2" in page
    assert "1 removed" in page
    editor.look("?restore=1")
    assert "These are the rules of version 1." in editor.words
    assert versions() == 2
    editor.press("dry")
    assert editor.press("save") == 303
    assert rules_of(newest(workspace).rules) == rules_of(saved.rules)
    assert newest(workspace).version == 3


def test_many_versions_are_paged_and_the_oldest_is_still_there(
    editor, saved, workspace
):
    Policy.objects.bulk_create(
        Policy(workspace=workspace, version=n, note=f"change {n}.", rules=[CHEAP])
        for n in range(2, 121)
    )
    page = Editor(editor.client, "/policies/versions")
    assert page.page.count("change ") == 50
    assert "v120 in force" in page.words
    assert "change 71." in page.words
    assert "change 70." not in page.words
    page.look("?before=71")
    assert "change 70." in page.words
    assert "in force" not in page.words
    assert 'href="?before=21"' in page.page
    page.look("?before=21")
    assert page.page.count("restore<") == 20
    assert "Older" not in page.words
    # Two that are on no page together.
    page.look("?at=120&base=1")
    assert "v1 → v120" in page.words
    assert "1 removed" in page.words
    page.look("?before=1")
    assert "No older version" in page.words
    editor.look("?restore=1")
    assert "These are the rules of version 1." in editor.words
    assert editor.names == ["Dear bookings", "Cheap ones"]


def test_an_agent_has_a_policy_of_its_own(browser, ada, workspace, saved):
    editor = Editor(browser(ada), f"/policies/{DESK.name}/")
    assert "the workspace's rules, then the tool's own" in editor.words
    editor.press("new")
    editor.press("dry", name="Its own")
    assert editor.press("save") == 303
    agent = Agent.objects.unscoped(Reason.TEST).get(name=DESK.name)
    assert newest(workspace, agent).rules[0]["name"] == "Its own"
    assert newest(workspace) == saved


@pytest.mark.parametrize(
    "draft", ["", "{", "[1]", '{"a": 1}', "[" * 500, '[{"a": 1}, {"a": NaN}]']
)
def test_what_is_no_draft_is_said(editor, saved, draft):
    assert editor.press("dry", draft=draft) == 422
    assert "What was sent is no draft of rules." in editor.words
    assert editor.names == ["Dear bookings", "Cheap ones"]


def test_everybody_reads_and_admins_change(browser, saved, alice, auditor, viewer):
    for person in (alice, auditor, viewer):
        client = browser(person)
        page = client.get("/policies/?rule=1").content.decode()
        assert "/price is over 1000 and sum of /price over 24 h is over 5000.50" in page
        assert 'name="do"' not in page
        assert client.get("/policies/versions?at=1").status_code == 200
        assert client.post("/policies/", {"do": "dry"}).status_code == 403
    assert versions() == 1


def test_groups_are_named(editor, saved, workspace):
    group = Group.objects.create(workspace=workspace, name="Finance")
    editor.look("?rule=1")
    editor.press("dry", groups=[str(group.pk)])
    assert editor.press("save") == 303
    assert "2 of Finance" in editor.words
    editor.look("?rule=1")
    assert editor.press("dry", groups=["0" * 8 + str(group.pk)[8:]]) == 422
    assert "There is no such group in this workspace." in editor.words


def test_hits_are_counted_by_rule_over_all_versions(editor, saved, ada, workspace):
    again = Policy.objects.create(workspace=workspace, version=2, rules=saved.rules)
    for policy, action in ((saved, "ask"), (again, "auto_approve")):
        audit.record(ada, action, policy=policy.pk, rule="dear")
    audit.record(ada, "ask", policy=again.pk, rule="cheap")
    audit.record(ada, "ask", rule=None)
    editor.look()
    assert re.search(
        r"Dear bookings .*? 2 hits .*? Cheap ones .*? 1 hit ", editor.words
    )


def test_a_stored_policy_that_is_none_can_be_looked_at(editor, workspace):
    Policy.objects.create(
        workspace=workspace,
        version=1,
        rules=[{"id": 7, "terms": "x", "risks": 3, "when": [1]}, 5, DEAR],
    )
    editor.look("?rule=1")
    assert editor.status == 200
    assert "not a rule yet" in editor.words


@pytest.fixture
def asked(make_thread, alice):
    """Makes a request about a booking of 1200.00: asked(status="rejected")."""

    def make(status: str = "pending") -> Approval:
        [approval] = make_waiting(make_thread(owner=alice), alice)
        if status != "pending":
            calls = ToolCall.objects.unscoped(Reason.TEST)
            calls.filter(pk=approval.call_id).update(status=status)
        return approval

    return make


def test_a_dry_run_says_what_would_go_another_way(editor, asked):
    for status in ("rejected", "succeeded", "succeeded"):
        asked(status)
    editor.press("new")
    editor.press("dry", name="Let it run", tools="book", outcome="auto_approve")
    assert "1 call that people rejected would run unasked. book 1" in editor.words
    assert (
        "2 calls that people were asked about would run unasked. book 2" in editor.words
    )
    assert "would let pass what people rejected" in editor.words
    assert "Was 0 run · 3 ask · 0 refused" in editor.words
    assert "With these rules 3 run · 0 ask · 0 refused" in editor.words
    editor.press("dry", outcome="auto_reject", message="Never.")
    assert "3 calls that people were asked about would be refused." in editor.words
    editor.press("dry", outcome="require")
    assert "3 calls, nothing changes" in editor.words


def test_a_dry_run_opens_through_the_gate_and_changes_nothing(editor, asked, saved):
    asked()
    events = AuditEvent.objects.unscoped(Reason.TEST).filter(action="open")
    before = events.count()
    editor.press("dry")
    assert events.count() > before
    assert versions() == 1


def test_a_dry_run_lists_some_of_the_calls_that_would_go_another_way(
    editor, asked, make_thread, alice
):
    approval = asked("succeeded")
    (private,) = make_waiting(make_thread(owner=alice, visibility="private"), alice)
    calls = ToolCall.objects.unscoped(Reason.TEST)
    calls.filter(pk=private.call_id).update(status="succeeded")
    editor.press("new")
    editor.press("dry", name="No", tools="book", outcome="auto_reject", message="No.")
    listed = editor.page.partition('id="dry-samples"')[2].partition("</table>")[0]
    assert f'href="/inbox/{approval.pk}/"' in listed
    assert str(approval) in listed
    assert "Book TP 209, 1,200.00" in listed
    assert "was asked about → would be refused" in unescape(listed)
    assert str(private.pk) not in editor.page  # of a thread that ada does not see
    assert listed.count("<tr>") == 1 + 1
    opened = AuditEvent.objects.unscoped(Reason.TEST).filter(
        action="open", purpose="dry run of a policy"
    )
    assert private.thread_id not in {event.object_id for event in opened}


def test_a_call_is_tested_on_the_draft_before_it_is_saved(editor, saved):
    dear = '{"flight": "TP 209", "price": "6000"}'
    call = f"{DESK.name} book"
    before = versions()
    editor.press("test", try_call=call, try_arguments=dear)
    assert "would ask 2 people Rule 1 of 2, Dear bookings" in editor.words
    # As typed into the open rule, and not saved.
    editor.press(
        "test", name="Never", outcome="auto_reject", message="No.", try_call=call
    )
    assert "would be refused Rule 1 of 2, Never" in editor.words
    assert editor.typed("try_arguments").strip() == dear  # it is kept
    editor.press("new")
    editor.press("test", name="All", tools="book", outcome="stop_run", try_call=call)
    editor.press("up:2")
    editor.press("up:1")
    editor.press("test", try_call=call)
    assert "Rule 1 of 3, All" in editor.words
    for wrong, said in (
        ({"try_arguments": "{"}, "This is not JSON."),
        ({"try_arguments": "[]"}, "Arguments are an object"),
        ({"try_arguments": "{}"}, "/price is missing"),
        ({"try_call": "nobody book"}, "Choose a tool of an agent."),
    ):
        sent = {"try_call": call, "try_arguments": dear} | wrong
        assert editor.press("test", **sent) == 422
        assert said in editor.words
    assert editor.press("test", outcome="auto_reject", message="") == 422
    assert versions() == before
    assert not PolicyUse.objects.unscoped(Reason.TEST).exists()


def test_of_an_agents_own_draft_the_workspaces_rules_come_after(
    browser, ada, workspace, saved
):
    own = Editor(browser(ada), f"/policies/{DESK.name}/")
    own.press("new")
    own.press(
        "test",
        name="Own",
        tools="send",
        outcome="auto_approve",
        try_call=f"{DESK.name} book",
        try_arguments='{"flight": "TP 209", "price": "50"}',
    )
    assert "would run Cheap ones" in own.words  # of everyone's, in force


def make_sticky(approval: Approval) -> StickyRule:
    run = approval.run
    rule = StickyRule(
        workspace_id=run.workspace_id,
        agent=run.agent_version.agent,
        thread_id=run.thread_id,
        run=run,
        approval=approval,
        tool="book",
        scope=StickyRule.Scope.THREAD,
        made_by=run.started_by,
        expires_at=clock.now() + timedelta(days=2),
        hits=12,
    )
    when = {"all": [{"path": "/price", "op": "lte", "value": "1250"}]}
    rule.predicate = gate.seal(rule, "predicate", {"when": when})
    rule.save()
    return rule


def test_what_is_remembered_is_listed_and_revoked_in_one_click(
    editor, browser, alice, viewer, auditor, asked
):
    rule = make_sticky(asked("succeeded"))
    old = make_sticky(asked("succeeded"))
    StickyRule.objects.unscoped(Reason.TEST).filter(pk=old.pk).update(
        expires_at=clock.now() - timedelta(days=1)
    )
    assert "book for this thread" in editor.words
    assert "/price is at most 1250 · Alice , waiting-desk, 12 hits" in editor.words
    assert "Remembered 1" in editor.words
    sealed = Editor(browser(auditor))
    assert "/price" not in sealed.words
    assert "Alice , waiting-desk, 12 hits" in sealed.words
    assert f"revoke-{rule.pk}" not in Editor(browser(viewer)).page
    address = f"/policies/sticky/{rule.pk}/revoke"
    assert browser(viewer).post(address).status_code == 403
    answer = browser(alice).post(address, {"next": "/policies/"})
    assert (answer.status_code, answer["Location"]) == (303, "/policies/")
    rule = StickyRule.objects.unscoped(Reason.TEST).get(pk=rule.pk)
    assert rule.revoked_by_id == alice.user_id
    editor.look()
    assert "Nothing is remembered." in editor.words
    away = browser(alice).post(address, {"next": "//evil.example/"})
    assert away["Location"] == "/policies/"


def test_a_call_is_tested_and_the_rule_is_named(browser, alice, saved, auditor):
    desk = Editor(browser(alice), f"/agents/{DESK.name}/policies/")
    client, here = desk.client, desk.address

    def test(**typed: str) -> str:
        sent = {"tool": "book", "arg/flight": "TP 209", "arg/seats": "1", **typed}
        desk.take(client.post(here, sent))
        return desk.words

    before = versions()
    assert "would ask 2 people Rule 1 of 2, Dear bookings" in test(
        **{"arg/price": "6000"}
    )
    assert "not who started the run" in desk.words
    assert "would run Rule 2 of 2, Cheap ones" in test(**{"arg/price": "50"})
    assert "would run No rule matches" in test(**{"arg/price": "500"})
    assert "is a number without separators" in test(**{"arg/price": "1,000"})
    assert desk.status == 422
    pasted = {"as": "json", "json": '{"flight": "TP 209", "price": "6000"}'}
    assert "Rule 1 of 2, Dear bookings" in test(**pasted)
    assert "This is not JSON." in test(**{**pasted, "json": "{"})
    assert "Arguments are an object" in test(**{**pasted, "json": "[]"})
    assert "/price is missing" in test(**{**pasted, "json": '{"flight": "TP 209"}'})
    assert versions() == before
    assert not PolicyUse.objects.unscoped(Reason.TEST).exists()
    assert browser(auditor).post(here, {"tool": "book"}).status_code == 403
    assert "Test a call" not in Editor(browser(auditor), here).words
