"""Before a fork, what differs of its agent; and a run at its limit of cost: as people see them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from agents.models import AgentVersion, Run
from agents.tools import registry
from agents.tools.versions import digest_of
from checkpoints import gate
from checkpoints.access import Reason, unscoped
from checkpoints.pure.schema import Migrations
from tests.browser import axe
from tests.browser.conftest import DESKTOP, PHONE
from tests.pages import conftest as trips

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.unmeasured,
]

make_trip, trip = trips.make_trip, trips.trip
NAME = "trip-planner"


@pytest.fixture(autouse=True)
def _no_walls():
    with unscoped(Reason.TEST):
        yield


@pytest.fixture
def changed(trip, monkeypatch):
    """The trip was planned by an older version: other prompt, tools and schema."""
    was = registry.agent(NAME)
    version = AgentVersion.objects.get(pk=trip.run.agent_version_id)
    version.spec = gate.seal(version, "spec", was.spec())
    version.digest = digest_of(version.workspace_id, was)
    version.save()
    migrations = Migrations()

    @migrations.add(from_version=1)
    def name_the_traveller(state):
        return {**state, "traveller": "Helen Marsh"}

    _, second, *others = was.tools
    now = replace(
        was,
        system="\n".join(f"Rule {n} of the new travel policy." for n in range(30)),
        model="another-model",
        tools=[replace(second, description="It looks further."), *others],
        schema_version=2,
        migrations=migrations,
    )
    monkeypatch.setitem(registry._agents, NAME, now)
    return trip


def look(page: Page, name: str) -> None:
    """Nothing is wrong with it, light and wide or dark and on a phone."""
    looks: list[tuple[Literal["light", "dark"], tuple[int, int]]]
    looks = [("light", DESKTOP), ("dark", PHONE)]
    for scheme, size in looks:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size({"width": size[0], "height": size[1]})
        assert not axe.violations(page), f"{name}, {scheme}"
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= size[0], f"{name} is {wide} px wide"


def test_what_differs_is_a_line_that_unfolds(open_, changed, alice):
    page = open_(f"{changed.page()}fork/{changed.at(2)}/", as_="alice")
    fold = page.locator("#fork-version")
    expect(fold).to_contain_text("trip-planner v1 took this step")
    expect(fold.locator(".kv")).to_be_hidden()
    look(page, "folded")
    fold.locator("summary").first.click()
    expect(fold.locator(".kv")).to_contain_text("name_the_traveller")
    expect(fold.get_by_text("Rule 29 of the new travel policy.")).to_be_hidden()
    look(page, "unfolded")
    fold.locator("details summary").first.click()
    expect(fold.get_by_text("Rule 29 of the new travel policy.")).to_be_visible()


def test_a_run_at_its_limit_is_retried_with_a_higher_one(open_, trip, alice):
    run = Run.objects.filter(pk=trip.run.pk)
    run.update(cost=Decimal("0.061"), max_cost=Decimal("0.2"))
    scripted = open_(trip.page(), as_="alice")
    expect(scripted.locator("#run-limit")).to_have_text("$0.061 of $0.20")
    look(scripted, "spending")
    run.update(status="failed", error_class="too_expensive", cost=Decimal("0.21"))
    page = open_(trip.page(), as_="alice", script=False)
    notice = page.locator("#cost-limit")
    expect(notice).to_contain_text("$0.210 of at most $0.20")
    notice.locator("input[name=max_cost]").fill("0.75")
    for name, path in (("runs", "/runs/"), ("limit", trip.page())):
        scripted.goto(path)
        look(scripted, name)
    notice.locator("button").click()
    assert Run.objects.get(retry_of=trip.run).max_cost == Decimal("0.75")
