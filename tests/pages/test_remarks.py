"""Notes, labels, stars and verdicts: who may, what is kept of them, and what is shown."""

from __future__ import annotations

from functools import cache
from html import unescape
from uuid import uuid4

import pytest
from django.utils.html import strip_tags

from agents.debug import remarks as service
from checkpoints.access import Reason, Role
from checkpoints.models import AuditEvent, Remark, Thread


def text(response) -> str:
    """What a reader of the page has before them, its markup taken away."""
    return " ".join(unescape(strip_tags(response.content.decode())).split())


@pytest.fixture
def admin(join):
    return join("ada", Role.ADMIN)


def rows(**having):
    found = Remark.objects.unscoped(Reason.TEST).filter(**having)
    return list(found.order_by("created_at", "pk"))


@pytest.fixture
def browser(browser):
    """One browser for each person: what was said to them is told on their next page."""
    return cache(browser)


@pytest.fixture
def send(browser, trip):
    """Sends the panel's form, as a browser without script or as HTMX."""

    def send(person, do, words="", *, about="step", step=2, htmx=False, **more):
        values = {
            "do": do,
            "about": about,
            "text": words,
            "branch": str(trip.branch.pk),
            "step": str(trip.at(step)),
            "request_key": str(uuid4()),
            **{name: str(value) for name, value in more.items()},
        }
        headers = {"HX-Request": "true"} if htmx else {}
        return browser(person).post(f"{trip.page()}remarks", values, headers=headers)

    return send


def page(browser, person, trip, step=2):
    return browser(person).get(trip.page(step))


# Notes


def test_a_note_is_shown_at_its_step_with_who_wrote_it(send, browser, trip, alice):
    response = send(alice, "note", "Quote is $210 above the shortlist.")
    assert response.status_code == 303
    assert response["Location"] == trip.page(2)
    shown = text(browser(alice).get(response["Location"]))
    assert "Quote is $210 above the shortlist." in shown
    assert "Note added" in shown
    other_step = page(browser, alice, trip, 3).content.decode()
    assert "above the shortlist" not in other_step
    assert other_step.count("Somebody noted something") == 1  # beside step 2


def test_notes_of_the_branch_and_the_thread_are_shown_at_each_step(
    send, browser, trip, alice
):
    send(alice, "note", "The cheaper model failed.", about="branch")
    send(alice, "note", "Ask Helen first.", about="thread")
    for step in (0, 3):
        shown = text(page(browser, alice, trip, step))
        assert "The cheaper model failed." in shown
        assert "Ask Helen first." in shown
    fork = text(browser(alice).get(f"{trip.page()}?branch={trip.cheap.pk}"))
    assert "The cheaper model failed." not in fork
    assert "Ask Helen first." in fork


def test_htmx_is_answered_with_the_panel_and_the_list(send, alice):
    shown = send(alice, "note", "Check the fare class.", htmx=True).content.decode()
    assert shown.lstrip().startswith("<section")
    assert "Check the fare class." in shown
    assert 'hx-target="#steps"' in shown
    assert "Somebody noted something" in shown
    assert "<html" not in shown


def test_a_note_is_sealed_and_the_log_has_no_word_of_it(send, alice):
    send(alice, "note", "Do not tell Helen.")
    [row] = rows()
    assert b"Helen" not in bytes(row.text)
    [event] = AuditEvent.objects.unscoped(Reason.TEST).filter(action="remark")
    assert event.detail["kind"] == "note"
    assert event.detail["remark"] == str(row.pk)
    assert "Helen" not in str(event.detail)


def test_a_double_click_writes_one_note(send, alice):
    key = uuid4()
    for _ in range(2):
        assert send(alice, "note", "Once.", request_key=key).status_code == 303
    assert len(rows()) == 1


@pytest.mark.parametrize(
    "other",
    [{"words": "Second."}, {"do": "bad"}, {"about": "thread"}, {"step": 3}],
)
def test_a_form_that_is_gone_back_to_says_that_it_was_sent(send, alice, other):
    """Without script, a page that is gone back to has the key that it had."""
    key = uuid4()
    send(alice, "note", "First.", request_key=key)
    sent = {"do": "note", "words": "First."} | other
    response = send(alice, **sent, request_key=key)
    shown = response.content.decode()
    assert response.status_code == 422
    assert "This form was sent before, with something else" in text(response)
    assert f"{sent['words']}</textarea>" in shown
    assert str(key) not in shown
    assert len(rows()) == 1


