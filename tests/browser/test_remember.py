"""The sheet of “Approve and remember…”, by keys and by hand."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from agents.models import Approval, StickyRule
from checkpoints.access import Reason
from tests.agents.waiting import make_waiting
from tests.browser.conftest import DESKTOP, PHONE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def asked(make_thread, alice) -> Approval:
    (asked,) = make_waiting(make_thread(owner=alice), alice)
    return asked


def test_a_key_opens_it_and_a_change_tries_it(asked, open_, bob):
    page = open_(f"/inbox/{asked.pk}/", as_="bob", size=DESKTOP)
    expect(page.locator("#apr-actions")).to_be_visible()
    page.keyboard.press("Shift+A")
    sheet = page.locator("#apr-sheet")
    expect(sheet).to_contain_text("Approve and remember")
    expect(sheet.locator("#backtest")).to_contain_text("Not tried yet")
    sheet.locator("[name=how-1]").select_option("lte")
    line = "In the last 30 days this would have approved 1 request"
    expect(sheet.locator("#backtest")).to_contain_text(line)
    expect(sheet.locator("[name=how-1]")).to_have_value("lte")
    sheet.get_by_text("this agent").click()
    sheet.get_by_role("button", name="Try it on the last 30 days").click()
    expect(sheet.locator("#backtest")).to_contain_text(line)
    sheet.get_by_role("button", name="Save rule and approve").click()
    expect(page.locator("#apr-outcome")).to_be_visible()
    (rule,) = StickyRule.objects.unscoped(Reason.TEST)
    assert (rule.scope, rule.approval_id) == ("agent", asked.pk)


def test_on_a_phone_without_script(asked, open_, bob):
    page = open_(f"/inbox/{asked.pk}/remember", as_="bob", script=False, size=PHONE)
    page.locator("[name=ends]").select_option("720")
    page.get_by_role("button", name="Try it on the last 30 days").click()
    expect(page.locator("#backtest")).to_contain_text("would have approved 1 request")
    expect(page.locator("[name=ends]")).to_have_value("720")
    wide = page.locator("body").evaluate("body => body.scrollWidth")
    assert wide <= PHONE[0]
    page.get_by_role("button", name="Save rule and approve").click()
    page.wait_for_url(f"**/inbox/{asked.pk}/")
    assert StickyRule.objects.unscoped(Reason.TEST).count() == 1
