"""What is kept apart: chips where it stood, a page, an image, a download; nothing runs."""

from __future__ import annotations

import os
from base64 import b64encode
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from agents.models import Run
from checkpoints import blobs, gate, stores
from checkpoints.access import Reason, unscoped
from checkpoints.models import AuditEvent, Blob
from checkpoints.pure import ops, refs
from tests.pages.conftest import append, reply, result

HOSTILE = "<script>alert(1)</script>\u202e " + "long " * 20_000
PNG = b"\x89PNG\r\n\x1a\n" + bytes(400)
URL = f"data:image/png;base64,{b64encode(PNG).decode()}"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.fixture
def large(trip) -> Any:
    """The trip after a long result, a fact of many words, and an image."""
    image = {"type": "image_url", "image_url": {"url": URL}}
    looks = reply("Look.")
    looks.ops[0][2]["content"] = [{"type": "text", "text": "Look:"}, image]
    trip.branch = append(
        trip.branch,
        result("look", HOSTILE, ops.put("/facts", "page", HOSTILE + "!")),
        looks,
    )
    return trip


@pytest.fixture
def client(browser, alice) -> Any:
    return browser(alice)


def blob_of(media_type: str) -> Blob:
    with unscoped(Reason.TEST):
        return Blob.objects.filter(media_type=media_type).earliest("created_at")


def put(trip, content: bytes, media_type: str) -> str:
    made = blobs.put(trip.thread, content, media_type=media_type)
    return f"/threads/{trip.thread.pk}/blobs/{made.pk}/"


def shown(client, address: str, **query: str) -> str:
    page = client.get(address, query)
    assert page.status_code == 200
    text: str = page.content.decode()
    return text


def openings(purpose: str) -> int:
    with unscoped(Reason.TEST):
        return AuditEvent.objects.filter(action="open", purpose=purpose).count()


@pytest.mark.parametrize("tab", ["diff", "state", "messages", "context", "raw"])
def test_each_tab_shows_a_chip_in_its_place(client, large, tab):
    text = blob_of("text/plain")
    step = large.branch.head_step - 1
    page = shown(client, large.page(step), tab=tab)
    assert f'href="/threads/{large.thread.pk}/blobs/{text.pk}/"' in page or tab in (
        "context",  # of the model's last call, which was before
    )
    assert "text, 97.7 KB" in page
    assert "<script>alert" not in page
    assert "\u202e" not in page
    page = shown(client, large.page(step + 1), tab=tab)
    assert f"/blobs/{blob_of('image/png').pk}/image" in page
    assert "base64" not in page


def test_the_state_is_searched_by_the_first_words(client, large):
    found = shown(client, large.page(large.branch.head_step), tab="state", q="alert(1)")
    assert found.count('class="blob"') >= 2


def test_what_only_looks_like_a_reference_is_shown_as_it_is(
    client, large, make_trip, alice
):
    """One of another thread, and one of none."""
    other = make_trip(alice, title="Elsewhere")
    theirs = blobs.put(other.thread, b"x" * 10, media_type="image/png")
    for forged in (blobs.ref_to(theirs), refs.ref(uuid4(), 5, "image/png", "words")):
        step = result("look", "x", ops.put("/facts", "forged", forged))
        large.branch = append(large.branch, step)
        for tab in ("diff", "state", "raw"):
            page = shown(client, large.page(large.branch.head_step), tab=tab)
            inspector = page.partition('id="inspector"')[2]
            assert forged["$blob"] in inspector
            assert f"blobs/{forged['$blob']}" not in page


def test_a_page_without_references_asks_for_none(
    client, trip, django_assert_max_num_queries
):
    with django_assert_max_num_queries(40) as asked:
        client.get(trip.page(2), {"tab": "state"})
    assert not any("checkpoints_blob" in query["sql"] for query in asked)


def test_a_page_with_many_asks_once(client, large, django_assert_max_num_queries):
    with django_assert_max_num_queries(40) as asked:
        client.get(large.page(large.branch.head_step), {"tab": "state"})
    assert sum("checkpoints_blob" in query["sql"] for query in asked) == 1


def test_text_has_a_page_that_shows_it_escaped(client, large):
    before = openings("blob page")
    page = shown(
        client, f"/threads/{large.thread.pk}/blobs/{blob_of('text/plain').pk}/"
    )
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "U+202E" in page
    assert "Board week" in page
    assert openings("blob page") == before + 1


def test_a_very_long_text_is_cut_on_its_page(client, trip):
    page = shown(client, put(trip, b"y" * 300_000, "text/plain"))
    assert "The first 200.0k of 300.0k characters" in page
    assert page.count("y" * 1000) == 200


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (PNG, "image/png"),
        (SVG, "image/svg+xml"),
        (b"<html><script>alert(1)</script>", "text/html"),
        (b"%PDF-1.4", "application/pdf"),
        (b"RIFF", "audio/wav"),
        (b"\x00", "application/x-msdownload"),
        (HOSTILE.encode(), "text/plain"),
    ],
)
def test_a_download_is_a_file_that_no_browser_opens(client, trip, content, media_type):
    before = openings("blob download")
    answer = client.get(put(trip, content, media_type) + "download")
    assert answer.status_code == 200
    assert answer.content == content
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith('attachment; filename="blob-')
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Cache-Control"] == "no-store"
    policy = answer["Content-Security-Policy"]
    assert policy == "default-src 'none'; sandbox; frame-ancestors 'none'"
    assert answer["Cross-Origin-Resource-Policy"] == "same-origin"
    assert openings("blob download") == before + 1


