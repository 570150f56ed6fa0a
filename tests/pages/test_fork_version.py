"""The fork page, where another version of the agent would run the fork."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest

from agents.models import AgentVersion, Run
from agents.runs import start
from agents.tools import registry
from agents.tools.agent import Agent
from agents.tools.versions import agent_version
from checkpoints.access import Reason, unscoped
from checkpoints.log.append import StepMeta
from checkpoints.models import AuditEvent, Branch, Checkpoint
from tests.pages.conftest import STATE, append, reply
from tests.workers.desk.agents import book, brusque, look, scribe

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_walls():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def deploy(monkeypatch):
    """Another code of an agent is deployed: deploy(scribe, system="…")."""

    def deploy(agent: Agent, **changes) -> None:
        monkeypatch.setitem(registry._agents, agent.name, replace(agent, **changes))

    return deploy


@pytest.fixture
def made(make_thread, alice):
    """Makes a thread on which the agent took step 1: made(scribe)."""

    def made(agent: Agent, *, schema: int | None = None, **facts) -> Branch:
        state = {**STATE, "_schema": schema or agent.schema_version, "facts": facts}
        branch = make_thread(owner=alice, state=state)
        start.send_message(branch, message="Go on.", by=alice, agent=agent.name)
        run = Run.objects.get(branch=branch)
        Run.objects.update(status=Run.Status.SUCCEEDED)
        step = reply("Done.")
        meta = StepMeta(run=run.pk, agent_version=run.agent_version_id)
        return append(branch, replace(step, meta=meta))

    return made


@pytest.fixture
def fork_page(browser, alice):
    def fork_page(branch: Branch, step: int = 1) -> str:
        at = Checkpoint.objects.get(branch=branch, step=step)
        answer = browser(alice).get(f"/threads/{branch.thread_id}/fork/{at.pk}/")
        assert answer.status_code == 200
        return answer.content.decode()

    return fork_page


def told(page: str) -> str:
    """What the page says of versions, without markup; nothing where it says nothing."""
    found = re.search(
        r'<details class="card" id="fork-version".*?</summary>.*', page, re.S
    )
    if found is None:
        return ""
    text = found[0].partition('<div class="cols">')[0]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def line(page: str) -> str:
    found = re.search(r'id="fork-version".*?</summary>', page, re.S)
    assert found
    return " ".join(unescape(re.sub(r"<[^>]*>?", " ", found[0])).split())


def test_nothing_is_said_where_the_same_version_would_run(made, fork_page):
    branch = made(brusque)
    before = AuditEvent.objects.filter(action="open").count()
    assert told(fork_page(branch)) == ""
    assert AuditEvent.objects.filter(action="open").count() == before + 1  # the thread


def test_what_differs_is_said_before_a_fork_is_made(made, fork_page, deploy):
    branch = made(brusque)
    deploy(
        brusque,
        system="You book, and say so.",
        model="other-model",
        temperature=0.5,
        tools=[look],
    )
    page = fork_page(branch)
    assert (
        "test-reject v1 took this step, test-reject as it is now runs the fork"
        " differs in model, system prompt, temperature, 2 tools" in line(page)
    )
    said = told(page)
    assert "The fork keeps its own prompt, model and parameters" in said
    assert "look added read" in said
    assert "book removed external effect" in said
    assert "/params/system" in said
    assert "/params/model" in said
    assert "schema version" not in line(page)
    assert "?at=" not in page  # what did not run yet has no page


def test_a_version_that_ran_is_named_and_both_can_be_looked_at(
    made, fork_page, deploy, workspace
):
    branch = made(brusque)
    deploy(brusque, system="You book, and say so.")
    agent_version(workspace, registry.agent(brusque.name))
    page = fork_page(branch)
    assert (
        "v1 took this step, test-reject v2 runs the fork differs in system prompt"
        in line(page)
    )
    assert '"/agents/test-reject/versions/?at=2&base=1"' in unescape(page)


def test_a_tool_that_changed_says_what_of_it(made, fork_page, deploy):
    branch = made(brusque)
    deploy(brusque, tools=[replace(book, effect="write", description="Books it all.")])
    said = told(fork_page(branch))
    assert "book changed, from external effect to write description" in said
    assert "keeps its own" not in said


def test_a_long_prompt_is_folded(made, fork_page, deploy):
    deploy(brusque, system="\n".join(f"Rule {n}" for n in range(30)))
    branch = made(registry.agent(brusque.name))
    deploy(brusque, system="\n".join(f"Law {n}" for n in range(30)))
    page = fork_page(branch)
    assert re.search(
        r"<details>\s*<summary class=.path.><code hx-ignore>/params/system", page
    )
    assert "Law 29" in told(page)


def test_policies_of_what_a_run_is_sent_are_named(made, fork_page, deploy):
    branch = made(brusque)
    deploy(brusque, resume="as_is")
    page = fork_page(branch)
    assert "runs the fork differs in what it goes on from" in line(page)
    assert "/resume" in told(page)


def test_older_state_names_the_migrations_that_would_run(made, fork_page):
    branch = made(scribe, schema=1, name="Helen")
    page = fork_page(branch)
    assert line(page).endswith("The state is older than the agent schema version")
    assert (
        "schema version 1 → 3; before its first step the run does"
        " name_the_traveller (from 1), then note_the_goal (from 2)" in told(page)
    )
    assert "would fail" not in page


def test_a_new_schema_version_is_said_with_what_else_differs(made, fork_page, deploy):
    deploy(scribe, schema_version=1, migrations=type(scribe.migrations)())
    branch = made(registry.agent(scribe.name))
    deploy(scribe, system="You write it all down.")
    page = fork_page(branch)
    assert "runs the fork differs in schema version, system prompt" in line(page)
    assert "schema version 1 → 3" in told(page)


def test_a_migration_that_fails_is_known_before(made, fork_page):
    page = fork_page(made(scribe, schema=1, **{"breaks by": "raising"}))
    assert "its run would fail" in line(page)
    assert "The migration from schema version 2 raised KeyError" in told(page)
    assert '<details class="card" id="fork-version" open>' in page


def test_the_step_of_a_person_is_of_the_version_that_worked_there(
    made, fork_page, deploy
):
    branch = made(brusque)
    deploy(brusque, seed=8)
    assert "test-reject v1 took this step" in line(fork_page(branch, step=0))


def test_another_agent_that_worked_last_on_the_thread_runs_it(made, fork_page, alice):
    branch = made(brusque)
    branch = Branch.objects.get(pk=branch.pk)
    start.send_message(branch, message="Write.", by=alice, agent=scribe.name)
    said = line(fork_page(branch))
    assert "test-reject v1 took this step, test-scribe v1 runs the fork" in said
    assert "another agent" in said


def test_an_agent_that_is_gone_promises_nothing(made, fork_page, monkeypatch):
    branch = made(brusque)
    monkeypatch.delitem(registry._agents, brusque.name)
    assert told(fork_page(branch)) == ""


def test_a_version_that_does_not_open_hides_nothing_else(made, fork_page, deploy):
    branch = made(brusque)
    AgentVersion.objects.update(spec=b"x" * 200)
    deploy(brusque, seed=8)
    page = fork_page(branch)
    assert "what it was does not open" in line(page)
    assert 'id="fork-name-h"' in page


def test_hostile_words_are_text(made, fork_page, deploy):
    branch = made(brusque)
    deploy(brusque, system="<script>alert(1)</script>")
    page = fork_page(branch)
    assert "<script>alert(1)" not in page