def test_nobody_uses_the_key_of_anothers_form(send, alice, admin):
    key = uuid4()
    send(alice, "note", "Mine.", request_key=key)
    assert send(admin, "note", "Yours.", request_key=key).status_code == 403
    assert len(rows()) == 1


@pytest.mark.parametrize(
    ("do", "words", "said"),
    [
        ("note", "  ", "Write the note first."),
        (
            "note",
            "n" * 4001,
            "A note has at most 4,000 characters; this one has 4,001.",
        ),
        ("label", "", "Write the label first."),
        ("label", "n" * 41, "A label has at most 40 characters; this one has 41."),
        ("bad", "n" * 501, "A reason has at most 500 characters; this one has 501."),
        ("note", "nul\0", "text: Null characters are not allowed."),
    ],
)
@pytest.mark.parametrize("htmx", [False, True])
def test_what_does_not_fit_is_said_and_what_was_typed_stays(
    send, alice, do, words, said, htmx
):
    response = send(alice, do, words, htmx=htmx, about="thread")
    shown = response.content.decode()
    assert response.status_code == 422
    assert said in shown
    assert ("<html" in shown) is not htmx
    assert words.strip().replace("\0", "") in shown
    assert '<option value="thread" selected>' in shown
    assert not rows()


@pytest.mark.parametrize("changed", [{"do": "praise"}, {"about": "world"}])
def test_a_form_that_is_none_of_ours_is_told_so(send, alice, changed):
    response = send(alice, **{"do": "note", "words": "x", **changed})
    assert response.status_code == 422
    assert not rows()


def test_what_is_not_of_the_thread_cannot_be_noted(
    send, browser, alice, make_trip, trip
):
    elsewhere = make_trip(alice)
    assert send(alice, "note", "x").status_code == 303
    for more in (
        {"about": "step", "step": elsewhere.at(2)},
        {"about": "branch", "branch": elsewhere.branch.pk},
    ):
        values = {"do": "note", "text": "x", **more}
        response = browser(alice).post(f"{trip.page()}remarks", values)
        assert response.status_code == 404
    assert len(rows()) == 1


# Taking back


def test_a_note_that_is_removed_leaves_who_and_when(send, browser, trip, alice, admin):
    send(alice, "note", "A hasty word.")
    [row] = rows()
    assert send(admin, "remove", remark=row.pk).status_code == 303
    shown = text(page(browser, alice, trip))
    assert "A hasty word." not in shown
    assert f"removed by {admin.name}" in shown
    [row] = rows()
    assert row.text is None
    events = AuditEvent.objects.unscoped(Reason.TEST).filter(action="remark_remove")
    assert [event.actor_id for event in events] == [admin.user_id]
    assert "Somebody noted something" not in page(browser, alice, trip).content.decode()


def test_removing_twice_is_removing_once(send, browser, alice):
    send(alice, "note", "A hasty word.")
    [row] = rows()
    send(alice, "remove", remark=row.pk)
    first = rows()
    response = send(alice, "remove", remark=row.pk)
    assert response.status_code == 303
    assert rows() == first
    assert "taken back already" in text(browser(alice).get(response["Location"]))


def test_only_who_wrote_it_or_an_admin_removes_it(send, alice, admin):
    send(admin, "note", "An admin's.")
    [row] = rows()
    assert send(alice, "remove", remark=row.pk).status_code == 403
    assert rows()[0].removed_at is None


def test_what_is_no_remark_of_the_thread_is_not_found(send, alice):
    assert send(alice, "remove", remark=uuid4()).status_code == 404


# Labels


def test_a_label_is_a_chip_and_the_same_one_is_put_once(send, browser, trip, alice):
    send(alice, "label", "needs  review")
    send(alice, "label", "Needs Review")
    assert len(rows(kind="label")) == 1
    assert "needs review" in text(page(browser, alice, trip))


def test_threads_are_found_by_label_without_opening_any(
    send, alice, other, trip, make_trip, django_assert_num_queries
):
    make_trip(alice)
    send(alice, "label", "Needs review", about="thread")
    service.labelled(alice, "x").exists()  # the key is known from now on
    with django_assert_num_queries(1):
        labels = service.labelled(alice, "needs REVIEW").values("thread")
        found = list(Thread.objects.for_user(alice).filter(pk__in=labels))
    assert found == [trip.thread]
    assert not service.labelled(alice, "needs").exists()
    assert not service.labelled(other, "Needs review").exists()


