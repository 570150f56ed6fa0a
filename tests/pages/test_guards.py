"""A request that may not be so any more: what its page says, asks for, and refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents.approvals import guards
from agents.approvals.ask import Request, ask
from agents.approvals.decide import approve
from agents.approvals.given import hash_of_shown
from agents.errors import NotAsShown
from agents.models import Approval, Decision
from agents.pure.terms import Terms
from agents.runs import looks
from agents.tools import registry
from checkpoints.access import Reason, RunPrincipal, unscoped
from tests.agents.waiting import COSTS, make_waiting
from tests.pages.forms import hash_on_page

pytestmark = pytest.mark.django_db(transaction=True)

BOOTH = {"what": "booth", "price": "1200.00"}
LOAD = 'hx-trigger="load, submit"'


@pytest.fixture
def signed_in(client):
    def sign_in(principal):
        client.force_login(User.objects.get(pk=principal.user_id))
        return client

    return sign_in


@pytest.fixture(autouse=True)
def costs() -> Iterator[dict[str, str]]:
    """What things cost by now."""
    yield COSTS
    COSTS.clear()


@pytest.fixture
def booth(alice, make_thread) -> Approval:
    """A run wants to rent a booth for 1,200 and waits."""
    return make_waiting(make_thread(owner=alice), alice, ("rent", BOOTH))[0]


def fresh(approval: Approval) -> Approval:
    return Approval.objects.unscoped(Reason.TEST).get(pk=approval.pk)


def text_of(page) -> str:
    return " ".join(page.content.decode().split())


def checked(client, approval: Approval) -> str:
    """The page after someone asked for a check, and a worker made it."""
    answer = client.post(f"/inbox/{approval.pk}/check")
    assert (answer.status_code, answer["Location"]) == (303, f"/inbox/{approval.pk}/")
    assert fresh(approval).is_being_checked
    assert "Checking whether this is still so…" in text_of(
        client.get(answer["Location"])
    )
    looks.check(approval.pk)
    return text_of(client.get(answer["Location"]))


def decide(client, approval: Approval, decision: str, **typed: str | list[str]):
    now = fresh(approval)
    posted = {
        "decision": decision,
        "revision": str(now.revision),
        "digest": bytes(now.digest).hex(),
        "shown": hash_on_page(client, approval),
        **typed,
    }
    return client.post(f"/inbox/{approval.pk}/decide", posted)


def test_the_page_says_what_would_happen_and_for_how_long_it_can_be_undone(
    signed_in, alice, booth
):
    text = text_of(signed_in(alice).get(f"/inbox/{booth.pk}/"))
    assert "Reversible for 24 hours" in text
    assert "As it was asked." in text
    assert "The message" in text
    assert "fair@example.org" in text
    assert "booth &lt;b&gt;" in text
    assert "We take it for 1200.00." in text


def test_a_page_that_is_opened_later_has_the_guard_look_by_a_post(
    signed_in, alice, booth
):
    client = signed_in(alice)
    assert LOAD not in client.get(f"/inbox/{booth.pk}/").content.decode()
    old = timezone.now() - timedelta(minutes=2)
    Approval.objects.unscoped(Reason.TEST).update(guard_checked_at=old)
    assert LOAD in client.get(f"/inbox/{booth.pk}/").content.decode()
    assert not fresh(booth).is_being_checked  # a GET changes nothing
    assert client.get(f"/inbox/{booth.pk}/check").status_code == 405
    # What is typed into a form is not swept away by an answer.
    for form in ("edit", "reject"):
        page = client.get(f"/inbox/{booth.pk}/{form}").content.decode()
        assert LOAD not in page
        assert "apr-check" not in page
    htmx = {"HX-Request": "true"}
    answer = client.post(f"/inbox/{booth.pk}/check", headers=htmx).content.decode()
    assert 'hx-trigger="every 1s"' in answer
    assert LOAD not in answer
    looks.check(booth.pk)
    part = client.get(f"/f/inbox/{booth.pk}/", headers=htmx)
    assert LOAD not in part.content.decode()
    assert "every 1s" not in part.content.decode()
    same = {**htmx, "HX-PTag": part["HX-PTag"]}
    assert client.get(f"/f/inbox/{booth.pk}/", headers=same).status_code == 304


def test_old_and_new_stand_side_by_side_and_the_new_one_is_approved(
    signed_in, alice, booth, costs
):
    client = signed_in(alice)
    stale = decide_form(booth)
    costs["booth"] = "1500.00"
    text = checked(client, booth)
    assert "Changed since it was asked." in text
    assert "booth was 1200.00, is 1500.00." in text
    for cell in ("1,200.00", "1,500.00", "+300.00, +25 %"):
        assert f"{cell}</td>" in text
    assert "<code hx-ignore>place</code>" in text
    assert "Let pass without asking: price 2%." in text
    assert "was <span hx-ignore>1200.00</span>" in text  # in the arguments
    assert "We take it for 1500.00." in text
    htmx = {"HX-Request": "true"}
    lost = client.post(f"/inbox/{booth.pk}/decide", stale, headers=htmx)
    assert lost.status_code == 409
    assert "revision 1, now 2" in lost.content.decode()
    assert decide(client, booth, "approve").status_code == 303
    assert fresh(booth).status == "approved"


def test_a_value_within_a_value_that_changed_is_not_said_to_be_the_same(
    signed_in, alice, make_thread, costs
):
    costs["place"] = {"hall": 3, "row": 1}
    booth = make_waiting(make_thread(owner=alice), alice, ("rent", BOOTH))[0]
    costs.update(booth="1500.00", place={"hall": 4, "row": 1})
    text = checked(signed_in(alice), booth)
    assert "<code hx-ignore>place/hall</code>" in text
    assert "<code hx-ignore>place</code>" not in text


def test_a_price_beyond_measure_is_shown(signed_in, alice, booth, costs):
    costs["booth"] = f"1{'0' * 40}"
    text = checked(signed_in(alice), booth)
    assert f"10{',000' * 13}.00</td>" in text or f"10{',000' * 13}</td>" in text
    assert "Changed since it was asked." in text


def test_the_inbox_says_that_it_changed_and_what_it_asks_now(
    signed_in, alice, booth, costs
):
    client = signed_in(alice)
    before = text_of(client.get("/inbox/"))
    assert "Rent booth, 1,200.00" in before
    assert "changed" not in listed(before)
    part = f"/f/inbox/?shown={booth.number}"
    tag = client.get(part, headers={"HX-Request": "true"})["HX-PTag"]
    costs["booth"] = "1500.00"
    page = checked(client, booth)
    assert "changed since asked</span>" in page
    assert "<span hx-ignore>Rent booth, 1,500.00</span> </h2>" in page
    rows = listed(text_of(client.get("/inbox/")))
    assert "Rent booth, 1,500.00" in rows
    assert "1,200.00" not in rows
    assert re.search(r'<span class="chip amber">.{,200}changed</span>', rows)
    together = client.get("/inbox/batch", {"do": "approve", "id": booth.pk})
    assert "Rent booth, 1,500.00" in text_of(together)
    same = {"HX-Request": "true", "HX-PTag": tag}
    assert client.get(part, headers=same).status_code == 200
    found = listed(text_of(client.get("/inbox/?q=1,500")))
    assert "Rent booth, 1,500.00" in found
    costs["booth"] = "gone"
    checked(client, booth)
    rows = listed(text_of(client.get("/inbox/")))
    assert re.search(r'<span class="chip red">.{,200}no longer valid</span>', rows)


def listed(text: str) -> str:
    """The list alone."""
    return text.partition('id="inbox-list"')[2].partition("</section>")[0]


def decide_form(approval: Approval) -> dict[str, str]:
    return {
        "decision": "approve",
        "revision": str(approval.revision),
        "digest": bytes(approval.digest).hex(),
    }


def test_an_edit_begins_with_what_is_asked_now(signed_in, alice, booth, costs):
    client = signed_in(alice)
    costs["booth"] = "1500.00"
    checked(client, booth)
    text = text_of(client.get(f"/inbox/{booth.pk}/edit"))
    assert 'value="1500.00"' in text
    assert 'value="1200.00"' not in text


def test_what_is_no_longer_valid_is_not_approved(signed_in, alice, booth, costs):
    client = signed_in(alice)
    costs["booth"] = "gone"
    text = checked(client, booth)
    assert "This cannot be approved any more:" in text
    assert "booth is &lt;b&gt;sold&lt;/b&gt; out" in text
    buttons = text.partition('id="apr-actions"')[2].partition("</form>")[0]
    assert "Reject…" in buttons
    assert 'value="approve"' not in buttons  # but who sends it is refused
    refused = decide(client, booth, "approve")
    assert refused.status_code == 422
    assert "no longer valid" in refused.content.decode()
    assert not Decision.objects.unscoped(Reason.TEST).exists()
    assert decide(client, booth, "reject", reason="Sold out.").status_code == 303
    assert fresh(booth).status == "rejected"


def test_who_approves_what_was_looked_at_too_long_ago_reads_that_it_is_looked_at(
    signed_in, alice, booth
):
    client = signed_in(alice)
    old = timezone.now() - timedelta(minutes=10)
    Approval.objects.unscoped(Reason.TEST).update(guard_checked_at=old)
    refused = decide(client, booth, "approve")
    assert refused.status_code == 422
    text = refused.content.decode()
    assert "It is looked at again now" in text.partition('id="apr-errors"')[2]
    assert "Checking whether this is still so" in text
    assert not Decision.objects.unscoped(Reason.TEST).exists()
    looks.check(booth.pk)
    assert decide(client, booth, "approve").status_code == 303
    assert fresh(booth).status == "approved"


def test_what_is_past_its_deadline_says_that_before_it_is_looked_at_again(
    signed_in, alice, booth
):
    old = timezone.now() - timedelta(minutes=10)
    Approval.objects.unscoped(Reason.TEST).update(
        guard_checked_at=old, due_at=old, terms={**fresh(booth).terms, "then": "reject"}
    )
    client = signed_in(alice)
    late = decide(client, booth, "approve")
    said = text_of(client.get(late["Location"]))
    assert "This was expired on" in said
    assert "looked at again" not in said
    assert fresh(booth).status == "expired"


def test_a_look_that_was_taken_before_another_is_not_put_on_the_request(alice, booth):
    """A worker that was frozen over it comes back."""
    guards.ask_check(booth, alice)
    row = guards.waiting_for(booth.pk)
    assert row is not None
    tool = registry.tool(row.run.agent_version.agent.name, row.call.tool)
    principal = RunPrincipal(
        row.run_id, row.workspace_id, row.thread_id, row.run.grant_id
    )
    frozen = looks.look_again(row, tool, principal)
    looks.check(booth.pk)
    kept = fresh(booth).guard_checked_at
    assert not looks.put_on(row, frozen, tool, principal)
    assert fresh(booth).guard_checked_at == kept


def test_what_could_not_be_checked_says_so(signed_in, alice, booth, costs):
    costs["booth"] = "unknown"
    text = checked(signed_in(alice), booth)
    assert "It could not be checked whether this is still so." in text


def test_a_request_without_a_guard_has_nothing_to_check(signed_in, alice, make_thread):
    (plain,) = make_waiting(make_thread(owner=alice), alice)
    client = signed_in(alice)
    assert "apr-check" not in client.get(f"/inbox/{plain.pk}/").content.decode()
    assert client.post(f"/inbox/{plain.pk}/check").status_code == 303
    assert not fresh(plain).is_being_checked


def test_auditors_and_strangers_have_nothing_checked(signed_in, auditor, other, booth):
    for person, status in ((auditor, 403), (other, 404)):
        answer = signed_in(person).post(f"/inbox/{booth.pk}/check")
        assert answer.status_code == status
    assert not fresh(booth).is_being_checked


def shown_on(page: str) -> str:
    return page.partition('name="shown" value="')[2].partition('"')[0]


@pytest.mark.parametrize(
    ("decision", "typed"),
    [
        ("approve", {}),
        ("edit", {"arg/what": "stall", "arg/price": "1100.00"}),
        ("break_glass", {"reason": "The fair opens in an hour."}),
    ],
)
def test_what_its_preview_says_by_now_was_shown_or_nothing_is_decided(
    signed_in, join, alice, make_thread, costs, decision, typed
):
    """A preview that changed makes no revision: what the page showed is what counts."""
    terms = Terms(approvers=2) if decision == "break_glass" else None
    (booth,) = make_waiting(
        make_thread(owner=alice), alice, ("rent", BOOTH), terms=terms
    )
    client = signed_in(join("ada", "admin", can_approve=True))
    before = shown_on(client.get(f"/inbox/{booth.pk}/").content.decode())
    costs["postscript"] = " And all that stands in it."
    assert "And all that stands in it." in checked(client, booth)
    assert fresh(booth).revision == 1
    posted = {**decide_form(booth), "decision": decision, "shown": before, **typed}
    htmx = {"HX-Request": "true"}
    lost = client.post(f"/inbox/{booth.pk}/decide", posted, headers=htmx)
    page = lost.content.decode()
    assert lost.status_code == 409
    assert "is not what was shown" in page
    assert "And all that stands in it." in page
    assert all(text in page for text in typed.values())
    assert fresh(booth).is_pending
    posted["shown"] = shown_on(page)
    assert posted["shown"] != before
    assert client.post(f"/inbox/{booth.pk}/decide", posted).status_code == 303
    assert fresh(booth).status == "approved"


def test_a_look_that_finds_the_same_lets_an_open_page_decide(signed_in, alice, booth):
    client = signed_in(alice)
    shown = shown_on(client.get(f"/inbox/{booth.pk}/").content.decode())
    kept = fresh(booth).preview
    checked(client, booth)
    assert fresh(booth).preview == kept
    assert decide(client, booth, "approve", shown=shown).status_code == 303


def test_a_look_between_page_and_decision_is_seen_under_the_locks(alice, booth, costs):
    opened = fresh(booth)
    costs["postscript"] = " And all that stands in it."
    guards.ask_check(booth, alice)
    looks.check(booth.pk)
    shown = hash_of_shown(opened, "what the page showed")
    with pytest.raises(NotAsShown):
        approve(opened, seen=opened.as_shown(), by=alice, shown=shown)
    assert fresh(booth).is_pending


LONG = "\n".join(f"line {n}" for n in range(40))


@pytest.fixture
def poster(alice, make_thread):
    """A request to announce this, of a tool with a preview and without a guard."""

    def poster(text: str = "Open", **terms) -> Approval:
        thread, call = make_thread(owner=alice), ("announce", {"text": text})
        return make_waiting(thread, alice, call, terms=Terms(**terms))[0]

    return poster


def tokens_in(page: str) -> list[str]:
    return re.findall(r'name="read" value="(\w+)"', page)


def preview_on(page: str) -> str:
    return page.partition('id="apr-preview"')[2].partition("</section>")[0]


@pytest.mark.parametrize("decision", ["approve", "break_glass", "edit"])
def test_a_long_preview_is_opened_before_what_it_shows_goes_ahead(
    signed_in, join, alice, make_thread, costs, decision
):
    """An edit that changes nothing is an approval."""
    costs["postscript"] = f"\n{LONG}"
    terms = Terms(approvers=2) if decision == "break_glass" else None
    (booth,) = make_waiting(
        make_thread(owner=alice), alice, ("rent", BOOTH), terms=terms
    )
    client = signed_in(join("ada", "admin", can_approve=True))
    page = client.get(f"/inbox/{booth.pk}/").content.decode()
    assert "41 more lines" in preview_on(page)
    assert "line 39" in preview_on(page)  # without script, too
    (token,) = tokens_in(page)
    typed = {"reason": "Nobody is awake.", "arg/what": "booth"}
    refused = decide(client, booth, decision, **typed)
    assert refused.status_code == 422
    assert "Open the preview first" in refused.content.decode()
    assert fresh(booth).is_pending
    costs["postscript"] += " And more."
    checked(client, booth)
    refused = decide(client, booth, decision, **typed, read=token)
    assert refused.status_code == 422  # another preview was opened
    page = client.get(f"/inbox/{booth.pk}/").content.decode()
    read = tokens_in(page)
    assert decide(client, booth, decision, **typed, read=read).status_code == 303
    assert not fresh(booth).is_pending


def test_an_edit_that_spells_the_same_otherwise_is_an_approval_too(
    signed_in, alice, make_thread, costs
):
    costs["postscript"] = f"\n{LONG}"
    asked = {"what": "booth", "price": "1200.5"}
    (booth,) = make_waiting(make_thread(owner=alice), alice, ("rent", asked))
    client = signed_in(alice)
    typed = {"json": '{"price": 1200.5, "what": "booth"}'}
    refused = decide(client, booth, "edit", **typed)
    assert refused.status_code == 422
    assert "Open the preview first" in refused.content.decode()
    assert fresh(booth).is_pending
    read = tokens_in(client.get(f"/inbox/{booth.pk}/").content.decode())
    assert decide(client, booth, "edit", **typed, read=read).status_code == 303
    assert not fresh(booth).is_pending


def test_a_preview_may_say_numbers_where_others_say_text(
    signed_in, alice, make_thread, costs
):
    costs |= {"subject": 20_261_124, "poster": 70_707}
    thread = make_thread(owner=alice)
    (booth, poster) = make_waiting(
        thread, alice, ("rent", BOOTH), ("announce", {"text": "Open"})
    )
    client = signed_in(alice)
    for request, number in ((booth, "20261124"), (poster, "70707")):
        page = client.get(f"/inbox/{request.pk}/").content.decode()
        assert number in preview_on(page)
        assert client.get(f"/inbox/?id={request.pk}").status_code == 200
    picked = f"id={booth.pk}&id={poster.pk}"
    together = client.get(f"/inbox/batch?do=approve&{picked}")
    assert together.status_code == 200
    assert decide(client, booth, "approve").status_code == 303


def test_an_edit_need_not_open_the_preview_of_what_it_replaces(
    signed_in, alice, poster
):
    request = poster(LONG)
    client = signed_in(alice)
    page = client.get(f"/inbox/{request.pk}/edit").content.decode()
    assert "of the arguments before your edits" in preview_on(page)
    assert "Open the preview" not in page
    typed = {"arg/text": "Closed"}
    assert decide(client, request, "edit", **typed).status_code == 303
    assert not fresh(request).is_pending


def test_what_has_a_long_preview_is_not_approved_on_a_list(
    signed_in, alice, make_thread, costs
):
    costs["postscript"] = f"\n{LONG}"
    (booth,) = make_waiting(make_thread(owner=alice), alice, ("rent", BOOTH))
    client = signed_in(alice)
    page = client.get(f"/inbox/batch?do=approve&id={booth.pk}").content.decode()
    assert "Its preview is longer than fits here" in page
    sent = f"{booth.pk}:1:{bytes(booth.digest).hex()}:{'00' * 32}"
    client.post("/inbox/batch", {"do": "approve", "seen": [sent]})
    assert fresh(booth).is_pending


@pytest.mark.parametrize("terms", [{"approvers": 2}, {"exclude": ("editor",)}])
def test_without_a_guard_too_an_edit_that_waits_gets_another_preview(
    signed_in, alice, poster, terms
):
    request = poster("Open", **terms)
    client = signed_in(alice)
    decide(client, request, "edit", **{"arg/text": "Closed"})
    page = client.get(f"/inbox/{request.pk}/").content.decode()
    assert "Open &lt;b&gt;" not in page
    assert "The preview was of the arguments before the edit." in page
    assert LOAD in page  # made for whoever looks
    client.post(f"/inbox/{request.pk}/check")
    page = client.get(f"/inbox/{request.pk}/").content.decode()
    assert "A preview of the arguments as they are now is being made…" in page
    assert LOAD not in page
    looks.check(request.pk)
    page = client.get(f"/inbox/{request.pk}/").content.decode()
    assert "Closed &lt;b&gt;" in preview_on(page)
    assert "apr-no-preview" not in page
    assert (fresh(request).revision, fresh(request).guard) == (2, "")
    assert not guards.ask_check(fresh(request), alice)  # there is nothing to look at


def test_a_preview_that_no_worker_makes_is_given_up(signed_in, alice, poster):
    request = poster(approvers=2)
    client = signed_in(alice)
    decide(client, request, "edit", **{"arg/text": "Closed"})
    client.post(f"/inbox/{request.pk}/check")
    long_ago = timezone.now() - guards.GIVE_UP - timedelta(seconds=5)
    with unscoped(Reason.TEST):
        Approval.objects.update(guard_asked_at=long_ago)
        guards.chase()
    assert (fresh(request).guard, fresh(request).guard_asked_at) == ("", None)
    page = client.get(f"/inbox/{request.pk}/").content.decode()
    assert "Another one could not be made." in page
    assert LOAD not in page
    assert "Make a preview" in page


def test_a_call_in_doubt_is_not_shown_with_the_preview_of_other_arguments(
    signed_in, alice, poster
):
    request = poster("Open")
    client = signed_in(alice)
    decide(client, request, "edit", **{"arg/text": "Closed"})
    decided = fresh(request)
    with unscoped(Reason.TEST):
        announce = registry.tool("waiting-desk", "announce")
        tried = Request(
            decided.call, announce, {"text": "Open"}, in_doubt="LookupError"
        )
        ask(decided.run, [tried])
    page = client.get(f"/inbox/{request.pk}/").content.decode()
    assert "outcome unknown" in page
    assert "Closed" in page
    assert "apr-preview" not in page
    assert not guards.ask_check(fresh(request), alice)


def test_edited_arguments_are_not_shown_with_the_preview_of_those_before(
    signed_in, alice, bob, make_thread
):
    (booth,) = make_waiting(
        make_thread(owner=alice), alice, ("rent", BOOTH), terms=Terms(approvers=2)
    )
    client = signed_in(alice)
    typed = {"arg/what": "stall", "arg/price": "1200.00"}
    assert decide(client, booth, "edit", **typed).status_code == 303
    page = client.get(f"/inbox/{booth.pk}/").content.decode()
    assert "booth &lt;b&gt;" not in page
    assert "The preview was of the arguments before the edit." in page
    assert LOAD in page  # another one is made for whoever looks
    assert "stall &lt;b&gt;" in checked(client, booth)
