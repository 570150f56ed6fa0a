"""The arguments of a request: typed, nothing hidden, the long ones opened before approval."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents.models import Approval
from agents.pure.terms import Terms
from checkpoints.access import Reason
from checkpoints.models import Group
from tests.agents.waiting import GOOD, make_waiting
from tests.pages.forms import hash_on_page

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def mira(client, alice) -> Client:
    client.force_login(User.objects.get(pk=alice.user_id))
    return client


@pytest.fixture
def asked(alice, make_thread):
    """A request to book this flight."""

    def asked(flight: str, **more) -> Approval:
        call = ("book", {**GOOD, "flight": flight})
        return make_waiting(make_thread(owner=alice), alice, call, **more)[0]

    return asked


def approve(client: Client, approval: Approval, **more):
    posted = {
        "decision": "approve",
        "revision": approval.revision,
        "digest": bytes(approval.digest).hex(),
        "shown": hash_on_page(client, approval),
        **more,
    }
    return client.post(f"/inbox/{approval.pk}/decide", posted)


def page_of(client: Client, approval: Approval, query: str = "") -> str:
    return client.get(f"/inbox/{approval.pk}/{query}").content.decode()


def status_of(approval: Approval) -> str:
    return Approval.objects.unscoped(Reason.TEST).get(pk=approval.pk).status


def token_in(page: str) -> str:
    return re.findall(r'name="read" value="(\w+)"', page)[0]


def test_what_an_argument_is_stands_beside_it(mira, asked):
    page = page_of(mira, asked("TP 209"))
    assert re.search(
        r"1200\.00</span>\s*<span class=\"faint small\">exact number", page
    )


def test_a_long_argument_is_opened_before_it_is_approved(mira, asked):
    request = asked("\n".join(f"line {n}" for n in range(40)))
    page = page_of(mira, request)
    assert "38 more lines" in page
    assert "line 39" in page  # without script, too, all of it is on the page
    answer = approve(mira, request)
    assert answer.status_code == 422
    assert "Open flight first" in answer.content.decode()
    assert status_of(request) == "pending"
    assert approve(mira, request, read=token_in(page)).status_code == 303
    assert status_of(request) == "approved"


def test_what_one_person_read_another_has_not(mira, asked, bob):
    request = asked("x" * 700)
    token = token_in(page_of(mira, request))
    ruth = Client()
    ruth.force_login(User.objects.get(pk=bob.user_id))
    assert approve(ruth, request, read=token).status_code == 422
    assert status_of(request) == "pending"


def test_what_was_read_of_one_request_was_not_read_of_another(mira, asked):
    one, other = asked("x" * 700), asked("x" * 700)
    token = token_in(page_of(mira, one))
    assert approve(mira, other, read=token).status_code == 422
    assert status_of(other) == "pending"


def test_a_megabyte_has_a_page_of_its_own_and_only_that_says_it_was_read(mira, asked):
    words = "all of it is shown. " * 52_429
    request = asked(words)
    page = page_of(mira, request)
    assert len(page) < 80_000
    assert not re.findall(r'name="read"', page)
    assert approve(mira, request).status_code == 422
    whole = mira.get(f"/inbox/{request.pk}/argument/0").content.decode()
    assert words in whole
    back = re.search(rf'href="/inbox/{request.pk}/(\?read=\w+)"', whole)
    assert back is not None
    page = page_of(mira, request, back[1])
    assert approve(mira, request, read=token_in(page)).status_code == 303
    assert status_of(request) == "approved"


@pytest.mark.parametrize("text", ["x" * 700, "x" * 30_000], ids=["long", "huge"])
def test_who_breaks_the_glass_has_opened_what_is_long(asked, join, workspace, text):
    """Also who is left out by the terms, and could not approve it as usual."""
    finance = Group.objects.create(workspace=workspace, name="Finance")
    request = asked(text, terms=Terms(groups=(str(finance.pk),)))
    ada = Client()
    admin = join("ada", "admin", can_approve=True)
    ada.force_login(User.objects.get(pk=admin.user_id))
    alone = {"decision": "break_glass", "reason": "Nobody of Finance is awake."}
    refused = approve(ada, request, **alone)
    assert refused.status_code == 422
    page = refused.content.decode()
    assert "Open flight first" in page
    assert "Nobody of Finance is awake." in page  # what was typed is kept
    assert status_of(request) == "pending"
    sheet = f"/inbox/{request.pk}/sheet/break_glass"
    page = ada.get(sheet).content.decode()
    if len(text) > 20_000:  # which has a page of its own
        assert not re.findall(r'name="read"', page)
        whole = ada.get(f"/inbox/{request.pk}/argument/0").content.decode()
        back = re.search(r"(\?read=\w+)", whole)
        assert back is not None
        page = ada.get(f"{sheet}{back[1]}").content.decode()
    assert re.search(r'name="read" value="\w+" form="sheet-form"', page)
    approve(ada, request, **alone, read=token_in(page))
    assert status_of(request) == "approved"


def test_who_may_not_decide_learns_that_and_not_what_to_open(asked, omar):
    request = asked("x" * 700)
    client = Client()
    client.force_login(User.objects.get(pk=omar.user_id))
    assert approve(client, request).status_code == 403


MISLEADING = pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pay\u202eexe.pdf", "1 character that turns the reading direction"),
        ("a\u200b\u200bb", "2 invisible characters"),
        ("go \U000e0069\U000e0067 now", "the tag characters spell “ig”"),
        ("\x1b[2Kok", "1 control character"),
        ("https://em\u0456rates.example", "xn--"),
        ("https://northwind.example@evil.example/x", "goes to evil.example"),
        ("https://xn--80ak6aa92e.example", "a host is not what it looks like"),
        ("p\u0430ypal", "letters of another alphabet"),
    ],
    ids=["bidi", "zero-width", "tag", "ansi", "host", "userinfo", "punycode", "word"],
)


@MISLEADING
def test_text_that_misleads_is_told_above_the_arguments(mira, asked, text, said):
    page = page_of(mira, asked(text))
    warned = page.partition('id="apr-hostile"')[2].partition("</div>")[0]
    assert said in warned
    assert text not in page or text.isascii()


@MISLEADING
def test_what_misleads_at_the_end_of_a_megabyte_is_told(mira, asked, text, said):
    page = page_of(mira, asked("all of it is shown. " * 52_429 + text))
    warned = page.partition('id="apr-hostile"')[2].partition("</div>")[0]
    assert said in warned


def test_hosts_without_number_are_named_a_few(mira, asked):
    page = page_of(mira, asked(" ".join(f"a@xn--{n}.example" for n in range(20_000))))
    assert "more hosts are not what they look like" in page
    assert page.count("a host is not what it looks like") <= 20


def test_plain_text_is_not_warned_of(mira, asked):
    page = page_of(mira, asked("Crème brûlée at 東京, write to ana@northwind.example"))
    assert "apr-hostile" not in page
