"""The thread's page: a step, its diff, its tabs, and who sees what of them."""

from __future__ import annotations

import pytest

TABS = ["diff", "state", "messages", "context", "effects", "raw"]


def test_the_page_opens_at_the_tip_of_the_branch_at_work(browser, trip, alice):
    page = browser(alice).get(trip.page()).content.decode()
    assert "Board week New York" in page
    assert 'id="step-4"' in page
    assert "waiting for a person" in page
    assert f"APR-{trip.approval.number}" in page


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("step", range(5))
def test_every_tab_shows_every_step(browser, trip, alice, tab, step):
    response = browser(alice).get(trip.page(step), {"tab": tab})
    assert response.status_code == 200
