"""Export and import on their pages: the same file, and what was chosen is kept."""

from __future__ import annotations

import json
from uuid import UUID, uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from checkpoints.access import Reason
from checkpoints.models import Thread
from tests.pages.test_sweep import bundle


@pytest.fixture
def client(browser, alice):
    return browser(alice)


def send(client, data: bytes, **more):
    form = {"visibility": "private", "request_key": uuid4(), **more}
    file = SimpleUploadedFile("trip.json", data)
    return client.post("/threads/import", {"file": file, **form})


def imported() -> list[Thread]:
    threads = Thread.objects.unscoped(Reason.TEST)
    return list(threads.filter(origin=Thread.Origin.IMPORT))


def test_the_threads_menu_leads_to_the_page_with_the_choice_made(client, trip):
    page = client.get(trip.page(2)).content.decode()
    address = f"/threads/{trip.thread.pk}/export?what=step&amp;branch={trip.branch.pk}"
    assert f'{address}&amp;step=2"' in page
    page = client.get(f"{trip.page()}export?what=step&step=2").content.decode()
    assert 'value="step" checked' in page
    assert "Step 2 of the branch" in page


@pytest.mark.parametrize(("what", "steps"), [("step", 1), ("branch", 5), ("thread", 8)])
def test_a_file_is_handed_over(client, trip, what, steps):
    response = client.post(f"{trip.page()}export?step=2", {"what": what})
    assert response["Content-Type"] == "application/json"
    assert response["Content-Disposition"].startswith(f'attachment; filename="{what}-')
    assert response["Cache-Control"] == "no-store"
    found = json.loads(response.content)
    assert found["manifest"]["holds"] == what
    assert found["manifest"]["counts"]["steps"] == steps
    assert found["manifest"]["made_by"] == "Alice"


def test_what_is_wrong_with_a_path_is_said_and_what_was_typed_is_kept(client, trip):
    sent = {"what": "branch", "masked": "/vars/a\nvars <b>"}
    response = client.post(f"{trip.page()}export", sent)
    page = response.content.decode()
    assert response.status_code == 422
    assert "A path begins with a slash" in page
    assert "vars &lt;b&gt;</textarea>" in page
    assert 'value="branch" checked' in page


@pytest.mark.parametrize(
    "query", ["branch=x", f"branch={UUID(int=7)}", "step=99", "step=-1"]
)
def test_a_branch_or_step_that_is_not_there_is_404(client, trip, query):
    assert client.get(f"{trip.page()}export?{query}").status_code == 404


def test_what_was_exported_is_imported_on_the_page(client, trip):
    text = client.post(f"{trip.page()}export", {"what": "thread"}).content
    response = send(client, text)
    [thread] = imported()
    assert response.status_code == 303
    assert response["Location"] == f"/threads/{thread.pk}/"
    assert thread.visibility == "private"
    page = client.get(response["Location"]).content.decode()
    assert "stays as it came" in page
    assert "Imported." in page
    for tab in ("state", "messages", "context", "effects", "raw", "diff"):
        assert client.get(f"{response['Location']}?tab={tab}").status_code == 200


def test_two_clicks_import_one(client, alice):
    data, key = bundle(), uuid4()
    first, second = (send(client, data, request_key=key) for _ in range(2))
    assert first["Location"] == second["Location"]
    assert len(imported()) == 1


def test_a_bundle_lies_in_no_temporary_file(client, alice, settings, tmp_path):
    settings.FILE_UPLOAD_TEMP_DIR = str(tmp_path / "nowhere")
    response = send(client, bundle() + b" " * (15 * 1024**2))
    assert response.status_code == 303
    assert len(imported()) == 1


@pytest.mark.parametrize("data", [b"", b"[]", b'{"a": 1, "a": 2}', b"\xff", None])
def test_what_is_refused_is_said_with_the_choice_kept(client, alice, data):
    if data is None:
        data = bundle().replace(b"Hello", b"Help!")
    response = send(client, data)
    page = response.content.decode()
    assert response.status_code == 422
    assert "Nothing of it was imported." in page
    assert '<option value="private" selected>' in page
    assert not imported()


def test_no_file_is_asked_for(client, alice):
    form = {"visibility": "private", "request_key": uuid4()}
    response = client.post("/threads/import", form)
    assert response.status_code == 422
    assert "Choose the file that was exported." in response.content.decode()


def test_what_was_done_elsewhere_is_told_as_such(client, trip):
    text = client.post(f"{trip.page()}export", {"what": "thread"}).content
    page = send(client, text)["Location"]
    facts = client.get(f"{page}?step=1").content.decode()
    assert 'id="elsewhere"' in facts
    effects = client.get(f"{page}?step=4&tab=effects").content.decode()
    assert 'id="calls-elsewhere"' in effects
    assert f"APR-{trip.approval.number} pending" in effects
    assert "No tool was called." not in effects


def test_a_test_case_is_handed_over_or_refused(client, trip):
    page = f"{trip.page()}export?branch={trip.branch.pk}"
    response = client.post(f"{page}&step=1", {"what": "test"})
    assert json.loads(response.content)["format"] == "holdpoint test case"
    tip = client.post(page, {"what": "test"})
    assert tip.status_code == 409
    assert "Nothing follows step 4" in tip.content.decode()
    masked = client.post(f"{page}&step=1", {"what": "test", "masked": "/vars"})
    assert masked.status_code == 422
    assert "A test case needs its state whole" in masked.content.decode()


def test_a_model_call_is_there_as_curl_and_as_python(client, trip):
    page = client.get(f"{trip.page(1)}?tab=context").content.decode()
    assert 'data-copy-of="#as-curl"' in page
    curl = page.partition('id="as-curl"')[2].partition("</pre>")[0]
    assert "$OPENAI_API_KEY" in curl
    assert "You plan trips.\\nQuote every fare once." in curl
    python = page.partition('id="as-python"')[2].partition("</pre>")[0]
    assert "client.chat.completions.create(" in python
    assert "&#x27;scripted&#x27;" in python


def test_the_same_bundle_again_says_which_thread_it_is(client, alice):
    data = bundle()
    send(client, data)
    [thread] = imported()
    response = send(client, data)
    assert response.status_code == 409
    assert f"was imported before, as {thread}" in response.content.decode()
