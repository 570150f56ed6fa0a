from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import User
from django.test import Client

FORM = "application/x-www-form-urlencoded"
STRICT = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
}


def policy(answer) -> set[str]:
    return set(answer["Content-Security-Policy"].split("; "))


@pytest.fixture
def staff(db) -> User:
    return User.objects.create_user("stan", password="stan", is_staff=True)


def test_every_page_carries_the_strict_policy(client: Client):
    for path in ("/login", "/healthz", "/nothing-is-here"):
        answer = client.get(path)
        assert policy(answer) == STRICT
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["X-Frame-Options"] == "DENY"
        assert answer["Referrer-Policy"] == "same-origin"
        assert "camera=()" in answer["Permissions-Policy"]


def test_only_the_admins_pages_may_carry_inline_code(admin_client: Client):
    for path in ("/admin/", "/django-rq/"):
        answer = admin_client.get(path)
        assert answer.status_code == 200
        assert "script-src 'self' 'unsafe-inline'" in policy(answer)
        assert "default-src 'none'" in policy(answer)


@pytest.mark.parametrize(
    "path", ["/django-rq/", "/django-rq/stats.json", "/admin/django_rq/dashboard/"]
)
def test_queue_pages_are_for_superusers(client: Client, admin_client, staff, path):
    assert admin_client.get(path).status_code == 200
    assert client.get(path).status_code == 404
    client.force_login(staff)
    assert client.get(path).status_code == 404


def test_static_files_are_served_whole_and_to_asynchronous_servers(client: Client):
    answer = client.get("/static/admin/css/base.css")
    assert answer.status_code == 200
    assert not answer.streaming
    assert answer["Content-Type"].startswith("text/css")
    assert len(answer.content) == int(answer["Content-Length"])


def test_a_static_file_that_has_not_changed_is_not_sent_again(client: Client):
    first = client.get("/static/admin/css/base.css")
    again = client.get(
        "/static/admin/css/base.css", headers={"If-None-Match": first["ETag"]}
    )
    assert again.status_code == 304
    assert again.content == b""


@pytest.mark.django_db  # it looks for its keys when it is imported
def test_the_asgi_application_answers(monkeypatch):
    # It says that this process is the web's, which the processes that later tests start
    # must not inherit.
    monkeypatch.setenv("DATABASE_POOL", "8")
    monkeypatch.setenv("DATABASE_ROLE", "web")
    from project.asgi import application

    async def ask() -> int:
        browser = ApplicationCommunicator(
            application,
            {
                "type": "http",
                "method": "GET",
                "path": "/healthz",
                "query_string": b"",
                "headers": [(b"host", b"localhost")],
            },
        )
        await browser.send_input({"type": "http.request", "body": b""})
        # The first request of a process imports every page.
        status: int = (await browser.receive_output(timeout=60))["status"]
        await browser.wait(timeout=60)
        return status

    # In a thread of its own: Playwright keeps a loop in the main one.
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(lambda: asyncio.run(ask())).result() == 200


@pytest.mark.parametrize("charset", ["utf-7", "unicode_escape", "zlib", "nonsense"])
@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=B", FORM])
def test_a_form_in_another_charset_than_utf_8_is_refused(client: Client, kind, charset):
    answer = client.generic(
        "POST", "/login", b"--B--", content_type=f"{kind}; charset={charset}"
    )
    assert answer.status_code == 400
    assert policy(answer) == STRICT
    assert client.get("/login", headers={"Content-Type": FORM}).status_code == 200


def test_a_form_that_cannot_be_read_is_a_400_with_csrf_checked(settings):
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 2
    client = Client(enforce_csrf_checks=True)
    client.get("/login")
    answer = client.post("/login", dict.fromkeys("abcd", "1"))
    assert answer.status_code == 400
    assert "could not be read" in answer.content.decode()