def test_an_image_is_drawn_only_if_it_is_one(client, trip):
    before = openings("blob image")
    answer = client.get(put(trip, PNG, "image/png") + "image")
    assert (answer.status_code, answer["Content-Type"]) == (200, "image/png")
    assert answer.content == PNG
    assert answer["Content-Disposition"] == "inline"
    assert answer["Cache-Control"] == "no-store"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer["Content-Security-Policy"]
    assert openings("blob image") == before + 1
    for content, media_type in (
        (SVG, "image/svg+xml"),
        (SVG, "image/png"),
        (b"<script>", "image/gif"),
        (b"text", "text/plain"),
    ):
        address = put(trip, content, media_type)
        assert client.get(address + "image").status_code == 404
        assert "<img" not in shown(client, address) or media_type in (
            "image/png",
            "image/gif",
        )


def test_a_missing_or_damaged_blob_says_so_and_hides_nothing_else(
    client, large, blob_dir, browser, alice
):
    blob = blob_of("text/plain")
    address = f"/threads/{large.thread.pk}/blobs/{blob.pk}/"
    file = blob_dir / blob.object_name
    whole = file.read_bytes()
    file.write_bytes(os.urandom(len(whole)))
    page = client.get(address)
    assert page.status_code == 500
    assert (
        b"This record does not open" in page.content or b"not a sealed" in page.content
    )
    file.unlink()
    page = client.get(address)
    assert page.status_code == 410
    assert b"not in the blob store any more" in page.content
    assert str(blob_dir) not in page.content.decode()
    assert client.get(address + "download").status_code == 410
    assert "text, 97.7 KB" in shown(client, large.page(), tab="state")


def test_a_viewer_may_look_and_an_auditor_may_not(large, browser, viewer, auditor):
    address = f"/threads/{large.thread.pk}/blobs/{blob_of('text/plain').pk}/"
    assert browser(viewer).get(address + "download").status_code == 200
    for path in (address, address + "download", address + "image"):
        assert browser(auditor).get(path).status_code == 403


def test_a_blob_is_found_only_through_its_own_thread(client, large, make_trip, alice):
    other = make_trip(alice, title="Elsewhere")
    blob = blob_of("text/plain")
    for what in ("", "download", "image"):
        address = f"/threads/{other.thread.pk}/blobs/{blob.pk}/{what}"
        assert client.get(address).status_code == 404


def test_a_long_message_can_be_changed_in_a_fork(client, make_trip, alice):
    trip = make_trip(alice)
    said = "Plan it. " * 9_000
    message = {"id": "m9", "role": "user", "content": said}
    step = replace(reply("x"), ops=[ops.append("/messages", message)])
    trip.branch = append(trip.branch, step)
    address = f"{trip.page()}fork/{trip.at(trip.branch.head_step)}/"
    page = shown(client, address)
    assert page.count("Plan it. " * 1000) >= 2  # to edit, and what it was
    form = {"name": "shorter", "message": said + "Now.", "do": "create"}
    made = client.post(address, {**form, "request_key": str(uuid4())})
    assert made.status_code == 303, made.content
    with unscoped(Reason.TEST):
        assert Blob.objects.filter(thread=trip.thread).count() == 2


def test_a_message_that_is_too_long_for_the_form_is_kept(client, make_trip, alice):
    trip = make_trip(alice)
    message = {"id": "m9", "role": "user", "content": "Plan it. " * 90_000}
    step = replace(reply("x"), ops=[ops.append("/messages", message)])
    trip.branch = append(trip.branch, step)
    address = f"{trip.page()}fork/{trip.at(trip.branch.head_step)}/"
    assert "too long to edit here" in shown(client, address)
    store = stores.of("local")
    store.delete(blob_of("text/plain").object_name)
    assert "too long to edit here" in shown(client, address)


def test_a_paused_run_says_why_where_people_look(client, trip):
    why = "There is no room left where large values are kept."
    with unscoped(Reason.TEST):
        Run.objects.filter(pk=trip.run.pk).update(
            status="ready",
            error_class="store_full",
            error=gate.seal(trip.run, "error", why),
        )
    page = shown(client, trip.page())
    assert why in page
    assert "paused" in page
    assert f"/runs/{trip.run.pk}/retry" in page
    listed = shown(client, "/runs/")
    assert why in listed
    assert "Try now" in listed
    client.post(f"/runs/{trip.run.pk}/retry")
    with unscoped(Reason.TEST):
        assert Run.objects.get(pk=trip.run.pk).wake_at is None