def test_a_label_that_was_taken_off_finds_nothing(send, alice):
    send(alice, "label", "urgent")
    [row] = rows()
    send(alice, "remove", remark=row.pk)
    assert not service.labelled(alice, "urgent").exists()
    send(alice, "label", "urgent")  # and may be put on again
    assert service.labelled(alice, "urgent").count() == 1


def test_a_twenty_first_label_is_refused(send, alice, trip):
    about = service.About(trip.thread)
    for n in range(service.MOST_LABELS):
        service.label(about, alice, text=f"label {n}")
    response = send(alice, "label", "one more", about="thread")
    assert response.status_code == 422
    assert "There are 20 labels on this already" in text(response)
    assert send(alice, "label", "label 3", about="thread").status_code == 303
    assert send(alice, "label", "one more", about="branch").status_code == 303


def test_a_thread_takes_only_so_many(send, alice, trip, monkeypatch):
    monkeypatch.setattr(service, "MOST", 2)
    for n in range(2):
        send(alice, "note", f"Note {n}")
    assert "which is the most" in text(send(alice, "bad"))
    send(alice, "star")  # these are apart
    assert [row.kind for row in rows()] == ["note", "note", "star"]


# Stars


def test_a_star_is_ones_own(send, browser, trip, alice, viewer):
    send(viewer, "star", about="thread")
    starred = text(browser(viewer).get("/threads/?status=starred"))
    assert "Board week New York" in starred
    assert "Starred 1" in starred
    others = text(browser(alice).get("/threads/?status=starred"))
    assert "Board week New York" not in others
    assert "Starred 0" in others
    assert "You starred it" not in page(browser, alice, trip).content.decode()


def test_a_star_goes_as_it_came(send, browser, trip, alice):
    for _ in range(2):
        send(alice, "star")
    assert len(rows(removed_at=None)) == 1
    assert "You starred it" in page(browser, alice, trip).content.decode()
    for _ in range(2):
        send(alice, "unstar")
    assert not rows(removed_at=None)
    assert "You starred it" not in page(browser, alice, trip).content.decode()
    send(alice, "star")
    assert len(rows(removed_at=None)) == 1


def test_a_starred_branch_comes_first_in_ones_own_menu(send, browser, trip, alice, bob):
    def menu(person):
        shown = page(browser, person, trip).content.decode()
        items = shown.partition('id="branch-menu"')[2].partition("</details>")[0]
        main, cheap = items.index(">main<"), items.index(">cheaper-model<")
        return cheap < main, "starred" in items

    assert menu(alice) == (False, False)
    send(alice, "star", about="branch", branch=trip.cheap.pk)
    assert menu(alice) == (True, True)
    assert menu(bob) == (False, False)  # a star is one's own


# Verdicts


def test_the_newest_verdict_counts_and_all_are_kept(send, browser, trip, alice, admin):
    send(alice, "bad", "The fare is stale.", about="thread")
    send(admin, "good", "It was asked again.", about="thread")
    shown = page(browser, alice, trip).content.decode()
    of_thread = shown.partition('id="remarks-thread"')[2]
    assert f"({admin.name})" in of_thread
    assert f"({alice.name})" not in of_thread
    assert "The fare is stale." not in shown
    everything = text(browser(alice).get(f"{trip.page()}remarks"))
    assert "The fare is stale." in everything
    assert "It was asked again." in everything


def test_a_verdict_that_is_taken_back_uncovers_the_one_before(
    send, browser, trip, alice, admin
):
    send(admin, "bad", "The fare is stale.")
    send(alice, "good")
    send(alice, "remove", remark=rows(kind="good")[0].pk)
    assert "The fare is stale." in text(page(browser, alice, trip))


def test_the_comparison_shows_each_branchs_verdict(send, browser, trip, alice, auditor):
    send(alice, "bad", "Dearer.", about="branch", branch=trip.cheap.pk)
    send(alice, "good", "Of a step, not of the branch.")
    address = f"/threads/compare/{trip.branch.pk}/{trip.cheap.pk}/"

    def row(person):
        shown = browser(person).get(address).content.decode()
        return shown.partition('id="cmp-verdict"')[2].partition("</tr>")[0]

    mine = row(alice)
    assert "\N{EN DASH}" in mine
    assert "good" not in mine
    assert "Dearer." in mine
    assert f"({alice.name})" in mine
    sealed = row(auditor)
    assert sealed.count("sealed") == 2
    assert "bad" not in sealed


