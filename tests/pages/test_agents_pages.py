"""The Agents pages: what there is, what its tools may, and what its versions were."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from html import unescape

import pytest

from agents.approvals import decide
from agents.models import Agent, AgentVersion, Approval, Policy, Run
from agents.runs.start import start_run
from agents.tools import registry
from agents.tools.versions import agent_version
from checkpoints import clock, gate
from checkpoints.access import Reason, Role
from checkpoints.errors import NotPermitted
from checkpoints.models import AuditEvent, Group
from tests.agents.waiting import DESK, make_run, make_waiting

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(browser, alice):
    return browser(alice)


def words(client, address: str, status: int = 200) -> str:
    """What a page says, without its markup."""
    answer = client.get(address)
    assert answer.status_code == status
    text = re.sub(r"<[^>]+>", " ", answer.content.decode())
    return re.sub(r"\s+", " ", unescape(text)).replace("\N{EN DASH}", "none")


def row(client, name: str) -> str:
    return words(client, "/agents/").split(f" {name} ", 1)[1]


def openings() -> int:
    return AuditEvent.objects.unscoped(Reason.TEST).filter(action="open").count()


@pytest.fixture
def deciding(make_thread, alice):
    """Makes a run that ended so, with its request decided so: deciding("approved")."""

    def decide(decided: str, run: str = "succeeded", cost: str = "0.50") -> Run:
        [approval] = make_waiting(make_thread(owner=alice), alice)
        Approval.objects.unscoped(Reason.TEST).filter(pk=approval.pk).update(
            status=decided,
            asked_at=clock.now() - timedelta(minutes=10),
            decided_at=clock.now() - timedelta(minutes=9),
        )
        runs = Run.objects.unscoped(Reason.TEST).filter(pk=approval.run_id)
        runs.update(status=run, cost=Decimal(cost))
        return runs.get()

    return decide


def test_the_table_says_how_the_week_went(client, deciding):
    for decided, run in (
        ("approved", "succeeded"),
        ("approved", "succeeded"),
        ("rejected", "failed"),
    ):
        deciding(decided, run)
    old = deciding("approved")
    Run.objects.unscoped(Reason.TEST).filter(pk=old.pk).update(
        created_at=clock.now() - timedelta(days=8)
    )
    Approval.objects.unscoped(Reason.TEST).filter(run=old).update(
        asked_at=clock.now() - timedelta(days=8)
    )
    found = row(client, "waiting-desk")
    assert re.match(
        r"v1 on m 2 no effect 4 external effect 0 3 67 % \$1.50 67 % ", found
    )
    page = words(client, "/agents/waiting-desk/")
    assert "Runs, 7 d 3 Succeeded 67 % Cost a run $0.500 Asked people 3" in page
    assert "Time to decide 1m 0s median" in page


def test_runs_of_threads_that_are_not_shared_do_not_count(
    client, browser, bob, deciding, make_thread
):
    make_run(make_thread(owner=bob, visibility="private"), bob)
    assert "0 0 none none none" in row(client, "waiting-desk")
    assert "0 1 none none none" in row(browser(bob), "waiting-desk")


def test_an_agent_that_no_code_registers_says_so(client, workspace):
    Agent.objects.create(workspace=workspace, name="of-yesterday")
    assert row(client, "of-yesterday").startswith("no code none none 0 0 none")
    page = words(client, "/agents/of-yesterday/")
    assert "No app that is installed here registers of-yesterday." in page
    for tab in ("tools", "policies", "versions"):
        assert client.get(f"/agents/of-yesterday/{tab}/").status_code == 200


def test_a_registered_agent_that_never_ran_is_there(client):
    assert "waiting-desk" in {agent.name for agent in registry}
    assert "Its first run makes version 1" not in words(client, "/agents/")
    page = words(client, "/agents/waiting-desk/")
    assert "It has not run in this workspace" in page


def test_an_agent_that_is_switched_off_starts_nothing(client, workspace):
    Agent.objects.create(workspace=workspace, name="waiting-desk", enabled=False)
    assert row(client, "waiting-desk").startswith("off ")
    assert "/runs/new" not in client.get("/agents/waiting-desk/").content.decode()


@pytest.fixture
def admin(join):
    return join("ada", Role.ADMIN, can_approve=True)


def test_an_admin_switches_an_agent_off_and_on(browser, admin, alice, make_thread):
    (asked,) = make_waiting(make_thread(owner=alice), alice)
    ada = browser(admin)
    address = "/agents/waiting-desk/"
    assert 'id="agent-off"' not in ada.get(address).content.decode()
    for _ in range(2):  # a second click changes nothing more
        ada.post(f"{address}switch", {"to": "off"})
    page = ada.get(address).content.decode()
    assert "waiting-desk is switched off" in page
    assert 'value="on"' in page
    with pytest.raises(NotPermitted, match="switched off"):
        start_run(agent="waiting-desk", message="Book.", by=alice)
    # What it asked before is decided as ever, and its run goes on.
    decide.approve(asked, seen=asked.as_shown(), by=admin)
    decided = Approval.objects.unscoped(Reason.TEST).select_related("run")
    assert decided.get(pk=asked.pk).run.status == Run.Status.READY
    ada.post(f"{address}switch", {"to": "on"})
    run = start_run(agent="waiting-desk", message="Book.", by=alice)
    assert run.status == Run.Status.READY
    found = AuditEvent.objects.unscoped(Reason.TEST).filter(object_type="agents.agent")
    assert [(event.action, event.actor_id) for event in found.order_by("position")] == [
        ("agent_off", admin.user_id),
        ("agent_on", admin.user_id),
    ]


def test_an_agent_that_never_ran_is_switched_off_too(browser, admin, alice):
    browser(admin).post("/agents/waiting-desk/switch", {"to": "off"})
    assert not Agent.objects.unscoped(Reason.TEST).get(name="waiting-desk").enabled
    with pytest.raises(NotPermitted, match="switched off"):
        start_run(agent="waiting-desk", message="Book.", by=alice)


def test_only_admins_switch_and_only_what_there_is(client, browser, admin):
    assert (
        'id="agent-switch"' not in client.get("/agents/waiting-desk/").content.decode()
    )
    assert client.post("/agents/waiting-desk/switch", {"to": "off"}).status_code == 403
    ada = browser(admin)
    assert ada.post("/agents/nobody/switch", {"to": "off"}).status_code == 404
    assert ada.post("/agents/waiting-desk/switch", {"to": "away"}).status_code == 400
    assert not Agent.objects.unscoped(Reason.TEST).filter(enabled=False).exists()


def test_an_unknown_agent_is_not_found(client):
    for tab in ("", "tools/", "policies/", "versions/"):
        assert client.get(f"/agents/nobody/{tab}").status_code == 404


def test_tools_say_what_they_take_and_which_rule_asks(client):
    page = words(client, "/agents/waiting-desk/tools/")
    assert "book external effect high risk" in page
    assert "Its own rule asks 1 dear: /price is over 1000" in page
    assert "price * required number, exact" in page
    assert "seats integer" in page
    assert "same key, one effect" in page
    assert "ask_traveller no effect" in page


def test_policies_come_before_the_tools_own_rule(client, workspace, alice):
    agent = Agent.objects.create(workspace=workspace, name="waiting-desk")
    group = Group.objects.create(workspace=workspace, name="Finance")
    dear = {
        "id": "r1",
        "name": "dear seats",
        "tools": "bo*",
        "when": {
            "all": [
                {"path": "/price", "op": "gt", "value": "500"},
                {"sum": "/price", "over_hours": 24, "op": "gt", "value": 5000},
            ]
        },
        "outcome": "require",
        "terms": {"approvers": 2, "groups": [str(group.pk)], "deadline": 21600},
    }
    refused = {"id": "r2", "name": "no", "tools": "*", "outcome": "auto_reject"}
    Policy.objects.create(workspace=workspace, version=1, rules=[dear])
    Policy.objects.create(workspace=workspace, version=2, rules=[refused])
    Policy.objects.create(workspace=workspace, agent=agent, version=1, rules=[dear])
    page = words(client, "/agents/waiting-desk/policies/")
    order = ["its own policy v1", "the workspace v2", "the tool, in code"]
    assert [page.index(said) for said in order] == sorted(
        page.index(said) for said in order
    )
    assert "the workspace v1" not in page
    assert "2 of Finance" in page
    assert "/price is over 500 and sum of /price over 24 h is over 5000" in page
    assert "within 6 h, then it is rejected" in page
    tools = words(client, "/agents/waiting-desk/tools/")
    assert "Policy 2 of Finance dear seats" in tools
    assert row(client, "waiting-desk").startswith(
        "on m 2 no effect 4 external effect 2"
    )


def test_a_rule_that_no_page_knows_is_shown_as_it_is(client, workspace):
    rules = [{"id": "r", "tools": "*", "outcome": "dance", "when": {"moon": 1}}, 7]
    Policy.objects.create(workspace=workspace, version=1, rules=rules)
    page = words(client, "/agents/waiting-desk/policies/")
    assert "dance" in page
    assert '{"moon": 1}' in page
    assert "not a rule" in page


@pytest.fixture
def versions(workspace):
    """Three versions of the desk; the second has another prompt than the first."""
    first = agent_version(workspace, DESK)
    for number, prompt in ((2, "Book, and ask first."), (3, "Ask first.")):
        version = AgentVersion(
            workspace=workspace,
            agent=first.agent,
            number=number,
            digest=bytes([number]),
        )
        spec = {**DESK.spec(), "params": {**DESK.params(), "system": prompt}}
        version.spec = gate.seal(version, "spec", spec)
        version.save()
    return first.agent


def test_a_list_of_versions_opens_nothing(client, versions):
    before = openings()
    page = words(client, "/agents/waiting-desk/versions/")
    assert "v3 newest" in page
    assert "Book, and ask first." not in page
    assert openings() == before


def test_what_a_version_holds_is_opened_and_recorded(client, versions):
    before = openings()
    page = words(client, "/agents/waiting-desk/versions/?at=2")
    assert "Book, and ask first." in page
    assert openings() == before + 1
    event = AuditEvent.objects.unscoped(Reason.TEST).filter(action="open").latest("at")
    assert event.purpose == "agent version"


def test_any_two_versions_are_compared(client, versions):
    page = words(client, "/agents/waiting-desk/versions/?at=3&base=1")
    assert "v1 → v3" in page
    assert "/params/system text" in page
    assert "Book . + Ask first ." in page
    same = words(client, "/agents/waiting-desk/versions/?at=2&base=2")
    assert "The two are the same." in same


@pytest.mark.parametrize(
    "query", ["at=9", "at=x", "at=", "at=1&base=9", "at=" + "9" * 40]
)
def test_a_version_that_is_not_there(client, versions, query):
    before = openings()
    page = words(client, f"/agents/waiting-desk/versions/?{query}")
    assert "There is no such version" in page
    assert openings() == before


def test_an_auditor_sees_that_there_are_versions_and_not_what_they_hold(
    browser, auditor, versions
):
    client = browser(auditor)
    page = words(client, "/agents/waiting-desk/versions/")
    assert "v3 newest" in page
    assert "?at=" not in client.get("/agents/waiting-desk/versions/").content.decode()
    assert client.get("/agents/waiting-desk/versions/?at=2").status_code == 403


def test_a_version_that_does_not_open_hides_nothing_else(client, versions):
    AgentVersion.objects.unscoped(Reason.TEST).filter(number=2).update(spec=b"x" * 200)
    page = words(client, "/agents/waiting-desk/versions/?at=2")
    assert "It does not open." in page
    assert "v3 newest" in page
