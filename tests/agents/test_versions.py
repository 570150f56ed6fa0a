"""An agent's version: one row for one spec, a new one when anything changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest
from django.db import connection

from agents.models import AgentVersion
from agents.tools import Agent, Rule, tool
from agents.tools.versions import agent_version
from checkpoints import gate
from checkpoints.access import Reason, UserPrincipal
from checkpoints.models import Workspace


@tool(effect="write", title="Pay {amount}")
def pay(amount: str) -> str:
    return amount


DESK = Agent("desk", model="m", system="Pay what is asked.", tools=[pay])


@pytest.fixture
def versions(db):
    return AgentVersion.objects.unscoped(Reason.TEST)


def test_the_same_spec_is_the_same_version(workspace, versions):
    first = agent_version(workspace, DESK)
    assert (first.number, first.agent.name) == (1, "desk")
    assert agent_version(workspace, replace(DESK)) == first
    assert versions.count() == 1


@pytest.mark.parametrize(
    "change",
    [
        {"system": "Pay nothing."},
        {"model": "n"},
        {"seed": 7},
        {"tools": []},
        {"tools": [replace(pay, rule=Rule("stricter"))]},
        {"tools": [replace(pay, version="2")]},
        {"tools": [replace(pay, description="Pays.")]},
    ],
)
def test_any_change_makes_a_new_version(workspace, versions, change):
    first = agent_version(workspace, DESK)
    second = agent_version(workspace, replace(DESK, **change))
    assert second.number == 2
    assert second.agent == first.agent
    assert agent_version(workspace, DESK) == first


def test_code_without_source_is_the_same_version_in_every_process():
    """It is compiled anew in each, which has the code within it elsewhere."""

    def made(amount: int) -> str:
        here: dict[str, Any] = {}
        code = f"def pay(amount: str) -> str:\n    return max([amount], key=lambda x: {amount})"
        exec(code, here)  # noqa: S102  # code that has no file
        return tool(effect="write", title="Pay {amount}")(here["pay"]).version

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_its_spec_is_sealed_and_its_digest_differs_between_workspaces(
    workspace, other: UserPrincipal, alice
):
    ours = agent_version(workspace, DESK)
    theirs = agent_version(Workspace.objects.get(pk=other.workspace_id), DESK)
    assert theirs.number == 1
    assert bytes(ours.digest) != bytes(theirs.digest)
    assert b"Pay what is asked" not in bytes(ours.spec)


@pytest.mark.django_db(transaction=True)
def test_the_spec_opens_through_the_gate(workspace, alice):
    version = agent_version(workspace, DESK)
    spec = gate.admit(alice, purpose="test").open(version, "spec")
    assert spec["params"]["system"] == "Pay what is asked."
    assert spec["tools"][0]["rule"] == "pay has effects"


@pytest.mark.django_db(transaction=True)
def test_many_at_once_make_one(workspace, versions):
    gun = Barrier(4, timeout=30)

    def make(_: int) -> int:
        try:
            connection.ensure_connection()
            gun.wait()
            return agent_version(workspace, DESK).number
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(make, range(4))) == [1, 1, 1, 1]
    assert versions.count() == 1