def test_the_list_shows_what_is_said_of_a_thread(send, browser, trip, alice, auditor):
    send(alice, "label", "urgent", about="thread")
    send(alice, "bad", about="thread")
    send(alice, "label", "of a step")
    send(alice, "star", about="thread")
    shown = text(browser(alice).get("/threads/"))
    assert "urgent" in shown
    assert f"({alice.name})" in shown
    assert "of a step" not in shown
    assert "starred" in shown
    sealed = text(browser(auditor).get("/threads/"))
    assert "urgent" not in sealed
    assert f"({alice.name})" not in sealed


# Rights


def test_a_viewer_reads_and_writes_nothing_but_stars(
    send, browser, trip, alice, viewer
):
    send(alice, "note", "For all to read.")
    shown = page(browser, viewer, trip).content.decode()
    assert "For all to read." in shown
    assert "remark-form" not in shown
    for do in ("note", "label", "good", "bad"):
        response = send(viewer, do, "x")
        assert response.status_code == 403
        assert "An operator of the workspace can write notes" in text(response)
    [row] = rows()
    assert send(viewer, "remove", remark=row.pk).status_code == 403
    assert send(viewer, "star").status_code == 303


def test_an_auditor_sees_that_it_is_sealed(send, browser, trip, alice, auditor):
    send(alice, "note", "For readers only.")
    shown = page(browser, auditor, trip).content.decode()
    assert "For readers only." not in shown
    assert 'id="remarks-sealed"' in shown
    assert "Somebody noted something" not in shown
    everything = text(browser(auditor).get(f"{trip.page()}remarks"))
    assert "For readers only." not in everything
    assert "sealed" in everything
    for do in ("note", "star"):
        assert send(auditor, do, "x").status_code == 403
    assert len(rows()) == 1


def test_a_private_threads_notes_are_its_owners(browser, make_trip, alice, admin):
    mine = make_trip(alice, visibility="private")
    service.note(service.About(mine.thread), alice, text="Mine.")
    [row] = rows()
    values = {"do": "remove", "about": "thread", "remark": str(row.pk)}
    address = f"{mine.page()}remarks"
    assert browser(admin).get(address).status_code == 404
    assert browser(admin).post(address, values).status_code == 404


# Foreign text


HOSTILE = '<script>alert(1)</script>\u202e{{ x }}" onload="x'


@pytest.mark.parametrize("do", ["note", "label", "bad"])
def test_hostile_text_is_text(send, browser, trip, alice, do):
    send(alice, do, HOSTILE[:40], about="thread")
    for address in (trip.page(2), f"{trip.page()}remarks", "/threads/"):
        shown = browser(alice).get(address).content.decode()
        assert "<script>alert" not in shown
        assert "\u202e" not in shown
    shown = browser(alice).get(trip.page(2)).content.decode()
    assert "&lt;script&gt;alert(1)" in shown
    assert "U+202E" in shown


def test_a_secret_in_a_note_is_not_stored(send, browser, trip, alice):
    send(alice, "note", "The key is sk-proj-" + "a1B2" * 12)
    shown = text(page(browser, alice, trip))
    assert "sk-proj-a1B2" not in shown
    assert "[secret" in shown


# All of them


def test_the_page_of_all_shows_what_they_are_about_in_pages(
    send, browser, trip, alice, monkeypatch
):
    monkeypatch.setattr("agents.pages.remarks.history.PAGE", 2)
    send(alice, "note", "On the step.", step=2)
    send(alice, "note", "On the branch.", about="branch", branch=trip.cheap.pk)
    send(alice, "note", "On the thread.", about="thread")
    client = browser(alice)
    first = client.get(f"{trip.page()}remarks")
    shown = text(first)
    assert "On the thread." in shown
    assert "cheaper-model" in shown
    assert "On the step." not in shown
    older = first.content.decode().partition('href="?before=')[2].partition('"')[0]
    shown = text(client.get(f"{trip.page()}remarks", {"before": older}))
    assert "On the step." in shown
    assert "step 2 of main" in shown
    assert client.get(f"{trip.page()}remarks", {"before": "x"}).status_code == 200
